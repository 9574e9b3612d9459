"""Compute nodes of Nova: root providers beside Covey's hosts, with the mirror's state, aggregates and consumers."""

from collections import defaultdict
from typing import Any

import sqlalchemy as sa

from covey.model.compute_nodes import ComputeNode
from covey.model.ids import GroupId, HostId, ProjectId
from covey.storage.rows import execute

# A sharing provider serves the hosts of its aggregates and is none itself.
_NODES = """
    SELECT p.id, p.uuid, p.name, n.zone, n.disabled, n.disabled_reason, n.up, n.service_host
    FROM resource_providers p LEFT JOIN nova_hosts n ON n.uuid = p.uuid
    WHERE p.root_id IS NULL AND NOT EXISTS (SELECT 1 FROM hosts h WHERE h.id = p.id)
        AND NOT EXISTS (SELECT 1 FROM provider_traits t
                        WHERE t.provider_id = p.id AND t.trait = 'MISC_SHARES_VIA_AGGREGATE'){}
    ORDER BY p.id
"""
_NAMES_IN_AGGREGATES = """
    SELECT a.aggregate_uuid, p.name FROM provider_aggregates a
        JOIN resource_providers p ON p.id = a.provider_id JOIN nova_hosts n ON n.uuid = p.uuid
    WHERE NOT EXISTS (SELECT 1 FROM hosts h WHERE h.id = p.id) ORDER BY p.id
"""
_NODES_OF = """
    SELECT DISTINCT r.name FROM allocations a JOIN resource_providers p ON p.id = a.provider_id
        JOIN resource_providers r ON r.id = COALESCE(p.root_id, p.id)
    WHERE (a.consumer_uuid = ?
           OR a.consumer_uuid IN (SELECT g.consumer_uuid FROM group_consumers g WHERE g.member_uuid = ?))
        AND NOT EXISTS (SELECT 1 FROM provider_traits t
                        WHERE t.provider_id = r.id AND t.trait = 'MISC_SHARES_VIA_AGGREGATE')
    ORDER BY r.name
"""
# A migration of a member counts as the member; another one is no server. Nova writes its allocations at a version that
# has no consumer types, but a reading that began later has all instances.
_INSTANCES = """
    SELECT DISTINCT COALESCE(p.root_id, p.id), COALESCE(g.member_uuid, a.consumer_uuid), g.group_id
    FROM allocations a JOIN resource_providers p ON p.id = a.provider_id
        JOIN consumers c ON c.uuid = a.consumer_uuid
        LEFT JOIN group_consumers g ON g.consumer_uuid = a.consumer_uuid
        LEFT JOIN nova_servers s ON s.id = a.consumer_uuid
        LEFT JOIN nova_sync n ON n.id = 1
    WHERE NOT EXISTS (SELECT 1 FROM hosts h WHERE h.id = COALESCE(p.root_id, p.id))
        AND (g.member_uuid IS NOT NULL OR s.id IS NOT NULL
             OR (COALESCE(c.consumer_type, '') <> 'MIGRATION'
                 AND (n.read_at IS NULL OR c.updated_at IS NULL OR c.updated_at >= n.read_at))){}
"""


class ComputeNodes:
    """Read-only queries."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def all(self) -> list[ComputeNode]:
        """Return the compute nodes, by id."""
        return [_node(row) for row in execute(self._connection, _NODES.format("")).fetchall()]

    def by_name(self, name: str) -> ComputeNode | None:
        """Return a compute node by its own name, or by that of its compute service, which plans of moves use."""
        named = " AND (p.name = ? OR n.service_host = ?)"
        found = [_node(row) for row in execute(self._connection, _NODES.format(named), name, name).fetchall()]
        return min(found, key=lambda node: node.name != name, default=None)

    def names_of(self, instance: str) -> list[str]:
        """Return the names of the compute nodes on which an instance, or a migration of it, holds allocations."""
        return [name for (name,) in execute(self._connection, _NODES_OF, instance, instance).fetchall()]

    def names_in_aggregates(self) -> dict[str, list[str]]:
        """Return the names of the mirrored compute nodes in each placement aggregate, by its uuid."""
        found: dict[str, list[str]] = defaultdict(list)
        for aggregate, name in execute(self._connection, _NAMES_IN_AGGREGATES).fetchall():
            found[aggregate].append(name)
        return found

    def instances(self, project: ProjectId | None) -> list[tuple[HostId, str, GroupId | None]]:
        """Return the node, the id and the group of every consumer of compute nodes, of one project or of all."""
        where, values = ("", []) if project is None else (" AND c.project_id = ?", [project])
        found: list[tuple[HostId, str, GroupId | None]] = execute(
            self._connection, _INSTANCES.format(where), *values
        ).fetchall()
        return found


def _node(row: tuple[Any, ...]) -> ComputeNode:
    key, uuid, name, zone, disabled, reason, up, service_host = row
    if service_host is None:
        return ComputeNode(HostId(key), uuid, name)
    return ComputeNode(HostId(key), uuid, name, zone, bool(disabled), reason, bool(up), service_host)
