"""Calls run several at once, one at a time for each server."""

import threading
from collections.abc import Callable

import pytest

from covey.agent.call_runner import CallRunner
from covey.agent.service_api import Call
from tests.unit.agent.build import a_call

TIMEOUT_S = 10.0


class Recorder:
    """Holds every call until it is let go."""

    def __init__(self) -> None:
        self.begun: list[Call] = []
        self._changed = threading.Condition()
        self._released: set[int | str] = set()

    def __call__(self, call: Call, _: float) -> None:
        with self._changed:
            self.begun.append(call)
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: call.id in self._released, TIMEOUT_S)

    def let_go(self, *ids: int) -> None:
        with self._changed:
            self._released.update(ids)
            self._changed.notify_all()

    def wait_for(self, number: int) -> list[int | str]:
        """Return the ids of the calls that have begun, once there are so many."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.begun) >= number, TIMEOUT_S), self.begun
            return [call.id for call in self.begun]


def settled(condition: Callable[[], bool]) -> bool:
    """Whether a condition becomes true soon."""
    pause = threading.Event()
    return any(condition() or pause.wait(0.01) for _ in range(500))


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def test_calls_of_different_servers_run_at_once(recorder: Recorder) -> None:
    runner = CallRunner(2, recorder)
    for number in (1, 2, 3):
        runner.submit(a_call(number, f"s{number}"))
    assert sorted(map(str, recorder.wait_for(2))) == ["1", "2"]
    assert runner.wait_for_room(0) == 0
    recorder.let_go(1)
    assert 3 in recorder.wait_for(3)
    recorder.let_go(2, 3)


def test_calls_of_one_server_run_one_after_another(recorder: Recorder) -> None:
    runner = CallRunner(4, recorder)
    runner.submit(a_call(1, "s1"))
    runner.submit(a_call(2, "s1", "destroy"))
    runner.submit(a_call(3, "s2"))
    assert 2 not in recorder.wait_for(2)
    recorder.let_go(1)
    assert 2 in recorder.wait_for(3)
    recorder.let_go(2, 3)


def test_console_log_does_not_wait_for_a_migration(recorder: Recorder) -> None:
    runner = CallRunner(2, recorder)
    runner.submit(a_call(1, "s1", "migrate"))
    runner.submit(a_call(2, "s1", "console_log", epoch=0))
    assert sorted(map(str, recorder.wait_for(2))) == ["1", "2"]
    recorder.let_go(1, 2)


def test_call_that_runs_is_not_queued_again_unless_its_epoch_is_newer(recorder: Recorder) -> None:
    runner = CallRunner(2, recorder)
    runner.submit(a_call(1, "s1", epoch=1))
    recorder.wait_for(1)
    runner.submit(a_call(1, "s1", epoch=1))
    runner.submit(a_call(1, "s1", epoch=2))
    recorder.let_go(1)
    recorder.wait_for(2)
    assert settled(lambda: not runner.running())
    assert [call.epoch for call in recorder.begun] == [1, 2]


def test_held_server_gets_no_call_and_a_busy_one_cannot_be_held(recorder: Recorder) -> None:
    runner = CallRunner(2, recorder)
    with runner.holding("s1") as free:
        assert free
        runner.submit(a_call(1, "s1"))
        runner.submit(a_call(2, "s2"))
        assert recorder.wait_for(1) == [2]
        with runner.holding("s2") as second:
            assert not second
    assert 1 in recorder.wait_for(2)
    recorder.let_go(1, 2)


def test_drain_drops_waiting_calls_and_returns_whether_the_others_ended(recorder: Recorder) -> None:
    runner = CallRunner(1, recorder)
    runner.submit(a_call(1, "s1"))
    recorder.wait_for(1)
    runner.submit(a_call(2, "s2"))
    assert not runner.drain(0.01)
    recorder.let_go(1)
    assert runner.drain(TIMEOUT_S)
    assert [call.id for call in recorder.begun] == [1]
