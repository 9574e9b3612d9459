"""Request slots: the limit holds, waiters continue in order, and no slot is lost."""

import math
import threading
import time
from collections.abc import Iterator

import pytest

from covey.request_slots import BUSY, FairLimit, RequestSlots, Waiter, leave_request_count, slot_released, time_left

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


def test_request_without_a_slot_at_its_deadline_is_marked_busy() -> None:
    request_slots, leave = RequestSlots(1, timeout_s=0.05), threading.Event()
    calls = list[bool]()

    def holder(*_: object) -> list[bytes]:
        leave.wait(TIMEOUT_S)
        return []

    def late(environ: dict[str, object], *_: object) -> list[bytes]:
        calls.append(BUSY in environ)
        return []

    thread = threading.Thread(target=request_slots.guard(holder), args=({}, print), daemon=True)
    thread.start()
    while not calls or not calls[-1]:  # until the holder has the slot
        request_slots.guard(late)({}, print)  # type: ignore[arg-type]
    leave.set()
    thread.join(TIMEOUT_S)
    request_slots.guard(late)({}, print)  # type: ignore[arg-type]
    assert calls[-1] is False, "no slot was lost"


def test_request_continues_without_a_slot_when_its_wait_has_taken_too_long() -> None:
    request_slots, inside, leave = RequestSlots(1, timeout_s=0.05), threading.Event(), threading.Event()
    threads = list[threading.Thread]()

    def holder(*_: object) -> list[bytes]:
        inside.set()
        leave.wait(TIMEOUT_S)
        return []

    def committed(*_: object) -> list[bytes]:
        with request_slots.released():
            threads.append(threading.Thread(target=request_slots.guard(holder), args=({}, print), daemon=True))
            threads[0].start()
            inside.wait(TIMEOUT_S)
        return [b"committed"]

    assert request_slots.guard(committed)({}, print) == [b"committed"]  # type: ignore[arg-type]
    leave.set()
    threads[0].join(TIMEOUT_S)
    assert request_slots.guard(lambda *_: [b"done"])({}, print) == [b"done"]  # type: ignore[arg-type]


def test_long_computation_does_not_use_up_the_deadline() -> None:
    request_slots = RequestSlots(1, timeout_s=0.5)

    def app(*_: object) -> list[bytes]:
        with request_slots.computing():
            time.sleep(0.6)
        return [b"in time" if time_left() > 0 else b"late"]

    assert request_slots.guard(app)({}, print) == [b"in time"]  # type: ignore[arg-type]
    assert time_left() == math.inf


def test_thread_without_a_slot_takes_none_by_waiting() -> None:
    request_slots, waiter = RequestSlots(1), Waiter()
    with request_slots.released(), slot_released():
        request_slots.wake(waiter)
    request_slots.sleep(waiter)
    assert request_slots.guard(lambda *_: [b"done"])({}, print) == [b"done"]  # type: ignore[arg-type]


class _Stream:
    """A response of two pieces, which the server closes."""

    def __init__(self) -> None:
        self.pieces = iter([b"a", b"b"])
        self.is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        return self.pieces

    def close(self) -> None:
        self.is_closed = True


def test_request_beyond_the_most_is_refused_at_once_and_a_stream_counts_until_it_is_closed() -> None:
    request_slots, sent = RequestSlots(5, max_requests=1), _Stream()

    def is_busy() -> bool:
        environ: dict[str, object] = {}
        request_slots.guard(lambda *_: [b""])(environ, print)  # type: ignore[arg-type]
        return BUSY in environ

    stream = request_slots.guard(lambda *_: sent)({}, print)  # type: ignore[arg-type]
    assert is_busy()
    assert b"".join(stream) == b"ab"
    assert is_busy(), "the server may still send its last piece"
    stream.close()  # type: ignore[attr-defined]
    assert sent.is_closed
    assert not is_busy()
    assert not is_busy(), "a refused request is not counted"


def test_request_in_a_thread_for_long_waits_is_not_counted() -> None:
    request_slots, busy = RequestSlots(5, max_requests=1), list[bool]()

    def inner(environ: dict[str, object], *_: object) -> list[bytes]:
        busy.append(BUSY in environ)
        return []

    def outer(*_: object) -> list[bytes]:
        for number in range(3):
            if number:
                leave_request_count()
            thread = threading.Thread(target=request_slots.guard(inner), args=({}, print))
            thread.start()
            thread.join(TIMEOUT_S)
        return []

    request_slots.guard(outer)({}, print)  # type: ignore[arg-type]
    request_slots.guard(inner)({}, print)  # type: ignore[arg-type]
    assert busy == [True, False, False, False]


def taken(limit: FairLimit, project: str | None) -> int:
    """Take as much as the project gets."""
    return next(number for number in range(1000) if not limit.take(project))


def test_project_gets_half_of_what_others_leave() -> None:
    limit = FairLimit(64, 16)
    assert [taken(limit, project) for project in ("m1", None, "m2", "m3", "m4")] == [16, 16, 8, 4, 2]


def test_projects_with_little_get_a_last_quarter() -> None:
    limit = FairLimit(64)
    assert [taken(limit, f"p{number}") for number in range(23)] == [24, 12, 6, 3, 2, *[1] * 17, 0]


def test_project_gets_more_again_when_others_end() -> None:
    limit = FairLimit(8)
    assert [taken(limit, "a"), taken(limit, "b")] == [3, 2]
    for _ in range(3):
        limit.release("a")
    assert taken(limit, "b") == 1


@pytest.mark.parametrize("most", [1, 2, 3])
def test_smallest_limits_admit_somebody(most: int) -> None:
    assert taken(FairLimit(most), "a") >= 1
