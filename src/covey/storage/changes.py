"""The change log that keeps every process's fleet up to date.

On PostgreSQL the order of a sequence is not the order of commits, so a reader that asks for rows above its
newest one loses rows. It fences by transaction id instead: every transaction below the oldest open one has
ended, so its rows are complete. Rows above that fence are read at once as well; the cursor remembers them
until the fence passes them.
"""

from collections.abc import Iterable

import sqlalchemy as sa
from sqlalchemy import delete, insert, select, text

from covey.model.changes import Changes, Cursor, UsageChange
from covey.storage.rows import as_records, driver, dump, insert_rows, load
from covey.storage.tables import fleet_changes

STRUCTURE_WRITER = ""  # no process's own tag: every process reads the row

_XMIN = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
# For a range with two ends PostgreSQL's planner expects few rows and uses the index.
_READ_POSTGRESQL = f"""
    SELECT c.seq, c.writer, c.host_id, c.vcpus, c.memory_mb, c.disk_gb, c.others, c.tx, x.upto
    FROM (SELECT {_XMIN} AS upto) x
    LEFT JOIN fleet_changes c ON c.tx BETWEEN %s AND {2**63 - 1}
"""  # noqa: S608 -- nothing of a caller's is in it
_BEGIN_POSTGRESQL = text(
    f"SELECT x.upto, c.seq FROM (SELECT {_XMIN} AS upto) x LEFT JOIN fleet_changes c ON c.tx >= x.upto"  # noqa: S608
)
_READ_SQLITE = """
    SELECT seq, writer, host_id, vcpus, memory_mb, disk_gb, others FROM fleet_changes WHERE seq > ? ORDER BY seq
"""
_NEWEST = select(sa.func.max(fleet_changes.c.seq))

_ADD = {
    True: insert(fleet_changes).values(tx=text("pg_current_xact_id()::text::bigint")),
    False: insert(fleet_changes).values(tx=sa.literal(0)),
}


_USE = ("writer", "host_id", "vcpus", "memory_mb", "disk_gb", "others")
_ADD_USES_POSTGRESQL = """
    INSERT INTO fleet_changes (writer, host_id, vcpus, memory_mb, disk_gb, others, tx)
    SELECT u.*, pg_current_xact_id()::text::bigint FROM json_to_recordset(%s::json)
        AS u(writer text, host_id int, vcpus bigint, memory_mb bigint, disk_gb bigint, others text)
"""


class FleetChanges:
    """Reads and writes the log."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._postgresql = connection.dialect.name == "postgresql"

    def begin(self) -> Cursor:
        """Return a cursor at this transaction's snapshot. Call it before loading the fleet."""
        if not self._postgresql:
            return Cursor(self.newest())
        rows = self._connection.execute(_BEGIN_POSTGRESQL).all()
        # Committed rows above the fence are in the loaded fleet already, and must not count twice.
        return Cursor(rows[0].upto, frozenset(row.seq for row in rows if row.seq is not None))

    def since(self, cursor: Cursor, own: str) -> Changes:
        """Return the changes by other writers since the cursor, and the next cursor."""
        with driver(self._connection) as raw:  # run for every claim, so without SQLAlchemy's overhead
            if self._postgresql:
                rows = raw.execute(_READ_POSTGRESQL, (cursor.position,)).fetchall()
                upto = max(rows[0][8], cursor.position)  # an older snapshot must not move the cursor back
                rows = [row for row in rows if row[0] is not None]
                new = [row for row in rows if row[0] not in cursor.seen]
                # Rows above the fence are read now, and remembered until the fence passes them.
                seen = cursor.seen.union(row[0] for row in rows) if rows else cursor.seen
                seen = seen and seen.difference(row[0] for row in rows if row[7] < upto)
            else:
                new, seen = raw.execute(_READ_SQLITE, (cursor.position,)).fetchall(), cursor.seen
                upto = new[-1][0] if new else cursor.position
        foreign = [row for row in new if row[1] != own]
        uses = tuple(
            UsageChange(row[2], row[3], row[4], row[5], _others(row[6])) for row in foreign if row[2] is not None
        )
        return Changes(Cursor(upto, seen), uses, structure=any(row[2] is None for row in foreign))

    def newest(self) -> int:
        """Return the sequence number of the newest row."""
        return self._connection.execute(_NEWEST).scalar() or 0

    def clear(self, upto: int) -> None:
        """Delete the rows up to that sequence number."""
        self._connection.execute(delete(fleet_changes).where(fleet_changes.c.seq <= upto))

    def add_uses(self, uses: Iterable[UsageChange], writer: str = STRUCTURE_WRITER) -> None:
        """Add changes of the usage of hosts and other providers."""
        rows = [
            (writer, u.host_id, u.vcpus, u.memory_mb, u.disk_gb, dump(u.others) if u.others else None) for u in uses
        ]
        if self._postgresql and rows:
            with driver(self._connection) as raw:
                raw.execute(_ADD_USES_POSTGRESQL, (as_records(_USE, rows),))
        else:
            insert_rows(self._connection, fleet_changes, (*_USE, "tx"), [(*row, 0) for row in rows])

    def add_structure(self) -> None:
        """Add a change of hosts, traits, zones or aggregates."""
        self._connection.execute(_ADD[self._postgresql], {"writer": STRUCTURE_WRITER})


def _others(text: str | None) -> tuple[tuple[str, int], ...]:
    return load(text, tuple[tuple[str, int], ...]) if text else ()
