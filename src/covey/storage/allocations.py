"""Consumers, and the allocations that they hold."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import and_, bindparam, delete, func, select, update

from covey.model.actions import UNDER_WAY
from covey.model.allocations import INSTANCE, MIGRATION, Allocation, Consumer, Holding, Usage, Wanted
from covey.model.errors import Overtaken
from covey.storage.bulk import insert_rows
from covey.storage.changes import FleetChanges
from covey.storage.claims import Amount, Claims, use_of
from covey.storage.tables import allocations, consumers, hosts, migrations, resource_providers, servers

_ENSURE = sa.text("""
    INSERT INTO consumers (uuid, project_id, user_id, consumer_type, generation)
    VALUES (:uuid, :project_id, :user_id, :kind, 0) ON CONFLICT DO NOTHING
""")
_CONSUMERS = select(
    consumers.c.uuid,
    consumers.c.project_id,
    consumers.c.user_id,
    consumers.c.consumer_type,
    consumers.c.generation,
    consumers.c.updated_at,
).order_by(consumers.c.uuid)
_NOTE = (
    update(consumers)
    .where(consumers.c.uuid == bindparam("of"))
    .values(
        project_id=bindparam("new_project"),
        user_id=bindparam("new_user"),
        consumer_type=func.coalesce(bindparam("new_kind", type_=sa.String), consumers.c.consumer_type),
        generation=consumers.c.generation + 1,
        updated_at=bindparam("now"),
    )
)
_HELD = (
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
    """What consumers hold.

    Whoever changes that holds the consumers' rows first, then the providers', then the inventories'.
    """

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def holdings(self, uuids: Collection[str]) -> list[Holding]:
        """Those of these consumers that hold something, with all that they hold."""
        return self._holdings(consumers.c.uuid.in_(uuids), allocations.c.consumer_uuid.in_(uuids))

    def on(self, provider: int) -> list[Holding]:
        """Everybody who holds something of the provider, with that alone."""
        here = allocations.c.provider_id == provider
        return self._holdings(consumers.c.uuid.in_(select(allocations.c.consumer_uuid).where(here)), here)

    def hold(self, wanted: Sequence[Wanted]) -> dict[str, Consumer]:
        """Holds consumers; those that were not there are made, with generation 0, which no other has.

        Raises Overtaken when one was given up at the same moment.
        """
        rows = [
            {"uuid": w.consumer, "project_id": w.project_id, "user_id": w.user_id, "kind": w.kind}
            for w in sorted(wanted, key=lambda w: w.consumer)
        ]
        if rows:
            self._connection.execute(_ENSURE, rows)
        found = self.find([w.consumer for w in wanted], lock=True)
        if len(found) < len(rows):  # it was there when it would have been made, and is not now
            message = "A consumer went while it was looked at. Look anew, then try again."
            raise Overtaken(message)
        return found

    def find(self, uuids: Collection[str], *, lock: bool = False) -> dict[str, Consumer]:
        """Those of these consumers that there are; held, when the caller means to change what they hold."""
        mine = _CONSUMERS.where(consumers.c.uuid.in_(uuids))
        rows = self._connection.execute(mine.with_for_update() if lock else mine)
        return {row.uuid: Consumer(*row) for row in rows}

    def of(self, uuids: Collection[str]) -> list[Allocation]:
        """All that these consumers hold."""
        mine = select(allocations).where(allocations.c.consumer_uuid.in_(uuids))
        return [Allocation(*row) for row in self._connection.execute(mine)]

    def take(self, wanted: Sequence[Amount]) -> list[Amount]:
        """Take room, or give it back where amounts are negative; tells what there is no room for."""
        refused = Claims(self._connection).take_amounts(wanted)
        by_provider: dict[int, dict[str, int]] = defaultdict(dict)
        for provider, kind, amount in wanted:
            by_provider[provider][kind] = amount
        FleetChanges(self._connection).add_uses(use_of(provider, amounts) for provider, amounts in by_provider.items())
        return refused

    def replace(self, wanted: Sequence[Wanted], new: Iterable[Allocation], now: datetime) -> None:
        """Writes what consumers hold from now on; those who hold nothing are forgotten."""
        uuids = [w.consumer for w in wanted]
        self._connection.execute(delete(allocations).where(allocations.c.consumer_uuid.in_(uuids)))
        rows = [(a.consumer, a.provider_id, a.resource_class, a.used) for a in new]
        insert_rows(self._connection, allocations, ("consumer_uuid", "provider_id", "resource_class", "used"), rows)
        notes = [
            {"of": w.consumer, "new_project": w.project_id, "new_user": w.user_id, "new_kind": w.kind, "now": now}
            for w in wanted
            if w.resources
        ]
        if notes:
            self._connection.execute(_NOTE, notes)
        self.forget([w.consumer for w in wanted if not w.resources])

    def forget(self, uuids: Collection[str]) -> None:
        """Removes consumers, and what they hold."""
        self._connection.execute(delete(consumers).where(consumers.c.uuid.in_(uuids)))

    def usages(self, project: str, user: str | None) -> dict[str | None, Usage]:
        """What a project, or one user of it, holds: by the kind of the consumers."""
        mine = consumers.c.project_id == project
        if user is not None:
            mine = and_(mine, consumers.c.user_id == user)
        joined = allocations.join(consumers, allocations.c.consumer_uuid == consumers.c.uuid)
        kind = consumers.c.consumer_type
        counts = select(kind, func.count(allocations.c.consumer_uuid.distinct())).select_from(joined).where(mine)
        sums = select(kind, allocations.c.resource_class, func.sum(allocations.c.used)).select_from(joined).where(mine)
        amounts: dict[str | None, dict[str, int]] = defaultdict(dict)
        for name, resource_class, used in self._connection.execute(sums.group_by(kind, allocations.c.resource_class)):
            amounts[name][resource_class] = int(used)
        return {name: Usage(count, amounts[name]) for name, count in self._connection.execute(counts.group_by(kind))}

    def orphans(self, among: Collection[str] | None = None) -> list[str]:
        """Consumers that hold something of a host as servers or moves do, while there is no such server or move."""
        wanted = _ORPHANS if among is None else _ORPHANS.where(consumers.c.uuid.in_(among))
        return list(self._connection.execute(wanted).scalars())

    def _holdings(self, who: sa.ColumnElement[bool], what: sa.ColumnElement[bool]) -> list[Holding]:
        resources: dict[str, dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
        generations: dict[str, int] = {}
        for row in self._connection.execute(_HELD.where(what)):
            resources[row.consumer_uuid][row.uuid][row.resource_class] = row.used
            generations[row.uuid] = row.generation
        found = [Consumer(*row) for row in self._connection.execute(_CONSUMERS.where(who))]
        return [_holding(each, resources[each.uuid], generations) for each in found if each.uuid in resources]


def _holding(consumer: Consumer, held: Mapping[str, Mapping[str, int]], generations: Mapping[str, int]) -> Holding:
    return Holding(consumer, held, {provider: generations[provider] for provider in held})
