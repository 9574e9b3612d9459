"""Mirrors Compute's aggregates in Placement: a host's provider is in the aggregates of the host."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, select

from covey.model.ids import AggregateId, HostId
from covey.storage.rows import execute_for
from covey.storage.tables import aggregate_hosts, aggregates, hosts, provider_aggregates

_PAIR = {"aggregate_id": "int", "host_id": "int"}
_ADD = """
    INSERT INTO provider_aggregates (provider_id, aggregate_uuid)
    SELECT r.host_id, a.uuid FROM {rows} JOIN aggregates a ON a.id = r.aggregate_id WHERE true ON CONFLICT DO NOTHING
"""
# Without its expression PostgreSQL may read all providers of an aggregate for each row.
_REMOVE = """
    DELETE FROM provider_aggregates WHERE (provider_id, aggregate_uuid || '') IN (
        SELECT r.host_id, a.uuid FROM {rows} JOIN aggregates a ON a.id = r.aggregate_id
    )
"""
_REMOVE_ALL = (
    delete(provider_aggregates)
    .where(
        provider_aggregates.c.aggregate_uuid.in_(
            select(aggregates.c.uuid).where(aggregates.c.id.in_(bindparam("of", expanding=True)))
        ),
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

Pairs = Sequence[tuple[AggregateId, HostId]]


def add_hosts(connection: sa.Connection, pairs: Pairs) -> None:
    """Add the hosts' providers to aggregates."""
    if pairs:
        execute_for(connection, _ADD, _PAIR, pairs)


def remove_hosts(connection: sa.Connection, pairs: Pairs) -> None:
    """Remove the hosts' providers from aggregates."""
    if pairs:
        execute_for(connection, _REMOVE, _PAIR, pairs)


def remove_aggregates(connection: sa.Connection, ids: Sequence[AggregateId]) -> list[int]:
    """Remove all hosts' providers from aggregates that are about to be deleted. Return those that were in them."""
    return list(connection.execute(_REMOVE_ALL, {"of": ids}).scalars())


def unsynced_hosts(connection: sa.Connection, aggregate: AggregateId | None = None) -> list[tuple[AggregateId, HostId]]:
    """Return hosts whose providers are not in the host's aggregate; of one aggregate, or of all."""
    query = _UNSYNCED if aggregate is None else _UNSYNCED.where(aggregates.c.id == aggregate)
    return [(AggregateId(of), HostId(host)) for of, host in connection.execute(query)]
