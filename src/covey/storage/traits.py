"""Traits: which providers have them, and the names that operators gave themselves."""

from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, insert, select

from covey.model.vocabulary import CUSTOM, STANDARD_TRAITS
from covey.storage.changes import FleetChanges
from covey.storage.tables import custom_traits, provider_traits

_ADD = insert(provider_traits)
_NAME = sa.text("INSERT INTO custom_traits (name, created_at) VALUES (:name, :now) ON CONFLICT DO NOTHING").bindparams(
    bindparam("now", type_=sa.DateTime)
)


class Traits:
    """The standard traits have no rows: they are there by themselves."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def custom(self, names: Collection[str] | None = None, *, hold: bool = False) -> dict[str, datetime | None]:
        """Those of these names that an operator made, and when; held, so that none goes away meanwhile."""
        wanted = select(custom_traits).order_by(custom_traits.c.name)
        if names is not None:
            wanted = wanted.where(custom_traits.c.name.in_(names))
        rows = self._connection.execute(wanted.with_for_update(read=True) if hold else wanted)
        return {row.name: row.created_at for row in rows}

    def known(self, names: Collection[str], *, hold: bool = False) -> set[str]:
        """Those of these names that mean something: standard ones, and operators' own."""
        standard = set(names) & STANDARD_TRAITS
        others = set(names) - standard
        return standard | self.custom(others, hold=hold).keys() if others else standard

    def name(self, names: Collection[str], now: datetime | None = None) -> bool:
        """Makes names of an operator's own; tells whether any of them is new."""
        rows = [{"name": name, "now": now} for name in sorted(names) if name.startswith(CUSTOM)]
        return bool(rows) and self._connection.execute(_NAME, rows).rowcount > 0

    def forget(self, name: str) -> bool:
        """Removes a name, unless some provider has it as a trait."""
        mine = custom_traits.c.name == name
        self._connection.execute(select(custom_traits).where(mine).with_for_update())
        if self.in_use(name):
            return False
        self._connection.execute(delete(custom_traits).where(mine))
        return True

    def in_use(self, name: str | None = None) -> set[str]:
        """The traits that some provider has; only this one, if one is named."""
        wanted = select(provider_traits.c.trait).distinct()
        if name is not None:
            wanted = wanted.where(provider_traits.c.trait == name)
        return set(self._connection.execute(wanted).scalars())

    def of(self, provider: int) -> frozenset[str]:
        mine = select(provider_traits.c.trait).where(provider_traits.c.provider_id == provider)
        return frozenset(self._connection.execute(mine).scalars())

    def replace(self, provider: int, names: Collection[str]) -> None:
        """Gives a provider these traits and no others."""
        self._connection.execute(delete(provider_traits).where(provider_traits.c.provider_id == provider))
        rows = [{"provider_id": provider, "trait": name} for name in sorted(names)]
        if rows:
            self._connection.execute(_ADD, rows)
        FleetChanges(self._connection).add_structure()
