"""The local queue: servers that this process claimed and starts itself, without a query for due jobs.

The claim writes the job as leased. If the process dies or is slow, the job is due for other processes when the lease
ends.
"""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from covey.model.servers import Server

_MAX_WAITING = 1024  # servers in the queue; the jobs of further ones are due for any process


@dataclass(slots=True)
class LocalQueue:
    """Passes claimed servers to the workers of this process. Without such workers it takes no servers."""

    lease_s: float
    takers: int = 0
    _waiting: deque[tuple[float, Server]] = field(default_factory=deque)

    def due(self, now: datetime) -> datetime:
        """Return when the jobs of the next claim are due for other processes."""
        return now + timedelta(seconds=self.lease_s) if self._has_room() else now

    def give(self, servers: Sequence[Server], *, due: datetime, now: datetime) -> None:
        """Queue claimed servers whose jobs are due for other processes at `due`."""
        if due > now:
            until = time.monotonic() + self.lease_s / 2  # the other half is for starting it
            self._waiting.extend((until, server) for server in servers)

    def take(self, most: int) -> list[Server]:
        """Return servers to start now, up to `most`."""
        taken: list[Server] = []
        while self._waiting and len(taken) < most:
            until, server = self._waiting.popleft()
            if time.monotonic() < until:
                taken.append(server)
        return taken

    def _has_room(self) -> bool:
        return self.takers > 0 and len(self._waiting) < _MAX_WAITING
