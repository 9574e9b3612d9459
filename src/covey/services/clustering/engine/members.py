"""Joining and leaving a cluster: nodes, and what their servers know of it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from covey.model.clustering.clusters import ORPHAN, Cluster, Node
from covey.model.servers import Server
from covey.services.clustering.engine.profile_servers import OF_CLUSTER, about
from covey.storage.store import Transaction


def servers_of(tx: Transaction, nodes: Iterable[Node]) -> dict[str, Server]:
    """The servers of nodes, by the nodes' ids; a node whose server is gone has none."""
    owners = {node.server_id: node.id for node in nodes if node.server_id is not None}
    return {owners[server.id]: server for server in tx.servers.by_ids(list(owners))}


def join(tx: Transaction, cluster: Cluster, nodes: Sequence[Node], now: datetime) -> Cluster:
    """Nodes become members, at the end. They join no server group: they are where they are."""
    members = [
        replace(node, cluster_id=cluster.id, index=index, updated_at=now)
        for index, node in enumerate(nodes, cluster.next_index)
    ]
    grown = replace(cluster, next_index=cluster.next_index + len(members))
    tx.clustering.clusters.update(grown)
    tx.clustering.nodes.update(members)
    for node in members:
        _tell_server(tx, node, now)
    return grown


def leave(tx: Transaction, nodes: Sequence[Node], now: datetime) -> None:
    """Members become nodes on their own; their servers go on."""
    orphans = [replace(node, cluster_id=None, index=ORPHAN, updated_at=now) for node in nodes]
    tx.clustering.nodes.update(orphans)
    for node in orphans:
        _tell_server(tx, node, now)


def _tell_server(tx: Transaction, node: Node, now: datetime) -> None:
    server = None if node.server_id is None else tx.servers.by_id(node.server_id, lock=True)
    if server is not None:
        known = {key: value for key, value in server.details.metadata.items() if key not in OF_CLUSTER}
        details = replace(server.details, metadata={**known, **about(node)})
        tx.servers.update(replace(server, details=details, updated_at=now))
