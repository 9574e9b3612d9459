"""How things are found: by id, name or the beginning of an id; and in lists."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

import sqlalchemy as sa

from covey.model.clustering.errors import Ambiguous
from covey.model.clustering.listing import Listing
from covey.model.clustering.owners import Owner
from covey.model.ids import ProjectId, UserId

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_PREFIX = re.compile(r"[0-9a-f-]{1,36}", re.IGNORECASE)

Row = sa.Row[tuple[object, ...]]
Select = sa.Select[tuple[object, ...]]
Value = TypeVar("Value")


class Lookup:
    """One kind of thing. `shown` names columns by the fields that callers filter and sort by."""

    def __init__(self, table: sa.Table, rows: Select, shown: Mapping[str, str] | None = None) -> None:
        self._table, self._rows, self._shown = table, rows, shown or {}

    def one(self, connection: sa.Connection, key: str, project: ProjectId | None) -> Row | None:
        """By id, then name, where the key looks like an id; else by name, then by how ids begin. Raises Ambiguous."""
        c = self._table.c
        by_name = [] if "name" not in c else [c.name == key]
        if _UUID.fullmatch(key):
            ways = [c.id == key.lower(), *by_name]
        else:
            ways = [*by_name, c.id.startswith(key.lower())] if _PREFIX.fullmatch(key) else by_name
        for way in ways:
            wanted = self._rows.where(way).limit(2)
            if project is not None:
                wanted = wanted.where(c.project_id == project)
            found = connection.execute(wanted).all()
            if len(found) > 1:
                raise Ambiguous(key)
            if found:
                return found[0]
        return None

    def page(self, connection: sa.Connection, wanted: Listing) -> Sequence[Row]:
        """What a list wants, in its order. A marker that does not exist ends nothing: the page begins at the start."""
        rows = self._rows
        if wanted.project_id is not None:
            rows = rows.where(self._table.c.project_id == wanted.project_id)
        for field, values in wanted.filters.items():
            rows = rows.where(self._column(field).in_(values))
        order = [(self._column(field), descending) for field, descending in wanted.sort]
        order.append((self._table.c.id, False))
        if wanted.marker is not None:
            rows = self._after(connection, rows, order, wanted.marker)
        rows = rows.order_by(*(_ordered(column, descending=descending) for column, descending in order))
        if wanted.limit is not None:
            rows = rows.limit(wanted.limit)
        return connection.execute(rows).all()

    def _column(self, field: str) -> sa.Column[object]:
        return self._table.c[self._shown.get(field, field)]

    def _after(
        self, connection: sa.Connection, rows: Select, order: Sequence[tuple[sa.Column[object], bool]], marker: str
    ) -> Select:
        """Those that come later in the order than the marker; nothing comes before all else."""
        last = connection.execute(sa.select(self._table).where(self._table.c.id == marker)).mappings().first()
        if last is None:
            return rows
        later: list[sa.ColumnElement[bool]] = []
        same: list[sa.ColumnElement[bool]] = []
        for column, descending in order:
            value = last[column.name]
            later.append(sa.and_(*same, _beyond(column, value, descending=descending)))
            same.append(column.is_(None) if value is None else column == value)
        return rows.where(sa.or_(*later))


class Kind(ABC, Generic[Value]):
    """The rows of one kind of thing in a transaction, as far as all kinds are alike."""

    lookup: ClassVar[Lookup]

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def one(self, key: str, project: ProjectId | None) -> Value | None:
        """By id, name or the beginning of an id. Raises Ambiguous."""
        row = self.lookup.one(self._connection, key, project)
        return None if row is None else self._read([row])[0]

    def page(self, wanted: Listing) -> list[Value]:
        """What a list wants, in its order."""
        return self._read(self.lookup.page(self._connection, wanted))

    @abstractmethod
    def _read(self, rows: Sequence[Row]) -> list[Value]:
        """What the rows tell of."""


def _beyond(column: sa.Column[object], value: object, *, descending: bool) -> sa.ColumnElement[bool]:
    if value is None:
        return sa.false() if descending else column.is_not(None)
    return sa.or_(column < value, column.is_(None)) if descending else column > value


def _ordered(column: sa.Column[object], *, descending: bool) -> sa.ColumnElement[object]:
    return column.desc().nulls_last() if descending else column.asc().nulls_first()


def owner(row: Row) -> Owner:
    """Whose a row is."""
    return Owner(UserId(row.user_id), ProjectId(row.project_id))


def owned(value: Owner) -> dict[str, object]:
    """The columns that tell whose a row is."""
    return {"user_id": value.user_id, "project_id": value.project_id}
