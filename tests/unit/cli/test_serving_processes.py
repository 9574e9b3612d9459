"""The watchdog kills a process that stops, and no other one."""

import multiprocessing
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from covey.cli import serving_processes
from covey.cli.serving_processes import Watchdog

SILENT_S = 1.0


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with ExitStack() as stack:
        process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]))
        stack.callback(process.kill)
        yield process


def looked(dog: Watchdog, clock: list[float], seconds: float) -> None:
    """Look every half second."""
    for _ in range(int(2 * seconds)):
        clock[0] += 0.5
        dog.look()


def test_silent_process_is_killed(sleeper: subprocess.Popen[bytes]) -> None:
    clock = [100.0]
    ours, theirs = multiprocessing.Pipe(duplex=False)
    dog = Watchdog(ours, SILENT_S, lambda: {sleeper.pid}, lambda: clock[0])
    looked(dog, clock, 10)  # it has not started yet
    theirs.send_bytes(serving_processes._PID.pack(sleeper.pid))
    looked(dog, clock, SILENT_S)
    assert sleeper.poll() is None
    looked(dog, clock, 1)
    assert sleeper.wait(10) == -signal.SIGKILL


def test_pause_of_the_parent_kills_nothing(sleeper: subprocess.Popen[bytes]) -> None:
    clock = [100.0]
    ours, theirs = multiprocessing.Pipe(duplex=False)
    dog = Watchdog(ours, SILENT_S, lambda: {sleeper.pid}, lambda: clock[0])
    theirs.send_bytes(serving_processes._PID.pack(sleeper.pid))
    dog.look()
    clock[0] += 60
    dog.look()
    assert sleeper.poll() is None
