"""Resource providers: their trees and their aggregates."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import and_, delete, func, insert, or_, select, update

from covey.model.errors import DuplicateName
from covey.model.providers import MAX_INT, Provider, ProviderFilter
from covey.storage.changes import Topology
from covey.storage.integrity_errors import integrity_error_as
from covey.storage.rows import execute, pipeline
from covey.storage.tables import hosts, inventories, provider_aggregates, provider_traits
from covey.storage.tables import resource_providers as providers

_PARENT, _ROOT = providers.alias("parent"), providers.alias("root")
_ROOT_ID = func.coalesce(providers.c.root_id, providers.c.id)
_ROWS = (
    select(
        providers.c.id,
        providers.c.uuid,
        providers.c.name,
        providers.c.generation,
        providers.c.parent_id,
        _PARENT.c.uuid,
        _ROOT_ID,
        func.coalesce(_ROOT.c.uuid, providers.c.uuid),
        select(hosts.c.id).where(hosts.c.id == providers.c.id).exists(),
        providers.c.updated_at,
    )
    .select_from(
        providers.outerjoin(_PARENT, providers.c.parent_id == _PARENT.c.id).outerjoin(
            _ROOT, providers.c.root_id == _ROOT.c.id
        )
    )
    .order_by(providers.c.id)
)
_BUMP = "UPDATE resource_providers SET generation = generation + ?, updated_at = ? WHERE id = ?"
_ADD = insert(providers).returning(providers.c.id)
_ADD_AGGREGATE = insert(provider_aggregates)


class Providers:
    """Every resource provider, hosts among them.

    A change takes the topology token, then locks the provider's row; several rows are locked by id.
    """

    def __init__(self, connection: sa.Connection, topology: Topology) -> None:
        self._connection = connection
        self._topology = topology

    def find(self, filters: ProviderFilter) -> list[Provider]:
        """Return the filtered providers, oldest first."""
        return self._load(and_(sa.true(), *_conditions(filters)))

    def by_uuid(self, uuid: str, *, lock: bool = False) -> Provider | None:
        """Return a provider or None; `lock` locks its row for a change."""
        if lock:
            self._topology.begin_change()
        found = self._load(providers.c.uuid == uuid, lock=lock)
        return found[0] if found else None

    def lock(self, uuids: Collection[str], ids: Collection[int]) -> dict[str, Provider]:
        """Lock the providers of these uuids and ids, as allocations do. Return those that exist, by uuid."""
        condition = or_(providers.c.uuid.in_(uuids), providers.c.id.in_(ids))
        return {provider.uuid: provider for provider in self._load(condition, lock=True)}

    def trees(self, roots: Collection[int], *, lock: bool = False) -> list[Provider]:
        """Return every provider of these trees; `lock` locks their rows for a change."""
        if lock:
            self._topology.begin_change()
        return self._load(_ROOT_ID.in_(roots), lock=lock)

    def names_in_use(self, names: Collection[str]) -> list[str]:
        """Return those of the names that a provider has, in order."""
        found = execute(self._connection, "SELECT name FROM resource_providers WHERE name IN ?", list(names))
        return sorted(name for (name,) in found.fetchall())

    def exist(self) -> bool:
        """Return whether there is any provider."""
        return execute(self._connection, "SELECT 1 FROM resource_providers LIMIT 1").fetchone() is not None

    def has_children(self, provider: int) -> bool:
        children = select(providers.c.id).where(providers.c.parent_id == provider)
        return bool(self._connection.execute(select(children.exists())).scalar())

    def add(self, uuid: str, name: str, parent: Provider | None, now: datetime) -> None:
        """Add a provider below a parent, which the caller has locked. Raises DuplicateName."""
        row = {"uuid": uuid, "name": name, "created_at": now, "updated_at": now}
        tree = {"parent_id": parent.id, "root_id": parent.root_id} if parent else {}
        with integrity_error_as(DuplicateName(f"Conflicting resource provider name: {name} already exists.")):
            added = self._connection.execute(_ADD, row | tree).scalar_one()
        self._topology.changed(providers=[added])

    def rename(self, provider: Provider, name: str, now: datetime) -> None:
        """Set the name, which may be the old one. Raises DuplicateName."""
        with integrity_error_as(DuplicateName(f"Conflicting resource provider {name} already exists.")):
            self._update(provider.id, name=name, updated_at=now)
        if name != provider.name:
            self._topology.changed(providers=[provider.id])

    def move(self, provider: int, parent: Provider | None, below: Sequence[int]) -> None:
        """Move a provider and its descendants below a parent, or make it a root."""
        root = parent.root_id if parent else provider
        self._update(provider, parent_id=parent.id if parent else None, root_id=root if parent else None)
        if below:
            self._connection.execute(update(providers).where(providers.c.id.in_(below)).values(root_id=root))
        self._topology.changed(providers=[provider, *below])

    def delete(self, provider: int) -> None:
        """Delete a provider without allocations, with its inventories, traits and aggregates."""
        self._topology.begin_change()
        self._connection.execute(delete(providers).where(providers.c.id == provider))
        self._topology.changed(providers=[provider])

    def bump(self, generations: Mapping[int, int], now: datetime) -> None:
        """Add to the generation of each provider, in the common lock order."""
        counted = sorted((provider, by) for provider, by in generations.items() if by)
        if counted:
            with pipeline(self._connection):
                for provider, by in counted:
                    execute(self._connection, _BUMP, by, str(now), provider)

    def aggregates(self, provider: int) -> list[str]:
        query = select(provider_aggregates.c.aggregate_uuid).where(provider_aggregates.c.provider_id == provider)
        return list(self._connection.execute(query.order_by(provider_aggregates.c.aggregate_uuid)).scalars())

    def set_aggregates(self, provider: int, uuids: Iterable[str]) -> None:
        """Set the provider's aggregates."""
        self._connection.execute(delete(provider_aggregates).where(provider_aggregates.c.provider_id == provider))
        rows = [{"provider_id": provider, "aggregate_uuid": uuid} for uuid in sorted(uuids)]
        if rows:
            self._connection.execute(_ADD_AGGREGATE, rows)
        self._topology.changed(providers=[provider])

    def _load(self, condition: sa.ColumnElement[bool], *, lock: bool = False) -> list[Provider]:
        query = _ROWS.where(condition)
        if lock:  # rows that refer to the provider need not wait
            query = query.with_for_update(of=providers, key_share=True)
        return [Provider(*row) for row in self._connection.execute(query)]

    def _update(self, provider: int, **values: object) -> None:
        self._connection.execute(update(providers).where(providers.c.id == provider).values(**values))


def _conditions(filters: ProviderFilter) -> Iterable[sa.ColumnElement[bool]]:
    if filters.name is not None:
        yield providers.c.name == filters.name
    if filters.uuid is not None:
        yield providers.c.uuid == filters.uuid
    if filters.in_tree is not None:
        member = providers.alias("member")
        root = select(func.coalesce(member.c.root_id, member.c.id)).where(member.c.uuid == filters.in_tree)
        yield root.scalar_subquery() == _ROOT_ID
    for kind, amount in filters.resources.items():
        yield _with_room(kind, amount) if amount <= MAX_INT else sa.false()
    for names in filters.required:
        yield _any_of(provider_traits.c.trait, names)
    if filters.forbidden:
        yield ~_any_of(provider_traits.c.trait, filters.forbidden)
    for uuids in filters.member_of:
        yield _any_of(provider_aggregates.c.aggregate_uuid, uuids)
    if filters.not_member_of:
        yield ~_any_of(provider_aggregates.c.aggregate_uuid, filters.not_member_of)


def _any_of(column: sa.Column[str], values: Collection[str]) -> sa.ColumnElement[bool]:
    condition = column.table.c.provider_id == providers.c.id
    return select(column).where(condition, column.in_(values)).correlate(providers).exists()


def _with_room(kind: str, amount: int) -> sa.ColumnElement[bool]:
    i = inventories.c
    return (
        select(i.provider_id)
        .where(
            i.provider_id == providers.c.id,
            i.resource_class == kind,
            i.used + amount <= (i.total - i.reserved) * i.allocation_ratio,
            i.min_unit <= amount,
            i.max_unit >= amount,
            sa.literal(amount) % i.step_size == 0,
        )
        .correlate(providers)
        .exists()
    )
