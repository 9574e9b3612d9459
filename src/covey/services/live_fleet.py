"""The fleet in memory: one copy for the process, kept up to date by the change log."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeVar

from covey.model.access import Restricted
from covey.model.changes import Changes, Cursor
from covey.model.claims import Plan
from covey.model.errors import Unavailable
from covey.model.flavors import Flavor
from covey.model.fleet_records import AggregateRecord, FleetChange, HostRecord
from covey.model.groups import GroupState
from covey.model.ids import GroupId, HostId
from covey.model.images import Image
from covey.model.providers import ProviderRecord
from covey.ports import NewUuid
from covey.request_slots import slot_released, time_left
from covey.scheduler.fleet import Fleet, Weights
from covey.scheduler.planning import return_room
from covey.services import gc_tuning
from covey.storage.store import Store, Transaction

V = TypeVar("V")
R = TypeVar("R", ProviderRecord, HostRecord, AggregateRecord)

_MAX_CACHED_GROUPS = 20_000
_MAX_RECORDS = 10_000  # flavors, and images
_FEW = 16  # changed providers; more than a quarter of a larger fleet is loaded with all others


class FleetVersion(NamedTuple):
    """The state of the fleet in memory that a decision used: its load, by tag, and the readings of the log since."""

    tag: str
    reads: int


@dataclass(slots=True)
class FleetSnapshot:
    """The fleet at a moment. Its tag is the writer of its claims' log rows, so that they count once."""

    fleet: Fleet
    tag: str
    cursor: Cursor
    lost_connections: int  # of the store, before the fleet was loaded
    reads: int = 0  # of the log
    suspects: dict[HostId, int] = field(default_factory=dict)
    """Hosts that refused a claim, which no change explains yet, with the number of the last reading before that."""

    @property
    def version(self) -> FleetVersion:
        """The version of the fleet now."""
        return FleetVersion(self.tag, self.reads)

    @property
    def token(self) -> str:
        """The topology token of the fleet's structure."""
        return self.cursor.token


class RecordCache(Generic[V]):
    """Records of the catalogue, each until the change log says that it changed.

    A version counts the changes that this process has read. A record read at version 7 is current until a change of it
    gets a higher one. A change that was committed is in the log before the next plan, so no plan uses an older record.
    """

    def __init__(self) -> None:
        self._version = 0
        self._unknown_before = 0  # changes up to here may be unknown
        self._changed: dict[str, int] = {}
        self._records: dict[str, tuple[int, V]] = {}

    def get(self, key: str, load: Callable[[str], V]) -> tuple[int, V]:
        """Return the record and the version at which it was read. Errors are not kept."""
        found = self._records.get(key)
        if found is None or not self.is_current(key, found[0]):
            if len(self._records) >= _MAX_RECORDS:
                self._records = {}
            version = self._version  # before the look-up, which may see later changes as well
            found = self._records[key] = version, load(key)
        return found

    def is_current(self, key: str, version: int) -> bool:
        """Return whether no change of the record is known that came after this version."""
        return version >= self._changed.get(key, self._unknown_before)

    def mark_changed(self, keys: Iterable[str]) -> None:
        """Outdate these records."""
        for key in keys:
            self._version += 1
            self._changed[key] = self._version
            self._records.pop(key, None)
        if len(self._changed) > _MAX_RECORDS:
            self.mark_all_changed()

    def mark_all_changed(self) -> None:
        """Outdate all records: changes of them may be missing."""
        self._version += 1
        self._unknown_before, self._changed, self._records = self._version, {}, {}


class LiveFleet:
    """One Fleet for the process. A reader holds its lock and gets it up to date.

    A claim of this process takes its room in memory at once, and is skipped when the log contains it. Each time the
    fleet is loaded the tag changes, so a claim that was open at that time is applied from the log.

    The fleet is dropped, with the group states that are cached beside it, when it may differ from the rows: after a
    lost connection, a commit of unknown outcome, a failed load, another start of the database server, a gap in the
    log, or a refused claim that no change explains. The next reader loads it again.
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
        self._known: Fleet | None = None  # the fleet of the last snapshot, which may be outdated
        self._groups: dict[GroupId, GroupState] = {}
        self.flavors = RecordCache[Restricted[Flavor]]()
        self.images = RecordCache[Restricted[Image]]()

    def warm_up(self) -> None:
        """Load the fleet before the first request needs it. Does nothing while the database does not answer."""
        with suppress(Unavailable), self._store.read() as tx, self.fresh(tx):
            pass

    @contextmanager
    def fresh(self, tx: Transaction) -> Iterator[FleetSnapshot]:
        """Yield the fleet as this transaction sees it, or newer, and keep other threads from it."""
        with self._exclusive():
            yield self._refreshed(tx)

    def read(self, tx: Transaction) -> FleetSnapshot:
        """Return a copy of the fleet as this transaction sees it, or newer, for which nothing else waits."""
        with self.fresh(tx) as snapshot:
            return replace(snapshot, fleet=snapshot.fleet.copy())

    def known_ids(self, uuids: Iterable[str]) -> dict[str, int] | None:
        """Return the ids of providers, as they were when the fleet was last read; None if one is unknown."""
        fleet = self._known
        if fleet is None:
            return None
        rows = {uuid: fleet.row_of_uuid.get(uuid) for uuid in uuids}
        known = {uuid: int(fleet.ids[row]) for uuid, row in rows.items() if row is not None}
        return known if len(known) == len(rows) else None

    def return_room(self, snapshot: FleetSnapshot, abandoned: Plan) -> None:
        """Return the room of a plan that was rolled back, unless the fleet was loaded again since."""
        with self._lock:
            if self._snapshot is snapshot:
                return_room(snapshot.fleet, abandoned)

    def refused(self, version: FleetVersion, hosts: frozenset[HostId]) -> None:
        """Record that hosts lacked the room of a claim that was decided at a version of the fleet.

        Drop the fleet if one of them did at an earlier version, and no change explains it.
        """
        with self._lock:
            snapshot = self._snapshot
            if snapshot is None or snapshot.tag != version.tag:
                return
            if any(snapshot.suspects.get(host, version.reads) < version.reads for host in hosts):
                self._snapshot = None
            for host in hosts:
                snapshot.suspects.setdefault(host, snapshot.reads)

    def drop(self, snapshot: FleetSnapshot) -> None:
        """Drop a fleet that may differ from the rows."""
        with self._lock:
            if self._snapshot is snapshot:
                self._snapshot = None

    def cached_group(self, group: GroupId, version: int) -> GroupState | None:
        """Return the state of a group, if it is cached at this version."""
        found = self._groups.get(group)
        return found if found is not None and found.version == version else None

    def cache_groups(self, states: Mapping[GroupId, GroupState]) -> None:
        """Cache the states of groups, after the commit that made them true."""
        if len(self._groups) > _MAX_CACHED_GROUPS:
            self._groups = {}
        self._groups.update(states)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Hold the lock, for which a request waits without its slot. Raises Unavailable after its deadline."""
        if not self._lock.acquire(blocking=False):
            with slot_released():
                if not self._lock.acquire(timeout=min(max(0, time_left()), threading.TIMEOUT_MAX)):
                    raise Unavailable("The fleet is being loaded. Try again in a moment.")
        try:
            yield
        finally:
            self._lock.release()

    def _refreshed(self, tx: Transaction) -> FleetSnapshot:
        snapshot, self._snapshot = self._snapshot, None  # back in place once everything below has succeeded
        if snapshot is not None and snapshot.lost_connections != self._store.lost_connections:
            snapshot = None  # a database server that recovers from a crash reuses transaction ids
        changes = None if snapshot is None else tx.changes.since(snapshot.cursor, snapshot.tag)
        if snapshot is not None and changes is not None and changes.structure:
            changes = self._change_structure(snapshot)
        if snapshot is None or changes is None or not changes.intact:
            snapshot = self._load()
        else:
            snapshot.fleet.take_all(changes.uses)
            if snapshot.suspects:
                for use in changes.uses:
                    snapshot.suspects.pop(HostId(use.provider), None)
            snapshot.cursor = changes.cursor
            snapshot.reads += 1
            for change in changes.catalogue:
                self.flavors.mark_changed(change.flavors)
                self.images.mark_changed(change.images)
        self._snapshot, self._known = snapshot, snapshot.fleet
        return snapshot

    def _change_structure(self, snapshot: FleetSnapshot) -> Changes | None:
        """Read what the log says has changed, and change the fleet's columns. Return None if a load is cheaper.

        The log is read again in the snapshot of the rows, so that the use of a new inventory counts once. Threads that
        wait for the fleet may have all connections of the pool, so this takes the reserved one.
        """
        with self._store.read(reserved=True) as tx:
            changes = tx.changes.since(snapshot.cursor, snapshot.tag)
            providers = {provider for change in changes.structure for provider in change.providers}
            if not changes.intact or len(providers) > max(_FEW, len(snapshot.fleet) // 4):
                return None
            aggregates = {aggregate for change in changes.structure for aggregate in change.aggregates}
            found = tx.fleet_records.of(providers, aggregates)
        change = FleetChange(
            _by_id(providers, found.providers),
            _by_id(providers, found.hosts),
            _by_id(aggregates, self._admitting(found.aggregates)),
        )
        # Use that the log reports comes first: a new inventory has its use in the row.
        snapshot.fleet.take_all(changes.uses)
        snapshot.fleet = snapshot.fleet.changed(change)
        snapshot.suspects.clear()
        return replace(changes, uses=())

    def _load(self) -> FleetSnapshot:
        self._groups = {}
        self.flavors.mark_all_changed()
        self.images.mark_all_changed()
        lost_connections = self._store.lost_connections
        with self._store.read(long=True, reserved=True) as tx:
            cursor = tx.changes.begin()
            providers, hosts, aggregates = tx.fleet_records.all()
        fleet = Fleet(providers, hosts, self._admitting(aggregates), self._weights, self._default_zone)
        gc_tuning.freeze(len(fleet))
        return FleetSnapshot(fleet, self._new_tag(), cursor, lost_connections)

    def _admitting(self, aggregates: Iterable[AggregateRecord]) -> list[AggregateRecord]:
        """Return the aggregates as the scheduler admits requests to their hosts."""
        if self._isolate_aggregates:
            return list(aggregates)
        return [replace(aggregate, traits=frozenset()) for aggregate in aggregates]


def _by_id(ids: Iterable[int], records: Iterable[R]) -> dict[int, R | None]:
    """Return the records by id; None for an id without one."""
    return dict.fromkeys(ids, None) | {record.id: record for record in records}
