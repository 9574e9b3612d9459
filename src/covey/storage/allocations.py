"""Consumers and their allocations."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import and_, func, select

from covey.model.actions import UNDER_WAY
from covey.model.allocations import (
    INSTANCE,
    MIGRATION,
    Allocation,
    AllocationRequest,
    Consumer,
    ConsumerAllocations,
    LockedRows,
    Usage,
)
from covey.model.changes import UsageChange
from covey.model.claims import Allocations as HeldAllocations
from covey.model.errors import TransactionConflict
from covey.model.ids import GroupId
from covey.model.resources import Resources
from covey.storage.changes import FleetChanges
from covey.storage.claims import Amount, Claims
from covey.storage.group_consumers import GROUP_OF_CONSUMER
from covey.storage.inventories import COLUMNS, by_provider
from covey.storage.rows import execute, insert_rows, pipeline
from covey.storage.tables import allocations, consumers, hosts, migrations, resource_providers, servers

_BATCH = 10_000  # consumers in one statement

_ENSURE = """
    INSERT INTO consumers (uuid, project_id, user_id, consumer_type, generation) VALUES (?, ?, ?, ?, 0)
    ON CONFLICT DO NOTHING
"""
_CONSUMER = ("uuid", "project_id", "user_id", "consumer_type", "generation", "updated_at")
_OR_COUNT_WRITE = """
    ON CONFLICT (uuid) DO UPDATE SET project_id = excluded.project_id, user_id = excluded.user_id,
        consumer_type = COALESCE(excluded.consumer_type, consumers.consumer_type),
        generation = consumers.generation + 1, updated_at = excluded.updated_at
    RETURNING uuid, generation - 1
"""
_AND_GROUP = f"{_OR_COUNT_WRITE.rstrip()}, {GROUP_OF_CONSUMER}"
_NAMED = "SELECT id FROM resource_providers WHERE uuid IN ?"
_NAMED_OR_HELD = f"""
    SELECT id FROM resource_providers WHERE id IN
        ({_NAMED} UNION SELECT provider_id FROM allocations WHERE consumer_uuid IN ?)
"""  # noqa: S608 -- nothing of a caller's is in it
_COUNT_WRITES, _COUNT_ALL_WRITES = (
    f"""
    UPDATE resource_providers SET generation = generation + 1, updated_at = ?
    WHERE id IN ({those} ORDER BY id FOR NO KEY UPDATE) RETURNING uuid, id
    """  # noqa: S608
    for those in (_NAMED, _NAMED_OR_HELD)
)
_INVENTORIES = f"SELECT {', '.join(column.name for column in COLUMNS)} FROM inventories WHERE provider_id IN ({_NAMED})"  # noqa: S608
_CONSUMERS = select(
    consumers.c.uuid,
    consumers.c.project_id,
    consumers.c.user_id,
    consumers.c.consumer_type,
    consumers.c.generation,
    consumers.c.updated_at,
).order_by(consumers.c.uuid)
_DELETE_CONSUMERS = f"DELETE FROM consumers WHERE uuid IN ? RETURNING uuid, {GROUP_OF_CONSUMER}"  # noqa: S608
_DELETE = "DELETE FROM allocations WHERE consumer_uuid IN ? RETURNING consumer_uuid, provider_id, resource_class, used"
_ALLOCATIONS = (
    select(allocations, resource_providers.c.uuid, resource_providers.c.generation)
    .join_from(allocations, resource_providers, allocations.c.provider_id == resource_providers.c.id)
    .order_by(allocations.c.provider_id, allocations.c.resource_class)
)

_ORPHANS = (
    select(consumers.c.uuid)
    .where(
        consumers.c.consumer_type.in_([INSTANCE, MIGRATION]),
        select(allocations.c.provider_id)
        .where(allocations.c.consumer_uuid == consumers.c.uuid, allocations.c.provider_id.in_(select(hosts.c.id)))
        .exists(),
        ~select(servers.c.id).where(servers.c.id == consumers.c.uuid).exists(),
        ~select(migrations.c.id)
        .where(migrations.c.uuid == consumers.c.uuid, migrations.c.status.in_(UNDER_WAY))
        .exists(),
    )
    .order_by(consumers.c.uuid)
)


class Allocations:
    """Allocations by consumer.

    A change locks the consumers' rows first, then the providers', then the inventories'.
    """

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def by_consumer(self, uuids: Collection[str]) -> list[ConsumerAllocations]:
        """Return the consumers that have allocations, each with all of its allocations."""
        return self._load(consumers.c.uuid.in_(uuids), allocations.c.consumer_uuid.in_(uuids))

    def of_providers(self, providers: Collection[int]) -> list[ConsumerAllocations]:
        """Return the consumers with allocations on the providers, and these allocations only."""
        here = allocations.c.provider_id.in_(providers)
        return self._load(consumers.c.uuid.in_(select(allocations.c.consumer_uuid).where(here)), here)

    def begin_replace(
        self,
        requests: Sequence[AllocationRequest],
        now: datetime,
        new: Sequence[Allocation] = (),
        amounts: Sequence[Amount] = (),
    ) -> LockedRows:
        """Bump the generations of consumers, and of each provider whose allocations the requests add or delete.

        One round trip, in the common lock order. It deletes and returns the old allocations, except for consumers
        that are expected to be new. A caller that already knows the new allocations passes them as `new`.
        """
        named = sorted({provider for request in requests for provider in request.resources})
        emptied = [request.consumer for request in requests if not request.resources]
        with pipeline(self._connection):
            consumers_now = self._bump_generations(requests, now, _AND_GROUP)
            if emptied:
                providers = execute(self._connection, _COUNT_ALL_WRITES, str(now), named, emptied)
            else:
                providers = execute(self._connection, _COUNT_WRITES, str(now), named)
            inventory_rows = execute(self._connection, _INVENTORIES, named)
            old = self._delete([request for request in requests if not request.is_new])
            refused = self._add(new, amounts)
        rows = [row for cursor in consumers_now for row in cursor.fetchall()]
        return LockedRows(
            {consumer: generation for consumer, generation, _ in rows},
            old(),
            dict(providers.fetchall()),
            by_provider(inventory_rows.fetchall()),
            refused(),
            frozenset(GroupId(group) for *_, group in rows if group is not None),
        )

    def clear_consumers(
        self, requests: Sequence[AllocationRequest], now: datetime
    ) -> tuple[dict[str, int], list[Allocation]]:
        """Bump each consumer's generation and delete its allocations. Return its old generation and allocations.

        A missing consumer is created; its old generation is 0, which no other has.
        """
        with pipeline(self._connection):
            cursors, old = self._bump_generations(requests, now, _OR_COUNT_WRITE), self._delete(requests)
        return dict(row for cursor in cursors for row in cursor.fetchall()), old()

    def _bump_generations(self, requests: Sequence[AllocationRequest], now: datetime, then: str) -> list[Any]:
        rows = sorted(
            (request.consumer, request.project_id, request.user_id, request.kind, 1, str(now)) for request in requests
        )
        return insert_rows(self._connection, consumers, _CONSUMER, rows, then)

    def _delete(self, requests: Sequence[AllocationRequest]) -> Callable[[], list[Allocation]]:
        cursor = execute(self._connection, _DELETE, [request.consumer for request in requests]) if requests else None
        return lambda: [Allocation(*row) for row in cursor.fetchall()] if cursor else []

    def lock_consumers(self, requests: Sequence[AllocationRequest]) -> dict[str, Consumer]:
        """Lock consumers; a missing one is created with generation 0, which no other has.

        Raises TransactionConflict when one is deleted at the same moment.
        """
        with pipeline(self._connection):
            for request in sorted(requests, key=lambda request: request.consumer):
                execute(self._connection, _ENSURE, request.consumer, request.project_id, request.user_id, request.kind)
        found = self.find_consumers([request.consumer for request in requests], lock=True)
        if len(found) < len(requests):  # one existed at the insert and is deleted since
            raise TransactionConflict("A consumer was deleted at the same time. Read it again and retry.")
        return found

    def find_consumers(self, uuids: Collection[str], *, lock: bool = False) -> dict[str, Consumer]:
        """Return those of these consumers that exist; `lock` locks their rows for a change."""
        query = _CONSUMERS.where(consumers.c.uuid.in_(uuids))
        rows = self._connection.execute(query.with_for_update() if lock else query)
        return {row.uuid: Consumer(*row) for row in rows}

    def of_consumers(self, uuids: Collection[str]) -> list[Allocation]:
        """Return all allocations of these consumers."""
        query = select(allocations).where(allocations.c.consumer_uuid.in_(uuids))
        return [Allocation(*row) for row in self._connection.execute(query)]

    def held_by(self, uuids: Sequence[str]) -> dict[str, HeldAllocations]:
        """Return what each of these consumers holds of each provider."""
        held: dict[str, dict[int, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
        for start in range(0, len(uuids), _BATCH):
            for each in self.of_consumers(uuids[start : start + _BATCH]):
                held[each.consumer][each.provider_id][each.resource_class] = each.used
        return {
            consumer: {provider: Resources(amounts) for provider, amounts in by_provider_id.items()}
            for consumer, by_provider_id in held.items()
        }

    def take(self, amounts: Sequence[Amount]) -> list[Amount]:
        """Take amounts, or release negative ones. Return those that exceed capacity."""
        with pipeline(self._connection):
            taken = self._take(amounts)
        return taken()

    def add(self, new: Iterable[Allocation], amounts: Sequence[Amount]) -> list[Amount]:
        """Take amounts as `take` does, and insert allocations, in one round trip.

        Return the amounts that exceed capacity; the caller must then roll back.
        """
        with pipeline(self._connection):
            refused = self._add(new, amounts)
        return refused()

    def _add(self, new: Iterable[Allocation], amounts: Sequence[Amount]) -> Callable[[], list[Amount]]:
        rows = [(a.consumer, a.provider_id, a.resource_class, a.used) for a in new]
        refused = self._take(amounts)
        insert_rows(self._connection, allocations, ("consumer_uuid", "provider_id", "resource_class", "used"), rows)
        return refused

    def _take(self, taken: Sequence[Amount]) -> Callable[[], list[Amount]]:
        """Take amounts; the returned function gives those that exceed capacity, once the pipeline is flushed."""
        refused = Claims(self._connection).take_amounts(taken)
        by_provider: dict[int, dict[str, int]] = defaultdict(dict)
        for provider, kind, amount in taken:
            by_provider[provider][kind] = amount
        FleetChanges(self._connection).add_uses(
            UsageChange(provider, Resources(amounts)) for provider, amounts in by_provider.items()
        )
        return refused

    def delete_consumers(self, uuids: Collection[str]) -> frozenset[GroupId]:
        """Delete consumers and their allocations. Return the groups that they belong to."""
        rows = execute(self._connection, _DELETE_CONSUMERS, sorted(uuids)).fetchall()
        return frozenset(GroupId(group) for _, group in rows if group is not None)

    def usages(self, project: str, user: str | None) -> dict[str | None, Usage]:
        """Return the usage of a project, or of one user in it, by consumer type."""
        condition = consumers.c.project_id == project
        if user is not None:
            condition = and_(condition, consumers.c.user_id == user)
        joined = allocations.join(consumers, allocations.c.consumer_uuid == consumers.c.uuid)
        kind = consumers.c.consumer_type
        counts = select(kind, func.count(allocations.c.consumer_uuid.distinct())).select_from(joined).where(condition)
        sums = (
            select(kind, allocations.c.resource_class, func.sum(allocations.c.used))
            .select_from(joined)
            .where(condition)
        )
        amounts: dict[str | None, dict[str, int]] = defaultdict(dict)
        for name, resource_class, used in self._connection.execute(sums.group_by(kind, allocations.c.resource_class)):
            amounts[name][resource_class] = int(used)
        return {name: Usage(count, amounts[name]) for name, count in self._connection.execute(counts.group_by(kind))}

    def orphaned_consumers(self, among: Collection[str] | None = None) -> list[str]:
        """Return consumers with allocations on hosts whose server or migration does not exist."""
        query = _ORPHANS if among is None else _ORPHANS.where(consumers.c.uuid.in_(among))
        return list(self._connection.execute(query).scalars())

    def _load(
        self, of_consumers: sa.ColumnElement[bool], of_allocations: sa.ColumnElement[bool]
    ) -> list[ConsumerAllocations]:
        resources: dict[str, dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
        generations: dict[str, int] = {}
        for row in self._connection.execute(_ALLOCATIONS.where(of_allocations)):
            resources[row.consumer_uuid][row.uuid][row.resource_class] = row.used
            generations[row.uuid] = row.generation
        found = [Consumer(*row) for row in self._connection.execute(_CONSUMERS.where(of_consumers))]
        return [
            _consumer_allocations(consumer, resources[consumer.uuid], generations)
            for consumer in found
            if consumer.uuid in resources
        ]


def _consumer_allocations(
    consumer: Consumer, resources: Mapping[str, Mapping[str, int]], generations: Mapping[str, int]
) -> ConsumerAllocations:
    return ConsumerAllocations(consumer, resources, {provider: generations[provider] for provider in resources})
