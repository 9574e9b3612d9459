"""The simulated driver: no real hosts, with a configurable latency and failure rate."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from covey.model.errors import DriverFault, OperationInProgress
from covey.model.servers import Server

_WAIT = "simulated_wait_time"  # a server's metadata key: seconds that its spawn takes
_LONGEST_S = 60


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


@dataclass(slots=True)
class Simulated:
    """Each operation takes `latency_s` and fails with probability `failure_rate`, by a seeded generator."""

    latency_s: float = 0.0
    failure_rate: float = 0.0
    seed: int | None = None
    clock: Callable[[], datetime] = _now
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 -- not for secrets

    def spawn(self, server: Server, host: str) -> None:
        wait_s = _wait_s(server)
        left_s = wait_s - (self.clock() - server.created_at).total_seconds()
        if wait_s and left_s > 0:
            raise OperationInProgress(min(left_s, wait_s))
        self._operate(f"{host} could not start {server.id}")

    def destroy(self, server: Server, host: str) -> None:  # noqa: ARG002 -- never fails here
        self._wait()

    def move(self, server: Server, source: str, destination: str, *, live: bool) -> None:  # noqa: ARG002
        self._operate(f"{server.id} could not be moved from {source} to {destination}")

    def power(self, server: Server, host: str, verb: str) -> None:
        self._operate(f"{host} could not {verb} {server.id}")

    def _operate(self, failure: str) -> None:
        self._wait()
        if self.failure_rate and self._random.random() < self.failure_rate:
            raise DriverFault(failure)

    def _wait(self) -> None:
        if self.latency_s:
            time.sleep(self.latency_s)


def _wait_s(server: Server) -> int:
    value = server.details.metadata.get(_WAIT, "")
    return min(int(value), _LONGEST_S) if value.isascii() and value.isdigit() else 0
