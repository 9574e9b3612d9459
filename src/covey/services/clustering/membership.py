"""Which nodes are in a cluster: bringing some in, letting some go, having one take another's place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from covey.model.access import Actor
from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.clusters import Cluster, Node, NodeStatus
from covey.model.clustering.limits import Limits
from covey.model.clustering.sizes import check_growth, check_shrinkage
from covey.model.errors import Invalid
from covey.ports import Access
from covey.services.clustering.finding import own_cluster, some_nodes, type_of
from covey.services.clustering.requests import Requests
from covey.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class Membership:
    """What can be done with a cluster's nodes. Everything that is refused raises Invalid, and names the nodes."""

    store: Store
    access: Access
    requests: Requests
    limits: Limits

    def add(self, actor: Actor, key: str, keys: Sequence[str]) -> Action:
        """Nodes that are in no cluster come in. Raises Locked."""
        with self.store.write() as tx:
            cluster = self._cluster(tx, actor, key)
            nodes = some_nodes(tx, self.access, actor, keys)
            _refuse_same(nodes)
            _refuse(_members(nodes), "Nodes {} already owned by some cluster.")
            _refuse(_of_other_type(tx, cluster, nodes), "Profile type of nodes {} does not match that of the cluster.")
            _refuse(_inactive(nodes), "Nodes are not ACTIVE: {}.")
            check_growth(cluster, len(cluster.nodes) + len(nodes), self.limits.nodes)
            inputs = {"nodes": [node.id for node in nodes]}
            return self.requests.accept(tx, actor, Verb.CLUSTER_ADD_NODES, cluster, inputs)

    def remove(self, actor: Actor, key: str, keys: Sequence[str], *, destroy: bool) -> Action:
        """Members go, and unless they are destroyed live on by themselves. Raises Locked."""
        with self.store.write() as tx:
            cluster = self._cluster(tx, actor, key)
            nodes = some_nodes(tx, self.access, actor, keys)
            _refuse_same(nodes)
            _refuse(_strangers(cluster, nodes), "Nodes not members of specified cluster: {}.")
            check_shrinkage(cluster, len(cluster.nodes) - len(nodes))
            inputs = {"candidates": [node.id for node in nodes], "destroy_after_deletion": destroy}
            return self.requests.accept(tx, actor, Verb.CLUSTER_DEL_NODES, cluster, inputs)

    def replace(self, actor: Actor, key: str, pairs: Mapping[str, str]) -> Action:
        """Nodes of no cluster take the places of members. Raises Locked."""
        with self.store.write() as tx:
            cluster = self._cluster(tx, actor, key)
            old = some_nodes(tx, self.access, actor, list(pairs), "Original nodes not found")
            new = some_nodes(tx, self.access, actor, list(pairs.values()), "Replacement nodes not found")
            _refuse_same(old)
            _refuse_same(new)
            _refuse(_members(new), "Nodes {} already member of a cluster.")
            _refuse(_of_other_type(tx, cluster, new), "Profile type of nodes {} do not match that of the cluster.")
            _refuse(_inactive(new), "Nodes are not ACTIVE: {}.")
            _refuse(_strangers(cluster, old), "The nodes {} to be replaced are not members of the cluster.")
            inputs = {"candidates": {out.id: into.id for out, into in zip(old, new, strict=True)}}
            return self.requests.accept(tx, actor, Verb.CLUSTER_REPLACE_NODES, cluster, inputs)

    def _cluster(self, tx: Transaction, actor: Actor, key: str) -> Cluster:
        return own_cluster(tx, self.access, actor, "clusters:action", key, hold=True)


def _members(nodes: Sequence[Node]) -> list[Node]:
    return [node for node in nodes if node.cluster_id is not None]


def _strangers(cluster: Cluster, nodes: Sequence[Node]) -> list[Node]:
    return [node for node in nodes if node.cluster_id != cluster.id]


def _inactive(nodes: Sequence[Node]) -> list[Node]:
    return [node for node in nodes if node.status is not NodeStatus.ACTIVE]


def _of_other_type(tx: Transaction, cluster: Cluster, nodes: Sequence[Node]) -> list[Node]:
    types = {profile: type_of(tx, profile) for profile in {cluster.profile_id, *(node.profile_id for node in nodes)}}
    return [node for node in nodes if types[node.profile_id] != types[cluster.profile_id]]


def _refuse(nodes: Sequence[Node], sentence: str) -> None:
    if nodes:
        raise Invalid(sentence.format([node.id for node in nodes]))


def _refuse_same(nodes: Sequence[Node]) -> None:
    """One node under two of its names."""
    if len({node.id for node in nodes}) < len(nodes):
        raise Invalid("Items for 'nodes' must be unique")
