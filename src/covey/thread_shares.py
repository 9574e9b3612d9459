"""Limits on the threads that requests may occupy: in total, and for each kind of slow request."""

from dataclasses import dataclass
from typing import Self

_RESERVED = 8  # threads for health checks, metrics and refusals


@dataclass(frozen=True, slots=True)
class ThreadShares:
    """Maximum concurrent requests by kind. If all slow ones wait, threads remain for the others."""

    threads: int  # of the server: those of the option, and further ones for bodies that arrive slowly
    requests: int
    bodies: int
    bodies_of_project: int
    agent_bodies: int
    downloads: int
    agent_downloads: int
    streams: int
    identity: int  # requests whose password bcrypt or whose token Keystone checks

    @property
    def token_requests(self) -> int:
        """Token requests of the dashboard. They need no authentication, so they get a quarter of the share."""
        return max(self.identity // 4, 1)

    @property
    def token_checks(self) -> int:
        return max(self.identity - self.token_requests, 1)

    @classmethod
    def of(cls, threads: int) -> Self:
        """Return the shares of a process, by the option for its threads."""
        more = 3 * threads // 8
        return cls(
            threads=threads + more,
            requests=max(threads + more - min(_RESERVED, threads // 8), 1),
            bodies=max(3 * threads // 8, 1),
            bodies_of_project=max(threads // 8, 1),
            agent_bodies=max(threads // 4, 1),
            downloads=max(threads // 16, 1),
            agent_downloads=max(threads // 8, 1),
            streams=threads // 8,
            identity=max(threads // 4, 1),
        )
