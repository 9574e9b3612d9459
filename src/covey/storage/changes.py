"""The change log that keeps every process's fleet up to date.

On PostgreSQL the order of a sequence is not the order of commits, so a reader that asks for rows above its newest one
loses rows. It compares snapshots instead: a row is new if its transaction was in progress, or had not begun, when the
reader last looked. Each row is read once, whatever other transactions are open.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import delete, select, update

from covey.model.changes import Changes, Cursor, StructuralChange, UsageChange, is_chain
from covey.storage.rows import as_array, as_records, driver, dump, insert_rows, load
from covey.storage.tables import fleet_changes, topology

_STATE = 5  # columns before those of the log
ANY_WRITER = ""  # no process's own tag: every process reads the row

_COLUMNS = "c.seq, c.writer, c.host_id, c.vcpus, c.memory_mb, c.disk_gb, c.others, c.structure"
_STATE_POSTGRESQL = "t.token, t.trimmed_to, 0, pg_postmaster_start_time()::text, pg_current_snapshot()::text"
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


class FleetChanges:
    """Reads and writes the log."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._postgresql = connection.dialect.name == "postgresql"

    def begin(self) -> Cursor:
        """Return a cursor at this transaction's snapshot. The caller loads the fleet in the same transaction."""
        newest = self._connection.execute(_NEWEST).scalar_one()
        with driver(self._connection) as raw:
            state = raw.execute(_BEGIN_POSTGRESQL if self._postgresql else _BEGIN_SQLITE).fetchone()
        cursor = _cursor(state, newest)
        return replace(cursor, floor=self._newest_from(cursor.xmax)) if self._postgresql else cursor

    def since(self, cursor: Cursor, own: str) -> Changes:
        """Return the changes by other writers since the cursor, and the next cursor.

        A snapshot that is older than the cursor has no changes.
        """
        with driver(self._connection) as raw:  # run for every claim, so without SQLAlchemy's overhead
            if self._postgresql:
                seen = (cursor.xmax, as_array(cursor.in_progress), cursor.floor)
                rows = raw.execute(_READ_POSTGRESQL, seen).fetchall()
            else:
                rows = raw.execute(_READ_SQLITE, (cursor.seq,)).fetchall()
        new = [row[_STATE:] for row in rows if row[_STATE] is not None]
        now = _cursor(rows[0], max(cursor.seq, new[-1][0]) if new else cursor.seq, cursor.floor)
        if now.server == cursor.server and now.is_older_than(cursor):
            return Changes(cursor)
        structure = [load(row[7], StructuralChange) for row in new if row[7] is not None]
        missed_rows = cursor.seq < rows[0][1]  # trimmed before this reader came
        if missed_rows or now.server != cursor.server or not is_chain(structure, cursor.token, now.token):
            return Changes(cursor, intact=False)
        foreign = (row for row in new if row[2] is not None and row[1] != own)
        uses = [UsageChange(row[2], row[3], row[4], row[5], _others(row[6])) for row in foreign]
        return Changes(now, tuple(uses), tuple(structure))

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
        rows = [
            (writer, u.host_id, u.vcpus, u.memory_mb, u.disk_gb, dump(u.others) if u.others else None) for u in uses
        ]
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

    def _newest_from(self, tx: int) -> int:
        """Return the newest visible row of a transaction that this server has not begun yet; 0 without any."""
        found: int = self._connection.execute(_NEWEST.where(fleet_changes.c.tx >= tx)).scalar_one()
        return found


def _cursor(row: Sequence[Any], seq: int, floor: int = 0) -> Cursor:
    """Return the cursor of a snapshot, from a row that begins with the state of the log."""
    token, _, newest, server, snapshot = row[:_STATE]
    if not snapshot:
        return Cursor(seq if newest is None else newest, token)
    _, xmax, in_progress = snapshot.split(":")
    open_ones = tuple(map(int, in_progress.split(","))) if in_progress else ()
    return Cursor(seq, token, int(xmax), open_ones, floor, server)


def _others(text: str | None) -> tuple[tuple[str, int], ...]:
    return load(text, tuple[tuple[str, int], ...]) if text else ()
