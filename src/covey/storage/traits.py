"""Traits of providers, and custom traits."""

from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, insert, select

from covey.model.vocabulary import CUSTOM, STANDARD_TRAITS
from covey.storage.changes import Topology
from covey.storage.tables import custom_traits, provider_traits

_ADD = insert(provider_traits)
_NAME = sa.text("INSERT INTO custom_traits (name, created_at) VALUES (:name, :now) ON CONFLICT DO NOTHING").bindparams(
    bindparam("now", type_=sa.DateTime)
)


class Traits:
    """Custom traits have rows; standard traits always exist."""

    def __init__(self, connection: sa.Connection, topology: Topology) -> None:
        self._connection = connection
        self._topology = topology

    def custom(self, names: Collection[str] | None = None, *, lock: bool = False) -> dict[str, datetime | None]:
        """Return the custom traits, or those of these names, with their creation times; `lock` prevents deletion."""
        query = select(custom_traits).order_by(custom_traits.c.name)
        if names is not None:
            query = query.where(custom_traits.c.name.in_(names))
        rows = self._connection.execute(query.with_for_update(read=True) if lock else query)
        return {row.name: row.created_at for row in rows}

    def known(self, names: Collection[str], *, lock: bool = False) -> set[str]:
        """Return the known ones of these names: standard and custom."""
        standard = set(names) & STANDARD_TRAITS
        others = set(names) - standard
        return standard | self.custom(others, lock=lock).keys() if others else standard

    def add_custom(self, names: Collection[str], now: datetime | None = None) -> bool:
        """Add custom traits. Return whether any of them is new."""
        rows = [{"name": name, "now": now} for name in sorted(names) if name.startswith(CUSTOM)]
        return bool(rows) and self._connection.execute(_NAME, rows).rowcount > 0

    def delete_custom(self, name: str) -> bool:
        """Delete a custom trait, unless a provider has it."""
        condition = custom_traits.c.name == name
        self._connection.execute(select(custom_traits).where(condition).with_for_update())
        if self.in_use(name):
            return False
        self._connection.execute(delete(custom_traits).where(condition))
        return True

    def in_use(self, name: str | None = None) -> set[str]:
        """Return the traits that a provider has; with a name, at most that one."""
        query = select(provider_traits.c.trait).distinct()
        if name is not None:
            query = query.where(provider_traits.c.trait == name)
        return set(self._connection.execute(query).scalars())

    def of(self, provider: int) -> frozenset[str]:
        query = select(provider_traits.c.trait).where(provider_traits.c.provider_id == provider)
        return frozenset(self._connection.execute(query).scalars())

    def replace(self, provider: int, names: Collection[str]) -> None:
        """Set the traits of a provider."""
        self._connection.execute(delete(provider_traits).where(provider_traits.c.provider_id == provider))
        rows = [{"provider_id": provider, "trait": name} for name in sorted(names)]
        if rows:
            self._connection.execute(_ADD, rows)
        self._topology.changed(providers=[provider])
