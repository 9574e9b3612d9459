"""Processors: which of them a process runs on.

Only one thread of a process runs Python at a time. If the system spreads its threads over several processors, every
hand-over has to wake another one up, which costs a fifth of the speed. So a serving process stays where the system has
put it. What runs long without Python, such as a solver, may go elsewhere.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STATE = Path("/proc/thread-self/stat")
_PROCESSOR = 36  # the field's place behind the name, which ends with the last parenthesis
_allowed: frozenset[int] = frozenset()  # to this process, before it chose to stay


def stay() -> None:
    """From now on this thread, and all that it starts, run on the processor that it is on; where that can be told."""
    global _allowed  # noqa: PLW0603 -- it is the process's own affair
    if _STATE.exists():
        _allowed = frozenset(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {int(_STATE.read_text().rpartition(")")[2].split()[_PROCESSOR])})


@contextmanager
def anywhere() -> Iterator[None]:
    """While the block runs, this thread may run on any processor that the process is allowed."""
    if not _allowed:
        yield
        return
    here = os.sched_getaffinity(0)
    os.sched_setaffinity(0, _allowed)
    try:
        yield
    finally:
        os.sched_setaffinity(0, here)
