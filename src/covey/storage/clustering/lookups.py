"""Lookups that all clustering tables share: by id, name or the beginning of an id, and in pages."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

import sqlalchemy as sa

from covey.model.clustering.errors import Ambiguous
from covey.model.clustering.owners import Owner
from covey.model.clustering.paging import PageQuery
from covey.model.ids import ProjectId, UserId

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_PREFIX = re.compile(r"[0-9a-f-]{1,36}", re.IGNORECASE)

Row = sa.Row[tuple[object, ...]]
Select = sa.Select[tuple[object, ...]]
Value = TypeVar("Value")


class Lookup:
    """Queries of one table. `shown` maps the API's field names to columns where they differ."""

    def __init__(self, table: sa.Table, rows: Select, shown: Mapping[str, str] | None = None) -> None:
        self._table, self._rows, self._shown = table, rows, shown or {}

    def one(self, connection: sa.Connection, key: str, project: ProjectId | None) -> Row | None:
        """Return a row by id or name for a UUID; else by name or the beginning of the id. Raises Ambiguous."""
        c = self._table.c
        by_name = [] if "name" not in c else [c.name == key]
        if _UUID.fullmatch(key):
            conditions = [c.id == key.lower(), *by_name]
        else:
            conditions = [*by_name, c.id.startswith(key.lower())] if _PREFIX.fullmatch(key) else by_name
        for condition in conditions:
            statement = self._rows.where(condition).limit(2)
            if project is not None:
                statement = statement.where(c.project_id == project)
            found = connection.execute(statement).all()
            if len(found) > 1:
                raise Ambiguous(key)
            if found:
                return found[0]
        return None

    def count(self, connection: sa.Connection, project: ProjectId) -> int:
        """Return how many rows a project has."""
        rows = sa.select(sa.func.count()).select_from(self._table).where(self._table.c.project_id == project)
        return connection.execute(rows).scalar_one()

    def page(self, connection: sa.Connection, query: PageQuery) -> Sequence[Row]:
        """Return a page of rows. With a marker that the project does not see, the page begins at the start."""
        rows, marker = self._rows, sa.select(self._table).where(self._table.c.id == query.marker)
        if query.project_id is not None:
            rows, marker = (some.where(self._table.c.project_id == query.project_id) for some in (rows, marker))
        for field, values in query.filters.items():
            rows = rows.where(self._column(field).in_(values))
        order = [(self._column(field), descending) for field, descending in query.sort]
        order.append((self._table.c.id, False))
        if query.marker is not None:
            rows = _after(rows, order, connection.execute(marker).mappings().first())
        rows = rows.order_by(*(_ordered(column, descending=descending) for column, descending in order))
        if query.limit is not None:
            rows = rows.limit(query.limit)
        return connection.execute(rows).all()

    def _column(self, field: str) -> sa.Column[object]:
        return self._table.c[self._shown.get(field, field)]


class Collection(ABC, Generic[Value]):
    """One table in a transaction, with the lookups that all tables share."""

    lookup: ClassVar[Lookup]

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def one(self, key: str, project: ProjectId | None) -> Value | None:
        """Return a resource by id, name or the beginning of its id. Raises Ambiguous."""
        row = self.lookup.one(self._connection, key, project)
        return None if row is None else self._read([row])[0]

    def page(self, query: PageQuery) -> list[Value]:
        """Return a page of resources."""
        return self._read(self.lookup.page(self._connection, query))

    def count(self, project: ProjectId) -> int:
        """Return how many resources a project has."""
        return self.lookup.count(self._connection, project)

    @abstractmethod
    def _read(self, rows: Sequence[Row]) -> list[Value]:
        """Return the resources of rows."""


def _after(rows: Select, order: Sequence[tuple[sa.Column[object], bool]], last: sa.RowMapping | None) -> Select:
    """Add the condition that a row sorts after the last one; NULL sorts first."""
    if last is None:
        return rows
    later: list[sa.ColumnElement[bool]] = []
    same: list[sa.ColumnElement[bool]] = []
    for column, descending in order:
        value = last[column.name]
        later.append(sa.and_(*same, _beyond(column, value, descending=descending)))
        same.append(column.is_(None) if value is None else column == value)
    return rows.where(sa.or_(*later))


def _beyond(column: sa.Column[object], value: object, *, descending: bool) -> sa.ColumnElement[bool]:
    if value is None:
        return sa.false() if descending else column.is_not(None)
    return sa.or_(column < value, column.is_(None)) if descending else column > value


def _ordered(column: sa.Column[object], *, descending: bool) -> sa.ColumnElement[object]:
    return column.desc().nulls_last() if descending else column.asc().nulls_first()


def owner(row: Row) -> Owner:
    """Return the owner of a row."""
    return Owner(UserId(row.user_id), ProjectId(row.project_id))


def owner_columns(value: Owner) -> dict[str, object]:
    """Return the columns of an owner."""
    return {"user_id": value.user_id, "project_id": value.project_id}
