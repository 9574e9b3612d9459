"""CPU affinity: pins a serving process to one CPU.

Only one thread of a process runs Python at a time. If the kernel spreads the threads over several CPUs, every switch
wakes another CPU, which costs a fifth of the throughput. So a serving process stays on the CPU where it started. Long
computations outside Python, such as the solver, may run on any CPU.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STATE = Path("/proc/thread-self/stat")
_CPU_FIELD = 36  # index of the CPU field after the process name, which ends with the last parenthesis
_allowed: frozenset[int] = frozenset()  # CPUs of this process before it was pinned


def pin() -> None:
    """Pin this thread, and all threads that it starts, to the current CPU. Does nothing without /proc."""
    global _allowed  # noqa: PLW0603 -- affinity belongs to the process
    if _STATE.exists():
        _allowed = frozenset(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {int(_STATE.read_text().rpartition(")")[2].split()[_CPU_FIELD])})


@contextmanager
def unpinned() -> Iterator[None]:
    """Let this thread run on any CPU of the process while the block runs."""
    if not _allowed:
        yield
        return
    pinned = os.sched_getaffinity(0)
    os.sched_setaffinity(0, _allowed)
    try:
        yield
    finally:
        os.sched_setaffinity(0, pinned)
