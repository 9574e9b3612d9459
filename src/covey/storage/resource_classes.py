"""Custom resource classes."""

from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, insert, select, update

from covey.model.vocabulary import STANDARD_CLASSES
from covey.storage.changes import Topology
from covey.storage.tables import allocations, inventories
from covey.storage.tables import custom_resource_classes as classes

_OTHER_COLUMNS = [column.name for column in inventories.c if column.name != "resource_class"]
_ADD = sa.text(
    "INSERT INTO custom_resource_classes (name, created_at) VALUES (:name, :now) ON CONFLICT DO NOTHING"
).bindparams(bindparam("now", type_=sa.DateTime))


class ResourceClasses:
    """Custom classes have rows; standard classes always exist."""

    def __init__(self, connection: sa.Connection, topology: Topology) -> None:
        self._connection = connection
        self._topology = topology

    def custom(self, names: Collection[str] | None = None, *, lock: bool = False) -> dict[str, datetime]:
        """Return the custom classes, or those of these names, with their creation times; `lock` prevents deletion."""
        query = select(classes).order_by(classes.c.created_at, classes.c.name)
        if names is not None:
            query = query.where(classes.c.name.in_(names))
        rows = self._connection.execute(query.with_for_update(read=True) if lock else query)
        return {row.name: row.created_at for row in rows}

    def known(self, names: Collection[str], *, lock: bool = False) -> set[str]:
        """Return the known ones of these names: standard and custom."""
        standard = set(names) & set(STANDARD_CLASSES)
        others = set(names) - standard
        return standard | self.custom(others, lock=lock).keys() if others else standard

    def add(self, name: str, now: datetime) -> bool:
        """Add a custom class. Return whether it is new."""
        return self._connection.execute(_ADD, {"name": name, "now": now}).rowcount > 0

    def rename(self, name: str, new: str) -> None:
        """Rename a class in all inventories and allocations."""
        self._topology.begin_change()
        self._connection.execute(update(classes).where(classes.c.name == name).values(name=new))
        condition = inventories.c.resource_class == name
        old = select(sa.literal(new), *(inventories.c[column] for column in _OTHER_COLUMNS)).where(condition)
        self._connection.execute(insert(inventories).from_select(["resource_class", *_OTHER_COLUMNS], old))
        self._connection.execute(
            update(allocations).where(allocations.c.resource_class == name).values(resource_class=new)
        )
        dropped = delete(inventories).where(condition).returning(inventories.c.provider_id)
        self._topology.changed(providers=self._connection.execute(dropped).scalars())

    def delete(self, name: str) -> bool:
        """Delete a class, unless a provider has an inventory of it."""
        condition = classes.c.name == name
        self._connection.execute(select(classes).where(condition).with_for_update())
        in_inventories = select(inventories.c.provider_id).where(inventories.c.resource_class == name)
        if self._connection.execute(select(in_inventories.exists())).scalar():
            return False
        self._connection.execute(delete(classes).where(condition))
        return True
