"""CPU time of processes, from Linux's /proc."""

import os
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def seconds(root: int) -> float:
    """User and system time of a process and of its children, those that ended included."""
    stats = {pid: fields for pid in _pids() if (fields := _stat(pid)) is not None}
    parents = {pid: int(fields[1]) for pid, fields in stats.items()}
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    # Fields 14 to 17 of proc(5): user, system, and both of children that were waited for.
    return sum(sum(map(int, stats[pid][11:15])) for pid in family if pid in stats) * _TICK_S


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _stat(pid: int) -> list[str] | None:
    """The fields from the third on, which is where the process' name, brackets and all, is over."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
