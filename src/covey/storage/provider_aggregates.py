"""Mirrors Compute's aggregates in Placement: a host's provider is in the aggregates of the host."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, select

from covey.model.ids import AggregateId, HostId
from covey.storage.rows import execute
from covey.storage.tables import aggregate_hosts, aggregates, hosts, provider_aggregates

_ADD = sa.text("""
    INSERT INTO provider_aggregates (provider_id, aggregate_uuid) SELECT :host, uuid FROM aggregates WHERE id = :of
    ON CONFLICT DO NOTHING
""").bindparams(bindparam("host", type_=sa.Integer))
_REMOVE = delete(provider_aggregates).where(
    provider_aggregates.c.provider_id == bindparam("host"),
    provider_aggregates.c.aggregate_uuid
    == select(aggregates.c.uuid).where(aggregates.c.id == bindparam("of")).scalar_subquery(),
)
_REMOVE_ALL = (
    delete(provider_aggregates)
    .where(
        provider_aggregates.c.aggregate_uuid
        == select(aggregates.c.uuid).where(aggregates.c.id == bindparam("of")).scalar_subquery(),
        provider_aggregates.c.provider_id.in_(select(hosts.c.id)),
    )
    .returning(provider_aggregates.c.provider_id)
)
_UNSYNCED = (
    select(aggregate_hosts.c.aggregate_id, aggregate_hosts.c.host_id)
    .join_from(aggregate_hosts, aggregates, aggregate_hosts.c.aggregate_id == aggregates.c.id)
    .where(
        ~select(provider_aggregates)
        .where(
            provider_aggregates.c.provider_id == aggregate_hosts.c.host_id,
            provider_aggregates.c.aggregate_uuid == aggregates.c.uuid,
        )
        .exists()
    )
    .order_by(aggregate_hosts.c.aggregate_id, aggregate_hosts.c.host_id)
)
_BUMP = """
    WITH held AS MATERIALIZED (
        SELECT id FROM resource_providers WHERE id IN ? ORDER BY id FOR NO KEY UPDATE
    )
    UPDATE resource_providers AS p SET generation = p.generation + 1 FROM held WHERE p.id = held.id
"""

Pairs = Sequence[tuple[AggregateId, HostId]]


def add_hosts(connection: sa.Connection, pairs: Pairs) -> None:
    """Add the hosts' providers to aggregates."""
    _change(connection, _ADD, pairs)


def remove_hosts(connection: sa.Connection, pairs: Pairs) -> None:
    """Remove the hosts' providers from aggregates."""
    _change(connection, _REMOVE, pairs)


def remove_aggregate(connection: sa.Connection, aggregate: AggregateId) -> list[int]:
    """Remove all hosts' providers from an aggregate that is about to be deleted. Return those that were in it."""
    return list(connection.execute(_REMOVE_ALL, {"of": aggregate}).scalars())


def unsynced_hosts(connection: sa.Connection, aggregate: AggregateId | None = None) -> list[tuple[AggregateId, HostId]]:
    """Return hosts whose providers are not in the host's aggregate; of one aggregate, or of all."""
    query = _UNSYNCED if aggregate is None else _UNSYNCED.where(aggregates.c.id == aggregate)
    return [(AggregateId(of), HostId(host)) for of, host in connection.execute(query)]


def bump_generations(connection: sa.Connection, ids: Sequence[HostId]) -> None:
    """Bump the generation of each host's provider, so that a concurrent update of it conflicts."""
    if ids:
        execute(connection, _BUMP, sorted(set(ids)))


def _change(connection: sa.Connection, statement: sa.Executable, pairs: Pairs) -> None:
    bump_generations(connection, [host for _, host in pairs])
    connection.execute(statement, [{"of": aggregate, "host": host} for aggregate, host in pairs])
