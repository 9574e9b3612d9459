"""The change log that keeps every process's fleet up to date, and the topology token.

The token is a random value that every structural change of the fleet replaces. A claim stands on the topology that its
view of the fleet had. It holds the token shared from before it reads the fleet to its commit, and compares it with the
view's. A structural change takes the token exclusively, last, so it waits for the claims under way, and claims wait
for nothing but its commit. On SQLite the one writer holds everything.

Claims and writes of allocations take the token before all row locks. A change locks aggregates and hosts, then takes
the token, then locks what they lock as well: scopes, providers, inventories, and the hosts that it deletes or puts into
another zone. Otherwise each could wait for the other.

On PostgreSQL the order of a sequence is not the order of commits, so a reader that asks for rows above its newest one
loses rows. It compares snapshots instead: a row is new if its transaction was in progress, or had not begun, when the
reader last looked. Each row is read exactly once, even while old transactions are open. A transaction that looks and
then writes counts as in progress at its own look.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy import delete, select, update

from covey.model.changes import CatalogueChange, Changes, Cursor, StructuralChange, UsageChange
from covey.model.errors import StaleClaim
from covey.model.inventory import ResourceClass
from covey.model.resources import Resources, server_resources
from covey.storage.rows import as_array, as_records, driver, dump, execute, insert_rows, load, pipeline
from covey.storage.tables import fleet_changes, topology

_CLASSES = tuple(str(kind) for kind in ResourceClass)  # with a column each
_STATE = 5  # columns before those of the log
ANY_WRITER = ""  # no process's own tag: every process reads the row

_COLUMNS = "c.seq, c.writer, c.host_id, c.vcpus, c.memory_mb, c.disk_gb, c.others, c.structure, c.catalogue"
# A snapshot does not list its own transaction as in progress, and in recovery, which ends without a restart, none.
_SNAPSHOT = "concat(pg_current_snapshot(), ':', pg_current_xact_id_if_assigned(), ':', pg_is_in_recovery())"
_STATE_POSTGRESQL = f"t.token, t.trimmed_to, 0, pg_postmaster_start_time()::text, {_SNAPSHOT}"
_STATE_SQLITE = "t.token, t.trimmed_to, (SELECT max(seq) FROM fleet_changes), '', ''"
# For a range with two ends PostgreSQL's planner expects few rows and uses the index.
_READ_POSTGRESQL = f"""
    SELECT {_STATE_POSTGRESQL}, {_COLUMNS} FROM topology t LEFT JOIN fleet_changes c
        ON (c.tx BETWEEN %s AND {2**63 - 1} OR c.tx = ANY(%s::bigint[])) AND c.seq > %s ORDER BY c.seq
"""  # noqa: S608 -- nothing of a caller's is in it
_READ_SQLITE = f"""
    SELECT {_STATE_SQLITE}, {_COLUMNS} FROM topology t LEFT JOIN fleet_changes c ON c.seq > ? ORDER BY c.seq
"""  # noqa: S608
_BEGIN_POSTGRESQL = f"SELECT {_STATE_POSTGRESQL} FROM topology t"  # noqa: S608
_BEGIN_SQLITE = f"SELECT {_STATE_SQLITE} FROM topology t"  # noqa: S608
_NEWEST = select(sa.func.coalesce(sa.func.max(fleet_changes.c.seq), 0))
_DELETE_FOREIGN = sa.text("DELETE FROM fleet_changes WHERE tx >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
_OLDEST_OPEN = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"

_USE = ("writer", "host_id", "vcpus", "memory_mb", "disk_gb", "others")
_ADD_USES_POSTGRESQL = """
    INSERT INTO fleet_changes (writer, host_id, vcpus, memory_mb, disk_gb, others, tx)
    SELECT u.*, pg_current_xact_id()::text::bigint FROM json_to_recordset(%s::json)
        AS u(writer text, host_id int, vcpus bigint, memory_mb bigint, disk_gb bigint, others text)
"""
_ADD = "INSERT INTO fleet_changes (writer, structure, tx) VALUES ('', {}, {}) RETURNING seq"
_ADD_POSTGRESQL = _ADD.format("%s", "pg_current_xact_id()::text::bigint")
_ADD_SQLITE = _ADD.format("?", 0)
_ADD_CATALOGUE = "INSERT INTO fleet_changes (writer, catalogue, tx) VALUES ('', {}, {})"
_ADD_CATALOGUE_POSTGRESQL = _ADD_CATALOGUE.format("%s", "pg_current_xact_id()::text::bigint")
_ADD_CATALOGUE_SQLITE = _ADD_CATALOGUE.format("?", 0)

_LOCK_KEY = 0x436F766579  # of PostgreSQL's advisory locks
_HOLD_SHARED = f"SELECT pg_advisory_xact_lock_shared({_LOCK_KEY})"
_HOLD = f"SELECT pg_advisory_xact_lock({_LOCK_KEY})"
_TOKEN = "SELECT token FROM topology"  # noqa: S105 -- no password
_SET_TOKEN = "UPDATE topology SET token = ?"  # noqa: S105
_LOCK_PROVIDERS = "SELECT id FROM resource_providers WHERE id IN ? ORDER BY id FOR NO KEY UPDATE"
_BUMP = """
    WITH held AS MATERIALIZED (
        SELECT id FROM resource_providers WHERE id IN ? ORDER BY id FOR NO KEY UPDATE
    )
    UPDATE resource_providers AS p SET generation = p.generation + 1 FROM held WHERE p.id = held.id
"""


class FleetChanges:
    """Reads and writes the log."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._postgresql = connection.dialect.name == "postgresql"

    def begin(self) -> Cursor:
        """Return a cursor at this transaction's snapshot. The caller loads the fleet in the same transaction."""
        with driver(self._connection) as raw:  # first: a promotion could come between the snapshot and the state
            state = raw.execute(_BEGIN_POSTGRESQL if self._postgresql else _BEGIN_SQLITE).fetchone()
        newest = self._connection.execute(_NEWEST).scalar_one()
        cursor = _cursor(state, newest)
        return replace(cursor, floor=self._newest_from(cursor.xmax)) if self._postgresql else cursor

    def since(self, cursor: Cursor, own: str) -> Changes:
        """Return the changes by other writers since the cursor, and the next cursor.

        A transaction looks before it adds changes, which it may still roll back. A snapshot that is older than the
        cursor has no changes.
        """
        with driver(self._connection) as raw:  # run for every claim, so without SQLAlchemy's overhead
            if self._postgresql:
                seen = (cursor.xmax, as_array(cursor.in_progress), cursor.floor)
                rows = raw.execute(_READ_POSTGRESQL, seen).fetchall()
            else:
                rows = raw.execute(_READ_SQLITE, (cursor.seq,)).fetchall()
        new = [row[_STATE:] for row in rows if row[_STATE] is not None]
        now = _cursor(rows[0], max(cursor.seq, new[-1][0]) if new else cursor.seq, cursor.floor)
        if now.server == cursor.server and _is_older(now, cursor):
            return Changes(cursor)
        structure = [load(row[7], StructuralChange) for row in new if row[7] is not None]
        missed_rows = cursor.seq < rows[0][1]  # trimmed before this reader came
        if missed_rows or now.server != cursor.server or not _is_chain(structure, cursor.token, now.token):
            return Changes(cursor, intact=False)
        foreign = (row for row in new if row[2] is not None and row[1] != own)
        uses = [UsageChange(row[2], _amounts(*row[3:7])) for row in foreign]
        catalogue = tuple(load(row[8], CatalogueChange) for row in new if row[8] is not None)
        return Changes(now, tuple(uses), tuple(structure), catalogue)

    def mark(self) -> tuple[int, int]:
        """Add an empty row. Return its number, and a transaction id below which every transaction has ended."""
        with driver(self._connection) as raw:
            ended = raw.execute(_OLDEST_OPEN).fetchone()[0] if self._postgresql else 1
            return self.add_structure(None), ended

    def trim(self, mark: tuple[int, int]) -> None:
        """Delete the rows of transactions that had ended at a mark. A reader that has not read the mark reloads."""
        seq, ended = mark
        self._connection.execute(delete(fleet_changes).where(fleet_changes.c.seq < seq, fleet_changes.c.tx < ended))
        self._connection.execute(update(topology).where(topology.c.trimmed_to < seq).values(trimmed_to=seq))

    def delete_foreign(self) -> None:
        """Delete rows whose transactions this server has not begun yet: they come with a restored dump.

        No reader counts them, but each look would find them in the index until the ids catch up.
        """
        if self._postgresql:
            self._connection.execute(_DELETE_FOREIGN)

    def add_uses(self, uses: Iterable[UsageChange], writer: str = ANY_WRITER) -> None:
        """Add changes of the usage of hosts and other providers."""
        rows = [(writer, provider, *_columns(amounts)) for provider, amounts in uses]
        if self._postgresql and rows:
            with driver(self._connection) as raw:
                raw.execute(_ADD_USES_POSTGRESQL, (as_records(_USE, rows),))
        else:
            insert_rows(self._connection, fleet_changes, (*_USE, "tx"), [(*row, 0) for row in rows])

    def add_structure(self, change: StructuralChange | None) -> int:
        """Add a structural change, or an empty row. Return its number."""
        with driver(self._connection) as raw:
            statement = _ADD_POSTGRESQL if self._postgresql else _ADD_SQLITE
            seq: int = raw.execute(statement, (change and dump(change),)).fetchone()[0]
            return seq

    def add_catalogue(self, *, flavors: Iterable[str] = (), images: Iterable[str] = ()) -> None:
        """Add a change of flavors and images. No claim depends on its order, so it replaces no token."""
        with driver(self._connection) as raw:
            statement = _ADD_CATALOGUE_POSTGRESQL if self._postgresql else _ADD_CATALOGUE_SQLITE
            raw.execute(statement, (dump(CatalogueChange(tuple(flavors), tuple(images))),))

    def _newest_from(self, tx: int) -> int:
        """Return the newest visible row of a transaction that this server has not begun yet; 0 without any."""
        found: int = self._connection.execute(_NEWEST.where(fleet_changes.c.tx >= tx)).scalar_one()
        return found


def _cursor(row: Sequence[Any], seq: int, floor: int = 0) -> Cursor:
    """Return the cursor of a snapshot, from a row that begins with the state of the log."""
    token, _, newest, server, snapshot = row[:_STATE]
    if not snapshot:
        return Cursor(seq if newest is None else newest, token)
    _, xmax, in_progress, own, recovers = snapshot.split(":")
    open_ones = tuple(map(int, in_progress.split(","))) if in_progress else ()
    if own and int(own) < int(xmax):
        open_ones = (*open_ones, int(own))
    return Cursor(seq, token, int(xmax), open_ones, floor, f"{server} {recovers}")


def _columns(amounts: Resources) -> tuple[int, int, int, str | None]:
    """Return amounts as columns: VCPUs, memory and disk, and the others as text."""
    vcpus, memory_mb, disk_gb = (amounts.get(kind, 0) for kind in _CLASSES)
    others = [(kind, amount) for kind, amount in amounts.items() if kind not in _CLASSES]
    return vcpus, memory_mb, disk_gb, dump(others) if others else None


def _amounts(vcpus: int, memory_mb: int, disk_gb: int, others: str | None) -> Resources:
    """Return the amounts of such columns."""
    size = server_resources(vcpus, memory_mb, disk_gb)
    return Resources({**size, **dict(load(others, list[tuple[str, int]]))}) if others else size


def _is_older(snapshot: Cursor, other: Cursor) -> bool:
    """Return whether a snapshot was taken before another one, on the same server."""
    if snapshot.xmax != other.xmax:
        return snapshot.xmax < other.xmax
    return len(snapshot.in_progress) > len(other.in_progress) or snapshot.seq < other.seq


def _is_chain(changes: Iterable[StructuralChange], before: str, after: str) -> bool:
    """Return whether the changes lead from one topology token to the other, without a gap."""
    for change in changes:
        if change.previous != before:
            return False
        before = change.token
    return before == after


class Topology:
    """Collects the structural changes of one transaction, and the token that its decisions stand on."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._providers: set[int] = set()
        self._aggregates: set[int] = set()
        self._new: set[int] = set()  # providers
        self._bumped: set[int] = set()  # providers
        self._has_begun = False
        self._required: str | None = None

    def changed(self, *, providers: Iterable[int] = (), aggregates: Iterable[int] = ()) -> None:
        """Record that this transaction changes these providers (hosts are providers) and aggregates."""
        self._providers.update(providers)
        self._aggregates.update(aggregates)

    def added(self, providers: Iterable[int]) -> None:
        """Record that this transaction adds these providers. No other one knows them before the commit."""
        self._new.update(providers)
        self.changed(providers=self._new)

    def hold(self) -> None:
        """Hold the token from now to the commit, so that the topology cannot change under this transaction."""
        hold(self._connection, shared=True)

    def begin_change(self, providers: Iterable[int] | None = None) -> None:
        """Take the token exclusively now. Call it before locking rows that claims lock as well.

        If those are of these providers, new ones need no token.
        """
        if not self._has_begun and (providers is None or not self._new.issuperset(providers)):
            hold(self._connection, shared=False)
            self._has_begun = True

    def begin_change_of(self, providers: Iterable[int], deleted: Collection[int] = ()) -> None:
        """Take the token, lock these providers in the common order, and increment their generations.

        A concurrent update of one of them then conflicts. A generation grows once in a transaction, and not that of a
        new provider: no other transaction sees a value in between. Providers that are to be deleted are only locked.
        """
        ids = {*providers} - self._new - self._bumped
        self._bumped |= ids
        if ids or deleted:
            self.begin_change()
        if deleted:
            execute(self._connection, _LOCK_PROVIDERS, sorted(ids.union(deleted))).fetchall()
        if ids:
            execute(self._connection, _BUMP, sorted(ids))

    def require(self, token: str) -> None:
        """Make the commit depend on this token: it raises StaleClaim if another transaction replaced it."""
        self._required = token

    def finish(self) -> None:
        """Take the token, compare it and replace it, as this transaction needs. Call it before the commit."""
        changes = bool(self._providers or self._aggregates)
        if not changes and self._required is None:
            return
        with pipeline(self._connection):
            hold(self._connection, shared=not changes)
            found = execute(self._connection, _TOKEN)
        previous = found.fetchone()[0]
        reject_other(previous, self._required)
        if changes:
            token = str(uuid4())
            change = StructuralChange(previous, token, tuple(sorted(self._providers)), tuple(sorted(self._aggregates)))
            execute(self._connection, _SET_TOKEN, token)
            FleetChanges(self._connection).add_structure(change)


def find_token(connection: sa.Connection) -> Any:  # noqa: ANN401 -- the driver's cursor
    """Return the driver's cursor with the token, which the caller holds; a pipeline may be open."""
    return execute(connection, _TOKEN)


def hold(connection: sa.Connection, *, shared: bool) -> None:
    """Take the token's lock up to the commit."""
    if connection.dialect.name == "postgresql":
        with driver(connection) as raw:
            raw.execute(_HOLD_SHARED if shared else _HOLD)


def reject_other(token: str, required: str | None) -> None:
    """Raise StaleClaim if a token is required and this is another one."""
    if required is not None and token != required:
        raise StaleClaim(frozenset())
