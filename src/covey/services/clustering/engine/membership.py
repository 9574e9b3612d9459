"""Actions that make nodes members, and members nodes, while their servers stay as they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from covey.model.clustering.clusters import Cluster, Node
from covey.model.clustering.errors import Locked
from covey.model.clustering.limits import Limits
from covey.model.clustering.sizes import check_growth
from covey.model.errors import Conflict
from covey.ports import Clock
from covey.services.clustering.engine.members import join, leave
from covey.services.clustering.engine.run import Ended, Run, Step
from covey.storage.store import Transaction


@dataclass(frozen=True, slots=True)
class Membership:
    """Who is a member, changed in the moment in which the action ends."""

    clock: Clock
    limits: Limits

    def add(self, run: Run) -> Step:
        """Nodes on their own become members; they join no server group."""
        named = run.action.inputs.get("nodes")
        ids = [str(node) for node in named] if isinstance(named, Sequence) else []
        outputs = {"nodes_added": ids}
        return Ended(reason="Nodes were added.", outputs=outputs, finally_=lambda tx: self._add(tx, run, ids))

    def swap(self, run: Run) -> Step:
        """Members leave, and others take their place."""
        named = run.action.inputs.get("candidates")
        pairs = {str(old): str(new) for old, new in named.items()} if isinstance(named, Mapping) else {}
        outputs = {"nodes_added": list(pairs.values()), "nodes_removed": list(pairs)}
        return Ended(reason="Nodes were replaced.", outputs=outputs, finally_=lambda tx: self._swap(tx, run, pairs))

    def _add(self, tx: Transaction, run: Run, ids: Sequence[str]) -> None:
        cluster = _held(tx, run)
        nodes = _free_nodes(tx, ids)
        check_growth(cluster, len(cluster.nodes) + len(nodes), self.limits.nodes)
        wanted = replace(cluster, desired_capacity=cluster.desired_capacity + len(nodes))
        join(tx, wanted, nodes, self.clock())

    def _swap(self, tx: Transaction, run: Run, pairs: Mapping[str, str]) -> None:
        cluster, now = _held(tx, run), self.clock()
        old = [node for node in tx.clustering.nodes.by_ids(list(pairs), lock=True) if node.cluster_id == cluster.id]
        if len(old) != len(pairs):
            raise Conflict(f"Nodes not members of specified cluster: {sorted(set(pairs) - {node.id for node in old})}.")
        leave(tx, old, now)
        join(tx, cluster, _free_nodes(tx, list(pairs.values())), now)


def _held(tx: Transaction, run: Run) -> Cluster:
    return replace(run, cluster=tx.clustering.clusters.lock(run.the_cluster.id)).the_cluster


def _free_nodes(tx: Transaction, ids: Sequence[str]) -> list[Node]:
    """Nodes on their own to which nothing is being done, in that order. Raises Conflict, Locked."""
    found = {node.id: node for node in tx.clustering.nodes.by_ids(ids, lock=True)}
    lost = [node for node in ids if node not in found]
    if lost:
        raise Conflict(f"Nodes not found: {lost}.")
    taken = [node for node in ids if found[node].cluster_id is not None]
    if taken:
        raise Conflict(f"Nodes {taken} already owned by some cluster.")
    busy = [node for node in ids if tx.clustering.locks.holders(node)]
    if busy:
        raise Locked(f"Nodes {busy} are locked: something is being done to them.")
    return [found[node] for node in ids]
