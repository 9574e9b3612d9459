"""CPU time of processes, from Linux's /proc."""

import os
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def seconds(root: int) -> float:
    """Return the user and system time of a process and its children, including ended ones."""
    stats = {pid: fields for pid in _pids() if (fields := _stat(pid)) is not None}
    parents = {pid: int(fields[1]) for pid, fields in stats.items()}
    tree = {root}
    while more := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= more
    # Fields 14 to 17 of proc(5): user and system time, of the process and of its ended children.
    return sum(sum(map(int, stats[pid][11:15])) for pid in tree if pid in stats) * _TICK_S


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _stat(pid: int) -> list[str] | None:
    """Return the fields after the process name, which may contain spaces and brackets; None if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
