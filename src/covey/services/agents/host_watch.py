"""Watches the heartbeats of agents: a host whose agent is silent is down, and takes no servers."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from covey.model.agents import AgentState
from covey.model.work import JobKind
from covey.services.notifications import NotificationEmitter
from covey.storage.store import Store, Transaction

log = structlog.get_logger()

_MAX_INTERVAL_S = 5.0


@dataclass(slots=True)
class HostWatch:
    """Runs at an interval in every process with workers. Several at once do no harm: each host goes down once.

    A process that could not look for a while, because it just started or the database was away, judges no host before
    agents had the time to report again. The same holds after a step of the database's clock, by which all of them would
    have been silent.
    """

    store: Store
    notifications: NotificationEmitter
    down_after_s: float
    evacuates: bool = False
    report: Callable[[Mapping[AgentState, int]], None] = lambda _: None  # receives the number of agents by state
    clock: Callable[[], float] = time.monotonic
    _watching_since: float | None = None
    _looked_at: float | None = None
    _database_time: datetime | None = None  # at the last look
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def interval_s(self) -> float:
        """The seconds between two looks."""
        return min(self.down_after_s / 10, _MAX_INTERVAL_S)

    def run_if_due(self) -> None:
        """Look for silent agents, unless the last look was less than the interval ago."""
        with self._lock:
            now = self.clock()
            if self._looked_at is not None and now - self._looked_at < self.interval_s:
                return
            with self.store.read() as tx:
                counts, silent = tx.agents.counts(), tx.agents.any_silent(self.down_after_s)
                time_there = tx.agents.now()
            self.report(counts)
            if self._has_missed(now, time_there):
                self._watching_since = now
            self._looked_at, self._database_time = now, time_there
            assert self._watching_since is not None
            if silent and now - self._watching_since >= self.down_after_s:
                with self.store.write() as tx:
                    self._set_down(tx)

    def _has_missed(self, now: float, time_there: datetime) -> bool:
        """Return whether much time has passed since the last look, by this process's clock or by the database's."""
        if self._looked_at is None or self._database_time is None:
            return True
        passed = max(now - self._looked_at, (time_there - self._database_time).total_seconds())
        return passed > self.down_after_s / 2

    def _set_down(self, tx: Transaction) -> None:
        for host in tx.agents.take_silent(self.down_after_s):
            found = tx.hosts.by_id(host)
            assert found is not None
            log.warning("host.down", host=found.name, down_after_s=self.down_after_s)
            self.notifications.host_changed(tx, host)
            if self.evacuates:
                tx.work.add(JobKind.EVACUATE_HOST, found.uuid)
