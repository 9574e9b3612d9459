"""Many rows in one statement, in each database's own tongue: for the claim, which is the one hot path."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from covey.storage.documents import dump

Row = tuple[object, ...]


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


def insert_rows(connection: sa.Connection, table: sa.Table, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
    """Insert rows of these columns. Their order is the columns' order."""
    if not rows:
        return
    with driver(connection) as raw:
        if connection.dialect.name == "postgresql":
            raw.execute(_from_json(table, columns), (as_records(columns, rows),))
        else:
            raw.executemany(_values(table, columns), rows)


@cache
def _values(table: sa.Table, columns: tuple[str, ...]) -> str:
    return f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608


@cache
def _from_json(table: sa.Table, columns: tuple[str, ...]) -> str:
    """One JSON text for all rows: the driver would spend longer on writing arrays than the database on this."""
    kinds = (table.c[name].type.compile(dialect=postgresql.dialect()) for name in columns)  # type: ignore[no-untyped-call]
    names, typed = ", ".join(columns), ", ".join(f"{name} {kind}" for name, kind in zip(columns, kinds, strict=True))
    return f"INSERT INTO {table.name} ({names}) SELECT {names} FROM json_to_recordset(%s::json) AS r({typed})"  # noqa: S608


def as_records(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Rows as a JSON list of objects."""
    return dump([dict(zip(columns, row, strict=True)) for row in rows])
