"""Watches the heartbeats of agents: a host whose agent is silent is down, and takes no servers."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from covey.model.agents import FENCING_GRACE, MAX_WATCH_INTERVAL_S, AgentState, FencingLease
from covey.model.ids import HostId
from covey.model.work import JobKind
from covey.services.notifications import NotificationEmitter
from covey.storage.store import Store, Transaction

log = structlog.get_logger()


@dataclass(slots=True)
class HostWatch:
    """Runs at an interval in every process with workers. Several at once do no harm: each host goes down once.

    A process that could not check for a while, because it just started or the database was away, judges no host before
    agents had the time to report again. The same holds after a step of the database's clock, by which all of them would
    have been silent.

    A self-fencing lease has ended when this process has itself watched the agent silent for all of it, by its monotonic
    clock, and the database's clock agrees. The host is then stored as fenced.
    """

    store: Store
    notifications: NotificationEmitter
    down_after_s: float
    evacuates: bool = False
    report: Callable[[Mapping[AgentState, int]], None] = lambda _: None  # receives the number of agents by state
    clock: Callable[[], float] = time.monotonic
    _watching_since: float | None = None
    _checked_at: float | None = None
    _database_time: datetime | None = None  # at the last check
    _silent_since: dict[HostId, tuple[datetime, float]] = field(default_factory=dict)  # heartbeat, and when it was seen
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def interval_s(self) -> float:
        """Seconds between two checks of the agents."""
        return min(self.down_after_s / 10, MAX_WATCH_INTERVAL_S)

    def run_if_due(self) -> None:
        """Look for silent agents, unless the last check was less than the interval ago."""
        with self._lock:
            now = self.clock()
            if self._checked_at is not None and now - self._checked_at < self.interval_s:
                return
            with self.store.read() as tx:
                counts, silent = tx.agents.counts(), tx.agents.any_silent(self.down_after_s)
                leases, time_there = tx.agents.fencing_leases(), tx.agents.now()
            self.report(counts)
            if self._has_missed(now, time_there):
                self._watching_since = now
                self._silent_since.clear()  # a standby that took over may lack the last heartbeats
            self._checked_at, self._database_time = now, time_there
            assert self._watching_since is not None
            if silent and now - self._watching_since >= self.down_after_s:
                with self.store.write() as tx:
                    self._set_down(tx)
            ended = self._ended(leases, now, time_there)
            if ended:
                with self.store.write() as tx:
                    self._set_fenced(tx, ended)

    def _ended(self, leases: Iterable[FencingLease], now: float, time_there: datetime) -> list[FencingLease]:
        """Return the leases of hosts that are down and have been silent for all of the lease."""
        before, self._silent_since = self._silent_since, {}
        ended = []
        for lease in leases:
            seen = before.get(lease.host_id)
            heartbeat, since = seen if seen is not None and seen[0] == lease.heartbeat_at else (lease.heartbeat_at, now)
            self._silent_since[lease.host_id] = heartbeat, since
            is_over = now - since >= lease.self_fencing_s + FENCING_GRACE.total_seconds()
            if is_over and lease.state is AgentState.DOWN and lease.lease_until + FENCING_GRACE <= time_there:
                ended.append(lease)
        return ended

    def _set_fenced(self, tx: Transaction, ended: list[FencingLease]) -> None:
        for host in tx.agents.end_leases(ended):
            found = tx.hosts.by_id(host)
            log.warning("host.fenced_itself", host=found and found.name)

    def _has_missed(self, now: float, time_there: datetime) -> bool:
        """Return whether much time has passed since the last check, by this process's clock or by the database's."""
        if self._checked_at is None or self._database_time is None:
            return True
        passed = max(now - self._checked_at, (time_there - self._database_time).total_seconds())
        return passed > self.down_after_s / 2

    def _set_down(self, tx: Transaction) -> None:
        for host in tx.agents.take_silent(self.down_after_s):
            found = tx.hosts.by_id(host)
            assert found is not None
            log.warning("host.down", host=found.name, down_after_s=self.down_after_s)
            self.notifications.host_changed(tx, host)
            if self.evacuates:
                tx.work.add(JobKind.EVACUATE_HOST, found.uuid)
