"""Leases: which jobs this process may carry out at present. They are renewed while the jobs run."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from covey.model.errors import CoveyError, LeaseLost
from covey.model.servers import Server
from covey.model.work import Job
from covey.ports import BatchDriver, Driver
from covey.storage.store import Store

log = structlog.get_logger()


@dataclass(slots=True)
class Leases:
    """The leases of this process, by subject and epoch, and when each ends by the monotonic clock.

    A lease is counted from before the database granted it, so in this process it ends before it ends in the database.
    """

    store: Store
    lease_s: float
    _ends: dict[tuple[str, int], float] = field(default_factory=dict)
    _jobs: dict[tuple[str, int], Job] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _renewer: threading.Thread | None = None

    @contextmanager
    def held(self, jobs: Sequence[Job], since: float) -> Iterator[None]:
        """Hold the leases of jobs, granted at a time of the monotonic clock, while the block runs."""
        keys = [(job.subject_id, job.epoch) for job in jobs]
        with self._lock:
            self._ends.update(dict.fromkeys(keys, since + self.lease_s))
            self._jobs.update(zip(keys, jobs, strict=True))
        try:
            yield
        finally:
            with self._lock:
                for key in keys:
                    self._ends.pop(key, None)
                    self._jobs.pop(key, None)

    def require(self, subject: str, epoch: int) -> None:
        """Raise LeaseLost unless this process holds the lease."""
        error = self.lost(subject, epoch)
        if error is not None:
            raise error

    def lost(self, subject: str, epoch: int) -> LeaseLost | None:
        """Return an error unless this process holds the lease."""
        return LeaseLost(subject, epoch) if time.monotonic() >= self._ends.get((subject, epoch), 0.0) else None

    def renew(self) -> None:
        """Renew all leases. One that another worker has taken since ends at once."""
        with self._lock:
            jobs = dict(self._jobs)
        if not jobs:
            return
        since = time.monotonic()
        with self.store.write() as tx:
            renewed = tx.work.renew(list(jobs.values()), self.lease_s)
        with self._lock:
            for key in jobs.keys() & self._ends.keys():
                self._ends[key] = since + self.lease_s if key in renewed else 0.0

    def start(self) -> None:
        """Renew leases in a daemon thread of this process."""
        with self._lock:
            if self._renewer is None:
                self._renewer = threading.Thread(target=self._renew_forever, name="covey-leases", daemon=True)
                self._renewer.start()

    def _renew_forever(self) -> None:
        while True:
            time.sleep(self.lease_s / 4)
            try:
                self.renew()
            except CoveyError as error:
                log.warning("leases.not_renewed", reason=error.message)
            except Exception:
                log.exception("leases.not_renewed")


class FencedDriver:
    """A driver that only the holder of a job's lease calls, with a limit of concurrent calls for each host."""

    def __init__(self, driver: Driver, leases: Leases, calls_per_host: int) -> None:
        self._driver = driver
        self._leases = leases
        self._calls_per_host = calls_per_host
        self._slots: dict[str, threading.BoundedSemaphore] = {}
        self.is_instant = driver.is_instant
        self.takes_batches = isinstance(driver, BatchDriver)

    def spawn(self, server: Server, host: str, epoch: int) -> None:
        with self._call(server, host, epoch):
            self._driver.spawn(server, host, epoch)

    def spawn_all(self, wanted: Sequence[tuple[Server, str, int]]) -> list[CoveyError | None]:
        """Spawn servers by a driver that takes batches. Return for each what `spawn` would raise, or None."""
        assert isinstance(self._driver, BatchDriver)
        lost = [self._leases.lost(server.id, epoch) for server, _, epoch in wanted]
        held = [each for each, error in zip(wanted, lost, strict=True) if error is None]
        outcomes = iter(self._driver.spawn_all(held) if held else ())
        return [error or next(outcomes) for error in lost]

    def destroy(self, server: Server, host: str, epoch: int) -> None:
        with self._call(server, host, epoch):
            self._driver.destroy(server, host, epoch)

    def detach(self, server: Server, host: str, epoch: int) -> None:
        with self._call(server, host, epoch):
            self._driver.detach(server, host, epoch)

    def move(self, server: Server, source: str, destination: str, epoch: int, *, live: bool) -> None:
        with self._call(server, source, epoch):
            self._driver.move(server, source, destination, epoch, live=live)

    def abort(self, server: Server, source: str, destination: str, epoch: int) -> bool:
        with self._call(server, source, epoch):
            return self._driver.abort(server, source, destination, epoch)

    def evacuate(self, server: Server, source: str, destination: str, epoch: int) -> None:
        with self._call(server, destination, epoch):
            self._driver.evacuate(server, source, destination, epoch)

    def power(self, server: Server, host: str, verb: str, epoch: int) -> None:
        with self._call(server, host, epoch):
            self._driver.power(server, host, verb, epoch)

    def console_log(self, server: Server, host: str, lines: int | None) -> str:
        return self._driver.console_log(server, host, lines)  # it changes nothing, so it needs no lease

    @contextmanager
    def _call(self, server: Server, host: str, epoch: int) -> Iterator[None]:
        if self.is_instant:
            self._leases.require(server.id, epoch)
            yield
            return
        with self._slots.setdefault(host, threading.BoundedSemaphore(self._calls_per_host)):
            self._leases.require(server.id, epoch)  # it may have ended while the call waited
            yield
