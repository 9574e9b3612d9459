"""Rows: many in one statement of the driver, for claims and large clusters, and the JSON documents in their columns."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain, islice
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

Row = tuple[object, ...]
T = TypeVar("T")

_LOCKS = re.compile(r"\sFOR (NO KEY )?UPDATE( SKIP LOCKED)?")
_CHUNK = 5000
_INT_END = 1 << 31  # of PostgreSQL's int
_MAX_ROWS = 64  # in one statement of SQLite, which allows some 32,000 values


def dump(value: object) -> str:
    """Return a value of the model as JSON text."""
    return msgspec.json.encode(value).decode()


def load(text: str, kind: type[T]) -> T:
    """Return the value of that type that the JSON text holds."""
    return msgspec.json.decode(text, type=kind)


def loader(kind: type[T]) -> Callable[[str], T]:
    """Return `load` for one type, prepared for a hot path."""
    return msgspec.json.Decoder(kind).decode


class driver:  # noqa: N801 -- a class costs less than a generator, for every statement of the hot paths
    """Yields the driver's connection, in the same transaction. Its errors are raised as SQLAlchemy's."""

    __slots__ = ("_connection",)

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> Any:  # noqa: ANN401 -- the driver's connection
        return self._connection.connection.driver_connection

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        dialect = self._connection.dialect
        if error is not None and isinstance(error, Exception) and isinstance(error, dialect.loaded_dbapi.Error):
            raise sa.exc.DBAPIError.instance(None, None, error, dialect.loaded_dbapi.Error, dialect=dialect) from error


@contextmanager
def pipeline(connection: sa.Connection) -> Iterator[None]:
    """Send the statements of the block to PostgreSQL in one round trip."""
    if connection.dialect.name != "postgresql":
        yield
        return
    with driver(connection) as raw:
        try:
            with raw.pipeline():
                yield
        finally:
            if raw.pgconn.pipeline_status:  # an answer was lost: it takes no statement any more, no ROLLBACK
                raw.close()


def execute(connection: sa.Connection, statement: str, *values: object) -> Any:  # noqa: ANN401 -- the driver's cursor
    """Run a statement of a hot path by the driver, and return its cursor. `?` stands for a value.

    After IN, `?` stands for a list of any length, which both databases read as one value.
    """
    with driver(connection) as raw:
        if connection.dialect.name == "postgresql":
            kinds = tuple(_kind(value) for value in values if isinstance(value, list))
            texts = [as_array(v) if isinstance(v, list) else v for v in values]
            return raw.execute(_for_postgresql(statement, kinds), texts)
        return raw.execute(_for_sqlite(statement), [dump(v) if isinstance(v, list) else v for v in values])


def execute_for(connection: sa.Connection, statement: str, columns: Mapping[str, str], rows: Sequence[Row]) -> Any:  # noqa: ANN401
    """Run one statement for many rows, and return the driver's cursor.

    `{rows}` in the statement stands for the rows: a relation `r` with these columns, of these types of PostgreSQL.
    """
    with driver(connection) as raw:
        if connection.dialect.name == "postgresql":
            texts = [as_array(row[place] for row in rows) for place in range(len(columns))]
            return raw.execute(_for_arrays(statement, tuple(columns.items())), texts)
        return raw.execute(_for_json(statement, tuple(columns)), (dump(rows),))


@cache
def _for_arrays(statement: str, columns: tuple[tuple[str, str], ...]) -> str:
    arrays = ", ".join(f"(SELECT %s::{kind}[])" for _, kind in columns)
    return statement.format(rows=f"unnest({arrays}) AS r({', '.join(name for name, _ in columns)})")


@cache
def _for_json(statement: str, columns: tuple[str, ...]) -> str:
    cells = ", ".join(f"value ->> {place} AS {name}" for place, name in enumerate(columns))
    return statement.format(rows=f"(SELECT {cells} FROM json_each(?)) AS r")  # noqa: S608


def fetch(connection: sa.Connection, query: sa.Select[Any], **values: object) -> list[tuple[Any, ...]]:
    """Return the rows of a query of a hot path, which is built once and run by the driver.

    SQLAlchemy compiles it once for a database. To execute it as well would cost several times the query itself.
    """
    compiled = _compile(query, connection.dialect)
    with driver(connection) as raw:
        rows: list[tuple[Any, ...]] = raw.execute(compiled.text, compiled.bind(values)).fetchall()
    return [compiled.convert(row) for row in rows] if compiled.converters else rows


@dataclass(frozen=True, slots=True)
class _Compiled:
    text: str
    constants: Mapping[str, object]
    order: Sequence[str] | None  # of positional parameters; None where the driver takes names
    converters: Mapping[int, Callable[[Any], Any]]  # of columns whose values the driver does not convert

    def bind(self, values: Mapping[str, object]) -> Mapping[str, object] | list[object]:
        named = {**self.constants, **values}
        return named if self.order is None else [named[name] for name in self.order]

    def convert(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        cells = list(row)
        for place, converter in self.converters.items():
            cells[place] = converter(cells[place])
        return tuple(cells)


@lru_cache(maxsize=256)
def _compile(query: sa.Select[Any], dialect: sa.Dialect) -> _Compiled:
    compiled = query.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    converters = enumerate(
        column.type.dialect_impl(dialect).result_processor(dialect, None) for column in query.selected_columns
    )
    return _Compiled(
        str(compiled), compiled.params, compiled.positiontup, {place: found for place, found in converters if found}
    )


@cache
def _for_postgresql(statement: str, kinds: tuple[str, ...]) -> str:
    """Put each list into a subquery: PostgreSQL would otherwise plan again for each length."""
    for kind in kinds:
        statement = statement.replace("IN ?", f"= ANY((SELECT %s::{kind}[])::{kind}[])" if kind else "= ANY(%s)", 1)
    return statement.replace("?", "%s")


def _kind(values: list[Any]) -> str:
    if not values:
        return ""
    if isinstance(values[0], int):
        return "int" if max(values) < _INT_END else "bigint"
    return "text"


@cache
def _for_sqlite(statement: str) -> str:
    unlocked = _LOCKS.sub("", statement)
    return unlocked.replace("IN ?", "IN (SELECT value FROM json_each(?))").replace("string_agg(", "group_concat(")


def in_chunks(ids: Iterable[int]) -> Iterator[list[int]]:
    """Yield the ids in chunks, within both databases' limit of parameters."""
    rest = iter(ids)
    while chunk := list(islice(rest, _CHUNK)):
        yield chunk


def insert_rows(
    connection: sa.Connection, table: sa.Table, columns: tuple[str, ...], rows: Sequence[Row], then: str = ""
) -> list[Any]:
    """Insert rows, each with its values in the order of the columns. Return the driver's cursors.

    `then` follows in the statement: ON CONFLICT or RETURNING.
    """
    if not rows:
        return []
    with driver(connection) as raw:
        if connection.dialect.name == "postgresql":
            return [raw.execute(_from_json(table, columns) + then, (as_records(columns, rows),))]
        return [
            raw.execute(_values(table, columns, len(chunk)) + then, list(chain.from_iterable(chunk)))
            for chunk in _in_powers_of_two(rows)
        ]


def _in_powers_of_two(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Split rows into few chunks of few different lengths, so that SQLite reuses its prepared statements."""
    start = 0
    while start < len(rows):
        size = min(_MAX_ROWS, 1 << (len(rows) - start).bit_length() - 1)
        yield rows[start : start + size]
        start += size


@cache
def _values(table: sa.Table, columns: tuple[str, ...], rows: int) -> str:
    """Return one statement for many rows: each statement releases the GIL and waits to get it back."""
    row = f"({', '.join('?' * len(columns))})"
    return f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES {', '.join([row] * rows)}"  # noqa: S608


@cache
def _from_json(table: sa.Table, columns: tuple[str, ...]) -> str:
    """Return a statement that takes all rows as one JSON text, which the driver sends faster than arrays."""
    names = ", ".join(columns)
    records = f"json_to_recordset(%s::json) AS r({_typed(table, columns)})"
    return f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {records}"  # noqa: S608


def change_rows(connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Update rows by id. All of them have values for the same columns."""
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
    """Return rows as a JSON list of objects."""
    return dump([dict(zip(columns, row, strict=True)) for row in rows])


def as_array(values: Iterable[object]) -> str:
    """Return values as the text of a PostgreSQL array, which is faster than the driver's own conversion.

    The planner expects few rows of an array and uses an index; of a JSON text it expects a hundred and scans the table.
    """
    return f"{{{','.join([_quoted(str(value)) for value in values])}}}"


def _quoted(word: str) -> str:
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
