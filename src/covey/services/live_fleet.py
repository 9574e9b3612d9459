"""The fleet in memory: one copy for the process, kept up to date by the change log."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np

from covey.model.aggregates import Aggregate
from covey.model.changes import Cursor, UsageChange
from covey.model.claims import Plan
from covey.model.errors import Unavailable
from covey.model.hosts import Host
from covey.model.ids import HostId, ProjectId
from covey.model.inventory import Inventory, ResourceClass
from covey.ports import NewUuid
from covey.scheduler.fleet import AggregateRecord, Fleet, HostRecord, Weights
from covey.scheduler.planning import return_room
from covey.services import gc_tuning
from covey.storage.store import Store, Transaction

_TENANTS = "filter_tenant_id"
IDLE_S = 1200  # after so long without a refresh the log may have been trimmed, so the fleet is loaded again


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """The fleet at a moment. Its tag is the writer of its claims' log rows, so that they count once."""

    fleet: Fleet
    tag: str


class LiveFleet:
    """One Fleet for the process. A reader holds its lock and gets it up to date.

    A claim of this process takes its room in memory at once, and is skipped when the log contains it. Each time the
    fleet is loaded the tag changes, so a claim that was open at that time is applied from the log.
    """

    def __init__(
        self, store: Store, new_tag: NewUuid, weights: Weights, default_zone: str, *, isolate_aggregates: bool = False
    ) -> None:
        self._store = store
        self._new_tag = new_tag
        self._weights = weights
        self._default_zone = default_zone
        self._isolate_aggregates = isolate_aggregates  # aggregates with required traits reject requests without them
        self._lock = threading.Lock()
        self._snapshot: FleetSnapshot | None = None
        self._cursor = Cursor(0)
        self._refreshed_at = 0.0

    def warm_up(self) -> None:
        """Load the fleet before the first request needs it. Does nothing while the database does not answer."""
        with suppress(Unavailable), self._store.read() as tx, self.fresh(tx):
            pass

    @contextmanager
    def fresh(self, tx: Transaction) -> Iterator[FleetSnapshot]:
        """Yield the fleet as this transaction sees it, and keep other threads from planning."""
        with self._lock:
            yield self._refreshed(tx)

    def return_room(self, snapshot: FleetSnapshot, abandoned: Plan) -> None:
        """Return the room of a plan that was not committed, unless the fleet was loaded again since."""
        with self._lock:
            if self._snapshot is snapshot:
                return_room(snapshot.fleet, abandoned)

    def _refreshed(self, tx: Transaction) -> FleetSnapshot:
        now = time.monotonic()
        snapshot, idle = self._snapshot, now - self._refreshed_at > IDLE_S
        self._refreshed_at = now
        if snapshot is None or idle:
            return self._load()
        changes = tx.changes.since(self._cursor, snapshot.tag)
        self._cursor = changes.cursor
        if changes.structure:
            return self._load()
        _apply(changes.uses, snapshot.fleet)
        return snapshot

    def _load(self) -> FleetSnapshot:
        with self._store.read() as tx:
            self._cursor = tx.changes.begin()
            hosts, aggregates = tx.hosts.find(), tx.aggregates.all()
        fleet = build_fleet(
            hosts, aggregates, self._weights, self._default_zone, isolate_aggregates=self._isolate_aggregates
        )
        self._snapshot = FleetSnapshot(fleet, self._new_tag())
        gc_tuning.freeze(len(hosts))
        return self._snapshot


def _apply(uses: Sequence[UsageChange], fleet: Fleet) -> None:
    known = [use for use in uses if HostId(use.host_id) in fleet.row_of]
    if known:
        rows = fleet.rows(HostId(use.host_id) for use in known)
        fleet.take_many(rows, np.array([(u.vcpus, u.memory_mb, u.disk_gb) for u in known], dtype=np.int64).T)


def build_fleet(
    hosts: list[Host],
    aggregates: list[Aggregate],
    weights: Weights,
    default_zone: str,
    *,
    isolate_aggregates: bool = False,
) -> Fleet:
    """Return the columns of hosts and aggregates."""
    ids = {host.name: host.id for host in hosts}
    records = [_aggregate(aggregate, ids, isolate_aggregates=isolate_aggregates) for aggregate in aggregates]
    return Fleet([_host(host) for host in hosts], records, weights, default_zone)


def _host(host: Host) -> HostRecord:
    cpu, memory, disk = (host.inventories.get(kind, Inventory(0)) for kind in ResourceClass)
    return HostRecord(
        host.id,
        host.name,
        (cpu.capacity, memory.capacity, disk.capacity),
        (cpu.used, memory.used, disk.used),
        not host.disabled,
        host.up,
        host.zone,
        host.traits,
        (cpu.units, memory.units, disk.units),
    )


def _aggregate(aggregate: Aggregate, ids: dict[str, HostId], *, isolate_aggregates: bool) -> AggregateRecord:
    tenants = (value for key, value in aggregate.metadata.items() if key.startswith(_TENANTS))
    return AggregateRecord(
        aggregate.id,
        aggregate.uuid,
        frozenset(ids[name] for name in aggregate.hosts),
        aggregate.scope,
        frozenset(ProjectId(project.strip()) for value in tenants for project in value.split(",")),
        aggregate.required_traits if isolate_aggregates else frozenset(),
    )
