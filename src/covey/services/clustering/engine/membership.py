"""CLUSTER_ADD_NODES and CLUSTER_REPLACE_NODES: nodes join and leave a cluster, and their servers keep running."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from covey.model.clustering.clusters import ORPHAN, Cluster, Node
from covey.model.clustering.errors import Locked
from covey.model.clustering.sizes import Limits, check_max_size
from covey.model.errors import Conflict
from covey.ports import Clock
from covey.services.clustering.engine.actions import ActionContext, ActionResult, Outcome
from covey.services.clustering.engine.profile_servers import CLUSTER_METADATA, node_metadata
from covey.storage.store import Transaction


@dataclass(frozen=True, slots=True)
class Membership:
    """Changes a cluster's members in the transaction that ends the action."""

    clock: Clock
    limits: Limits

    def add_nodes(self, context: ActionContext) -> Outcome:
        """Add orphan nodes to the cluster; they join no server group."""
        named = context.action.inputs.get("nodes")
        ids = [str(node) for node in named] if isinstance(named, Sequence) else []
        return ActionResult(
            reason="Nodes were added.",
            outputs={"nodes_added": ids},
            finalize=lambda tx: self._add(tx, context, ids),
        )

    def replace_nodes(self, context: ActionContext) -> Outcome:
        """Replace members with orphan nodes."""
        named = context.action.inputs.get("candidates")
        pairs = {str(old): str(new) for old, new in named.items()} if isinstance(named, Mapping) else {}
        return ActionResult(
            reason="Nodes were replaced.",
            outputs={"nodes_added": list(pairs.values()), "nodes_removed": list(pairs)},
            finalize=lambda tx: self._replace(tx, context, pairs),
        )

    def _add(self, tx: Transaction, context: ActionContext, ids: Sequence[str]) -> None:
        cluster = _locked_cluster(tx, context)
        nodes = _lock_orphans(tx, ids)
        check_max_size(cluster, len(cluster.nodes) + len(nodes), self.limits.max_nodes_per_cluster)
        enlarged = replace(cluster, desired_capacity=cluster.desired_capacity + len(nodes))
        join_cluster(tx, enlarged, nodes, self.clock())

    def _replace(self, tx: Transaction, context: ActionContext, pairs: Mapping[str, str]) -> None:
        cluster, now = _locked_cluster(tx, context), self.clock()
        members = [node for node in tx.clustering.nodes.by_ids(list(pairs), lock=True) if node.cluster_id == cluster.id]
        if len(members) != len(pairs):
            others = sorted(set(pairs) - {node.id for node in members})
            raise Conflict(f"Nodes not members of specified cluster: {others}.")
        leave_cluster(tx, members, now)
        join_cluster(tx, cluster, _lock_orphans(tx, list(pairs.values())), now)


def join_cluster(tx: Transaction, cluster: Cluster, nodes: Sequence[Node], now: datetime) -> None:
    """Make nodes members with the next indexes, and store the cluster."""
    members = [
        replace(node, cluster_id=cluster.id, index=index, updated_at=now)
        for index, node in enumerate(nodes, cluster.next_index)
    ]
    tx.clustering.clusters.update(replace(cluster, next_index=cluster.next_index + len(members)))
    tx.clustering.nodes.update(members)
    for node in members:
        _update_server_metadata(tx, node, now)


def leave_cluster(tx: Transaction, nodes: Sequence[Node], now: datetime) -> None:
    """Make members orphans."""
    orphans = [replace(node, cluster_id=None, index=ORPHAN, updated_at=now) for node in nodes]
    tx.clustering.nodes.update(orphans)
    for node in orphans:
        _update_server_metadata(tx, node, now)


def _update_server_metadata(tx: Transaction, node: Node, now: datetime) -> None:
    server = None if node.server_id is None else tx.servers.by_id(node.server_id, lock=True)
    if server is not None:
        kept = {key: value for key, value in server.details.metadata.items() if key not in CLUSTER_METADATA}
        details = replace(server.details, metadata={**kept, **node_metadata(node)})
        tx.servers.update(replace(server, details=details, updated_at=now))


def _locked_cluster(tx: Transaction, context: ActionContext) -> Cluster:
    return replace(context, cluster=tx.clustering.clusters.lock(context.required_cluster.id)).required_cluster


def _lock_orphans(tx: Transaction, ids: Sequence[str]) -> list[Node]:
    """Return orphan nodes that no action has locked, in the given order. Raises Conflict, Locked."""
    nodes = {node.id: node for node in tx.clustering.nodes.by_ids(ids, lock=True)}
    missing = [node for node in ids if node not in nodes]
    if missing:
        raise Conflict(f"Nodes not found: {missing}.")
    members = [node for node in ids if nodes[node].cluster_id is not None]
    if members:
        raise Conflict(f"Nodes {members} already owned by some cluster.")
    locked = [node for node in ids if tx.clustering.locks.holders(node)]
    if locked:
        raise Locked(f"Nodes {locked} are locked by other actions.")
    return [nodes[node] for node in ids]
