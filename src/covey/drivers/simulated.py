"""The simulated driver: no real hosts, with a configurable latency and failure rate."""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from covey.clock_and_ids import now
from covey.model.errors import DriverFault, LeaseLost, OperationInProgress
from covey.model.servers import Server

_WAIT = "simulated_wait_time"  # a server's metadata key: seconds that its spawn takes
_LONGEST_S = 60
_MAX_EPOCHS = 10_000


@dataclass(slots=True)
class Simulated:
    """Each operation takes `latency_s` and fails with probability `failure_rate`, by a seeded generator."""

    latency_s: float = 0.0
    failure_rate: float = 0.0
    seed: int | None = None
    clock: Callable[[], datetime] = now
    _random: random.Random = field(init=False)
    _epochs: dict[tuple[str, str], int] = field(default_factory=dict)  # by host and server; the oldest go
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 -- not for secrets

    @property
    def is_instant(self) -> bool:
        return not self.latency_s

    def spawn(self, server: Server, host: str, epoch: int) -> None:
        self._fence(server, epoch, host)
        wait_s = _wait_s(server)
        left_s = wait_s - (self.clock() - server.created_at).total_seconds()
        if wait_s and left_s > 0:
            raise OperationInProgress(min(left_s, wait_s))
        self._operate(f"{host} could not start {server.id}")

    def destroy(self, server: Server, host: str, epoch: int) -> None:
        self._fence(server, epoch, host)
        self._wait()  # never fails here

    def detach(self, server: Server, host: str, epoch: int) -> None:
        self._fence(server, epoch, host)
        self._wait()

    def move(self, server: Server, source: str, destination: str, epoch: int, *, live: bool) -> None:  # noqa: ARG002
        self._fence(server, epoch, source, destination)
        self._operate(f"{server.id} could not be moved from {source} to {destination}")

    def abort(self, server: Server, source: str, destination: str, epoch: int) -> bool:
        self._fence(server, epoch, source, destination)
        return True  # a move is complete when its call returns

    def evacuate(self, server: Server, source: str, destination: str, epoch: int) -> None:
        self._fence(server, epoch, destination)
        self._operate(f"{server.id} could not be moved from {source} to {destination}")

    def power(self, server: Server, host: str, verb: str, epoch: int) -> None:
        self._fence(server, epoch, host)
        self._operate(f"{host} could not {verb} {server.id}")

    def console_log(self, server: Server, host: str, lines: int | None) -> str:  # noqa: ARG002 -- its owner reads it
        log = [
            f"[    0.000000] Simulated guest {server.id}",
            f"[    0.000000] Flavor {server.flavor.name}: {server.flavor.vcpus} VCPUs, {server.flavor.memory_mb} MB",
            "[    0.000000] Nothing runs here.",
            "",
            f"{server.name} login: ",
        ]
        return "\n".join(log if lines is None else log[len(log) - min(lines, len(log)) :])

    def _fence(self, server: Server, epoch: int, *hosts: str) -> None:
        """Raise LeaseLost if a host has seen a newer lease of the server, as an agent on it would."""
        with self._lock:
            for host in hosts:
                if self._epochs.get((host, server.id), 0) > epoch:
                    raise LeaseLost(server.id, epoch)
                self._epochs[host, server.id] = epoch
            if len(self._epochs) > _MAX_EPOCHS:
                del self._epochs[next(iter(self._epochs))]

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
