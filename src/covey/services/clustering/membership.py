"""Cluster membership: add, remove and replace nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from covey.model.access import Actor
from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.clusters import Cluster, Node, NodeStatus
from covey.model.clustering.sizes import Limits, check_max_size, check_min_size
from covey.model.errors import Invalid
from covey.ports import Access
from covey.services.clustering.dispatcher import Dispatcher
from covey.services.clustering.lookup import find_cluster, profile_type, specified_nodes
from covey.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class Membership:
    """Requests about a cluster's members. A rejection raises Invalid and names the nodes."""

    store: Store
    access: Access
    dispatcher: Dispatcher
    limits: Limits

    def add(self, actor: Actor, key: str, keys: Sequence[str]) -> Action:
        """Add orphan nodes. Raises Locked."""
        with self.store.write() as tx:
            cluster = self._cluster(tx, actor, key)
            nodes = specified_nodes(tx, self.access, actor, keys)
            _reject_duplicates(nodes)
            _reject(_members(nodes), "Nodes {} already owned by some cluster.")
            _reject(_of_other_type(tx, cluster, nodes), "Profile type of nodes {} does not match that of the cluster.")
            _reject(_inactive(nodes), "Nodes are not ACTIVE: {}.")
            check_max_size(cluster, len(cluster.nodes) + len(nodes), self.limits.max_nodes_per_cluster)
            inputs = {"nodes": [node.id for node in nodes]}
            return self.dispatcher.start_action(tx, actor, Verb.CLUSTER_ADD_NODES, cluster, inputs)

    def remove(self, actor: Actor, key: str, keys: Sequence[str], *, destroy: bool) -> Action:
        """Remove members; unless `destroy` is set they become orphans. Raises Locked."""
        with self.store.write() as tx:
            cluster = self._cluster(tx, actor, key)
            nodes = specified_nodes(tx, self.access, actor, keys)
            _reject_duplicates(nodes)
            _reject(_non_members(cluster, nodes), "Nodes not members of specified cluster: {}.")
            check_min_size(cluster, len(cluster.nodes) - len(nodes))
            inputs = {"candidates": [node.id for node in nodes], "destroy_after_deletion": destroy}
            return self.dispatcher.start_action(tx, actor, Verb.CLUSTER_DEL_NODES, cluster, inputs)

    def replace(self, actor: Actor, key: str, pairs: Mapping[str, str]) -> Action:
        """Replace members with orphan nodes. Raises Locked."""
        with self.store.write() as tx:
            cluster = self._cluster(tx, actor, key)
            old = specified_nodes(tx, self.access, actor, list(pairs), "Original nodes not found")
            new = specified_nodes(tx, self.access, actor, list(pairs.values()), "Replacement nodes not found")
            _reject_duplicates(old)
            _reject_duplicates(new)
            _reject(_members(new), "Nodes {} already member of a cluster.")
            _reject(_of_other_type(tx, cluster, new), "Profile type of nodes {} do not match that of the cluster.")
            _reject(_inactive(new), "Nodes are not ACTIVE: {}.")
            _reject(_non_members(cluster, old), "The nodes {} to be replaced are not members of the cluster.")
            inputs = {"candidates": {outgoing.id: incoming.id for outgoing, incoming in zip(old, new, strict=True)}}
            return self.dispatcher.start_action(tx, actor, Verb.CLUSTER_REPLACE_NODES, cluster, inputs)

    def _cluster(self, tx: Transaction, actor: Actor, key: str) -> Cluster:
        return find_cluster(tx, self.access, actor, "clusters:action", key, lock=True)


def _members(nodes: Sequence[Node]) -> list[Node]:
    return [node for node in nodes if node.cluster_id is not None]


def _non_members(cluster: Cluster, nodes: Sequence[Node]) -> list[Node]:
    return [node for node in nodes if node.cluster_id != cluster.id]


def _inactive(nodes: Sequence[Node]) -> list[Node]:
    return [node for node in nodes if node.status is not NodeStatus.ACTIVE]


def _of_other_type(tx: Transaction, cluster: Cluster, nodes: Sequence[Node]) -> list[Node]:
    types = {
        profile: profile_type(tx, profile) for profile in {cluster.profile_id, *(node.profile_id for node in nodes)}
    }
    return [node for node in nodes if types[node.profile_id] != types[cluster.profile_id]]


def _reject(nodes: Sequence[Node], message: str) -> None:
    if nodes:
        raise Invalid(message.format([node.id for node in nodes]))


def _reject_duplicates(nodes: Sequence[Node]) -> None:
    """Raises Invalid when two keys name one node."""
    if len({node.id for node in nodes}) < len(nodes):
        raise Invalid("Items for 'nodes' must be unique")
