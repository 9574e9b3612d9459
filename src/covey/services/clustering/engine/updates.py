"""Actions that change what a cluster or a node is: names and metadata at once, another profile node by node."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from covey.model.clustering.actions import Verb
from covey.model.clustering.clusters import Cluster, Node
from covey.model.clustering.specs import Document
from covey.ports import Clock, NewUuid
from covey.services.clustering.engine.child_actions import derived, wait
from covey.services.clustering.engine.growth import changes
from covey.services.clustering.engine.reprofiling import Reprofiling
from covey.services.clustering.engine.run import Ended, Later, Run, Step, still
from covey.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class UpdateCluster:
    """New nodes are made from a new profile; those that there are follow, unless the profile alone is to change."""

    store: Store
    clock: Clock
    new_uuid: NewUuid
    reprofiling: Reprofiling

    def begin(self, run: Run) -> Step:
        inputs, cluster = run.action.inputs, run.the_cluster
        if "profile_id" not in inputs or inputs.get("profile_only"):
            return Ended(reason="The cluster was updated.", finally_=changes(cluster, _changed(inputs)))
        now = self.clock()
        with self.store.write() as tx:
            found, action = still(tx, run)
            nodes = tx.clustering.nodes.of(cluster.id)
            if found is not None:
                tx.clustering.clusters.update(_changed(inputs)(found))
            tx.clustering.actions.add(derived(action, Verb.NODE_UPDATE, nodes, self.new_uuid, now, begun=False))
            wait(tx, action, f"Updated 0 of {len(nodes)} nodes.", now)
        return Later()

    def go_on(self, run: Run) -> Step:
        return self.reprofiling.go_on(run, str(run.action.inputs["profile_id"]))


@dataclass(frozen=True, slots=True)
class UpdateNode:
    """What is said of a node, and of its server; with another profile, the server too."""

    store: Store
    clock: Clock
    reprofiling: Reprofiling

    def begin(self, run: Run) -> Step:
        inputs, node = run.action.inputs, run.the_node
        with self.store.write() as tx:
            _, action = still(tx, run)
            self._say(tx, node.id, inputs)
            wait(tx, action, "Update in progress.", self.clock())
        return Later()

    def go_on(self, run: Run) -> Step:
        return self.reprofiling.go_on(run, str(run.action.inputs.get("profile_id") or run.the_node.profile_id))

    def _say(self, tx: Transaction, node_id: str, inputs: Document) -> None:
        said = {key: inputs[key] for key in ("name", "role", "metadata", "tainted") if key in inputs}
        for node in tx.clustering.nodes.by_ids([node_id], lock=True):
            tx.clustering.nodes.update([_with(node, said)])


def _changed(inputs: Document) -> Callable[[Cluster], Cluster]:
    name, profile, timeout = inputs.get("name"), inputs.get("profile_id"), inputs.get("timeout")
    metadata, config = inputs.get("metadata"), inputs.get("config")

    def change(cluster: Cluster) -> Cluster:
        return replace(
            cluster,
            name=cluster.name if name is None else str(name),
            profile_id=cluster.profile_id if profile is None else str(profile),
            timeout=timeout if isinstance(timeout, int) else cluster.timeout,
            metadata=metadata if isinstance(metadata, Mapping) else cluster.metadata,
            config=config if isinstance(config, Mapping) else cluster.config,
        )

    return change


def _with(node: Node, said: Document) -> Node:
    metadata, role = said.get("metadata"), said.get("role", node.role)
    return replace(
        node,
        name=str(said.get("name", node.name)),
        role=None if role is None else str(role),
        metadata=metadata if isinstance(metadata, Mapping) else node.metadata,
        tainted=bool(said.get("tainted", node.tainted)),
    )
