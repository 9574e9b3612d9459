"""Servers that this process claimed and may start itself, without asking the database what there is to do.

The claim writes the job as one that is taken already. If this process dies, the job is due for others when the
lease is over; if it is slow, it leaves the job to them.
"""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from covey.model.servers import Server

_MOST = 1024  # servers that wait here; further ones are anybody's


@dataclass(slots=True)
class LocalQueue:
    """From those who claim to those who start. Without takers in this process, every job is anybody's."""

    lease_s: float
    takers: int = 0
    _waiting: deque[tuple[float, Server]] = field(default_factory=deque)

    def due(self, now: datetime) -> datetime:
        """When the jobs of a claim that is about to be made are due for others."""
        return now + timedelta(seconds=self.lease_s) if self._has_room() else now

    def give(self, servers: Sequence[Server], *, due: datetime, now: datetime) -> None:
        """Claimed servers, whose jobs are due for others at that time."""
        if due > now:
            until = time.monotonic() + self.lease_s / 2  # the other half is for doing it
            self._waiting.extend((until, server) for server in servers)

    def take(self, most: int) -> list[Server]:
        """Servers to start now."""
        taken: list[Server] = []
        while self._waiting and len(taken) < most:
            until, server = self._waiting.popleft()
            if time.monotonic() < until:
                taken.append(server)
        return taken

    def _has_room(self) -> bool:
        return self.takers > 0 and len(self._waiting) < _MOST
