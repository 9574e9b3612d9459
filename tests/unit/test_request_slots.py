"""Request slots: the limit holds, waiters continue in order, and no slot is lost."""

import threading
import time

import pytest

from covey.request_slots import RequestSlots, Waiter

TIMEOUT_S = 30


class ConcurrencyCounter:
    """Records how many threads run `step` at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = self.most = 0

    def step(self) -> None:
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        time.sleep(0.0005)
        with self.lock:
            self.inside -= 1


@pytest.mark.parametrize("number", [1, 2, 5])
def test_no_more_requests_run_than_there_are_slots(number: int) -> None:
    request_slots, counter = RequestSlots(number), ConcurrencyCounter()

    def app(*_: object) -> list[bytes]:
        counter.step()
        with request_slots.released():
            time.sleep(0.0005)
        counter.step()
        return [b"done"]

    guarded = request_slots.guard(app)

    def send_requests() -> None:
        for _ in range(20):
            assert guarded({}, lambda *_: print) == [b"done"]

    threads = [threading.Thread(target=send_requests, daemon=True) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert not any(thread.is_alive() for thread in threads)
    assert counter.most <= number
    assert guarded({}, lambda *_: print) == [b"done"], "no slot was lost"


def test_sleeping_request_gives_up_its_slot_and_wakes_with_one() -> None:
    request_slots, waiter, order = RequestSlots(1), Waiter(), list[str]()

    def sleeper(*_: object) -> list[bytes]:
        order.append("asleep")
        request_slots.sleep(waiter)
        order.append("awake")
        return []

    def waker(*_: object) -> list[bytes]:
        request_slots.wake(waiter)
        time.sleep(0.01)
        order.append("holds the slot")
        return []

    first = threading.Thread(target=request_slots.guard(sleeper), args=({}, print), daemon=True)
    first.start()
    while order != ["asleep"]:
        time.sleep(0.001)
    request_slots.guard(waker)({}, print)  # type: ignore[arg-type]
    first.join(TIMEOUT_S)
    assert order == ["asleep", "holds the slot", "awake"]


def test_failed_request_returns_its_slot() -> None:
    request_slots = RequestSlots(1)

    def fails(*_: object) -> list[bytes]:
        raise LookupError

    for _ in range(3):
        with pytest.raises(LookupError):
            request_slots.guard(fails)({}, print)  # type: ignore[arg-type]
