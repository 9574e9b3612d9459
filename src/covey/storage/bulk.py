"""Many rows in one statement, in each database's own tongue: for claims, the one hot path, and for large clusters."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from covey.storage.documents import dump

Row = tuple[object, ...]

_MOST_ROWS = 64  # in one statement of SQLite, which allows some 32,000 values


@contextmanager
def driver(connection: sa.Connection) -> Iterator[Any]:
    """The driver's own connection, inside the same transaction; its errors come out as SQLAlchemy's."""
    dbapi = connection.dialect.loaded_dbapi
    try:
        yield connection.connection.driver_connection
    except dbapi.Error as error:
        raise sa.exc.DBAPIError.instance(None, None, error, dbapi.Error, dialect=connection.dialect) from error


@contextmanager
def pipeline(connection: sa.Connection) -> Iterator[None]:
    """Statements in the block travel together, where the database has a network to save."""
    if connection.dialect.name != "postgresql":
        yield
        return
    with driver(connection) as raw, raw.pipeline():
        yield


def execute(connection: sa.Connection, statement: str, *values: object) -> Any:  # noqa: ANN401 -- the driver's cursor
    """A statement in the driver's own words, for what is asked again and again; `?` stands for a value.

    After IN it stands for a list of any length, which both databases read as one value.
    """
    with driver(connection) as raw:
        if connection.dialect.name == "postgresql":
            kinds = tuple(_kind(value) for value in values if isinstance(value, list))
            texts = [as_array(v) if isinstance(v, list) else v for v in values]
            return raw.execute(_for_postgresql(statement, kinds), texts)
        return raw.execute(_for_sqlite(statement), [dump(v) if isinstance(v, list) else v for v in values])


@cache
def _for_postgresql(statement: str, kinds: tuple[str, ...]) -> str:
    """A list is hidden in a query of its own: PostgreSQL would look at its length, and make a new plan each time."""
    for kind in kinds:
        statement = statement.replace("IN ?", f"= ANY((SELECT %s::{kind}[])::{kind}[])" if kind else "= ANY(%s)", 1)
    return statement.replace("?", "%s")


def _kind(values: list[Any]) -> str:
    return ("int" if isinstance(values[0], int) else "text") if values else ""


@cache
def _for_sqlite(statement: str) -> str:
    unlocked = statement.replace(" FOR UPDATE", "").replace(" FOR NO KEY UPDATE", "")
    return unlocked.replace("IN ?", "IN (SELECT value FROM json_each(?))")


def insert_rows(
    connection: sa.Connection, table: sa.Table, columns: tuple[str, ...], rows: Sequence[Row], then: str = ""
) -> list[Any]:
    """Insert rows of these columns. Their order is the columns' order.

    `then` is what else the statement says, ON CONFLICT or RETURNING; the driver's cursors have what that returns.
    """
    if not rows:
        return []
    with driver(connection) as raw:
        if connection.dialect.name == "postgresql":
            return [raw.execute(_from_json(table, columns) + then, (as_records(columns, rows),))]
        return [
            raw.execute(_values(table, columns, len(some)) + then, list(chain.from_iterable(some)))
            for some in _in_powers_of_two(rows)
        ]


def _in_powers_of_two(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Few statements, of few different lengths, so that SQLite need not read each anew."""
    start = 0
    while start < len(rows):
        size = min(_MOST_ROWS, 1 << (len(rows) - start).bit_length() - 1)
        yield rows[start : start + size]
        start += size


@cache
def _values(table: sa.Table, columns: tuple[str, ...], rows: int) -> str:
    """Each statement lets other threads run, and waits for its turn again: one for many rows waits once."""
    row = f"({', '.join('?' * len(columns))})"
    return f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES {', '.join([row] * rows)}"  # noqa: S608


@cache
def _from_json(table: sa.Table, columns: tuple[str, ...]) -> str:
    """One JSON text for all rows: the driver would spend longer on writing arrays than the database on this."""
    names = ", ".join(columns)
    records = f"json_to_recordset(%s::json) AS r({_typed(table, columns)})"
    return f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {records}"  # noqa: S608


def change_rows(connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Change rows, each found by its id; all of them have values for the same columns."""
    if not rows:
        return
    columns = tuple(rows[0])
    if connection.dialect.name == "postgresql":
        with driver(connection) as raw:
            raw.execute(_changes_from_json(table, columns), (dump(rows),))
    else:
        changes: dict[str, object] = {name: sa.bindparam(f"new_{name}") for name in columns if name != "id"}
        statement = sa.update(table).where(table.c.id == sa.bindparam("new_id")).values(changes)
        connection.execute(statement, [{f"new_{name}": row[name] for name in columns} for row in rows])


@cache
def _changes_from_json(table: sa.Table, columns: tuple[str, ...]) -> str:
    changed = ", ".join(f"{name} = r.{name}" for name in columns if name != "id")
    return (
        f"UPDATE {table.name} SET {changed} FROM json_to_recordset(%s::json) AS r({_typed(table, columns)}) "  # noqa: S608
        f"WHERE {table.name}.id = r.id"
    )


def _typed(table: sa.Table, columns: tuple[str, ...]) -> str:
    kinds = (table.c[name].type.compile(dialect=postgresql.dialect()) for name in columns)  # type: ignore[no-untyped-call]
    return ", ".join(f"{name} {kind}" for name, kind in zip(columns, kinds, strict=True))


def as_records(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Rows as a JSON list of objects."""
    return dump([dict(zip(columns, row, strict=True)) for row in rows])


def as_array(values: Iterable[object]) -> str:
    """Values as PostgreSQL writes an array; the driver would take much longer to write it.

    It expects few rows of one, and looks them up by an index; of a JSON text it expects a hundred, and reads the table.
    """
    return f"{{{','.join([_quoted(str(value)) for value in values])}}}"


def _quoted(word: str) -> str:
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
