"""Reads the consoles of all guests while they run, and says whether one of them ran twice at a time.

A guest prints boots and ticks in order. Two that run from one disk print into one log, out of order. Two that run from
copies of a disk print into two logs, which grow by turns, and one of them is behind the other. A guest that returns to
a host where its old log still is continues it: after a shelve, data stays until the agent's next sweep.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Self

from tests.lab.sectors import lines

_PASS_S = 0.1


@dataclass
class _Log:
    """One console's log, which stays open after its removal."""

    server: str
    place: str
    file: BinaryIO
    rest: bytes = b""
    last: tuple[int, int] = (-1, -1)
    began: int = 0  # the pass in which it first grew
    grew: int = 0  # the pass in which it last grew

    def read(self) -> list[tuple[int, int]]:
        """Return the boots and ticks of all lines that are complete by now."""
        text, end, self.rest = (self.rest + self.file.read()).rpartition(b"\n")
        return lines((text + end).decode(errors="replace"))


@dataclass
class Witness:
    """Watches the logs below some directories, each of which has a directory for each server."""

    roots: Sequence[Path]
    double_runs: list[str] = field(default_factory=list)
    lines: int = 0
    _logs: dict[tuple[int, int], _Log] = field(default_factory=dict)
    _pass: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for log in self._logs.values():
            log.file.close()

    def _watch(self) -> None:
        while not self._over.wait(_PASS_S):
            self.look()

    def look(self) -> None:
        """Read what all logs have by now."""
        self._pass += 1
        for root in self.roots:
            for path in root.glob("*/console.log"):
                self._open(path)
        for log in self._logs.values():
            self._read(log)

    def _open(self, path: Path) -> None:
        try:
            status = path.stat()
            if (status.st_dev, status.st_ino) not in self._logs:
                log = _Log(path.parent.name, str(path.parent.parent), path.open("rb"))
                self._logs[status.st_dev, status.st_ino] = log  # open, so no other file gets its number
        except FileNotFoundError:
            return

    def _read(self, log: _Log) -> None:
        found = log.read()
        if not found:
            return
        log.began, log.grew = log.began or self._pass, self._pass
        for pair in found:
            self.lines += 1
            if pair <= log.last:
                self.double_runs.append(f"{log.server}: {pair} follows {log.last} in {log.place}")
            log.last = pair
        for other in self._logs.values():
            by_turns = log.began < other.grew < self._pass and other.began < log.grew
            if other.server == log.server and by_turns and found[0] <= other.last:
                self.double_runs.append(f"{log.server}: {found[0]} in {log.place}, {other.last} in {other.place}")
