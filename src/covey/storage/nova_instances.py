"""Compute nodes and instances of Nova, as plans of moves use them: the mirror joined with the ledger."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam, func, select

from covey.model.ids import HostId
from covey.model.nova import NovaHost, NovaInstance, NovaNode, NovaServer
from covey.storage.allocations import Allocations
from covey.storage.evacuations import left_allocations
from covey.storage.group_consumers import GroupConsumers
from covey.storage.nova_mirror import HOST_COLUMNS, SERVER_COLUMNS
from covey.storage.tables import allocations, nova_hosts, nova_servers, provider_aggregates, resource_providers

_providers = resource_providers.c
_NODES = (
    select(_providers.id, *(nova_hosts.c[name] for name in HOST_COLUMNS))
    .join_from(nova_hosts, resource_providers, _providers.uuid == nova_hosts.c.uuid)
    .order_by(nova_hosts.c.service_host, _providers.id)
)
_names: sa.BindParameter[str] = bindparam("names", expanding=True)
_NAMED = _NODES.where(nova_hosts.c.service_host.in_(_names) | nova_hosts.c.name.in_(_names))
_IN_AGGREGATE = _NODES.join(provider_aggregates, provider_aggregates.c.provider_id == _providers.id).where(
    provider_aggregates.c.aggregate_uuid == bindparam("aggregate")
)
_AT_HOSTS = (
    select(allocations.c.consumer_uuid, func.coalesce(_providers.root_id, _providers.id))
    .join(resource_providers, _providers.id == allocations.c.provider_id)
    .where(func.coalesce(_providers.root_id, _providers.id).in_(bindparam("hosts", expanding=True)))
    .distinct()
)
_SERVERS = select(*(nova_servers.c[name] for name in SERVER_COLUMNS)).where(
    nova_servers.c.id.in_(bindparam("ids", expanding=True))
)
_KNOWN = select(nova_servers.c.id).where(nova_servers.c.id.in_(bindparam("ids", expanding=True)))


class NovaInstances:
    """What plans read. Instances hold the allocations that the ledger has of them."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def server(self, server: str) -> NovaServer | None:
        """Return an instance of the mirror."""
        row = self._connection.execute(_SERVERS, {"ids": [server]}).first()
        return None if row is None else NovaServer(*row)

    def known(self, servers: Collection[str]) -> set[str]:
        """Return those of the ids that are instances of Nova."""
        return set(self._connection.execute(_KNOWN, {"ids": list(servers)}).scalars()) if servers else set()

    def nodes(self) -> list[NovaNode]:
        """Return all compute nodes that have a resource provider."""
        return self._nodes(_NODES)

    def nodes_named(self, names: Collection[str]) -> list[NovaNode]:
        """Return compute nodes by the names of their compute services, or by their own."""
        return self._nodes(_NAMED, names=list(names)) if names else []

    def nodes_in(self, aggregate: str) -> list[NovaNode]:
        """Return the compute nodes in an aggregate, by its uuid."""
        return self._nodes(_IN_AGGREGATE, aggregate=aggregate)

    def at_hosts(self, hosts: Collection[HostId]) -> list[NovaInstance]:
        """Return the consumers that hold allocations on compute nodes, without those that were evacuated from there."""
        if not hosts:
            return []
        places = {(consumer, host) for consumer, host in self._connection.execute(_AT_HOSTS, {"hosts": list(hosts)})}
        left = left_allocations(self._connection, {consumer for consumer, _ in places})
        places -= {(each.consumer, each.host) for each in left}
        return self.by_ids(sorted({consumer for consumer, _ in places}))

    def by_ids(self, consumers: Sequence[str]) -> list[NovaInstance]:
        """Return those of the consumers that hold allocations, without what evacuated ones hold on their old hosts."""
        held = Allocations(self._connection).held_by(consumers)
        if not held:
            return []
        left: dict[str, set[int]] = defaultdict(set)
        for each in left_allocations(self._connection, [key for key, providers in held.items() if len(providers) > 1]):
            left[each.consumer].add(each.provider_id)
        for consumer, providers in left.items():
            held[consumer] = {key: amounts for key, amounts in held[consumer].items() if key not in providers}
        servers = {row[0]: NovaServer(*row) for row in self._connection.execute(_SERVERS, {"ids": list(held)})}
        groups = GroupConsumers(self._connection).find(held)
        return [
            NovaInstance(each, servers.get(each), held[each], groups[each].group if each in groups else None)
            for each in sorted(held)
        ]

    def _nodes(self, query: sa.Select[Any], **values: object) -> list[NovaNode]:
        return [NovaNode(HostId(row[0]), NovaHost(*row[1:])) for row in self._connection.execute(query, values)]
