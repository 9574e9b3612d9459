"""Actions that take nodes away: some of a cluster's, one, or all and the cluster itself."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import structlog

from covey.model.clustering.checks.outcomes import victims
from covey.model.clustering.checks.situation import section
from covey.model.clustering.clusters import Cluster, Node
from covey.model.clustering.sizes import check_shrinkage
from covey.model.clustering.specs import Document
from covey.model.errors import Conflict, Forbidden
from covey.services.clustering.engine.attachments import Attachments
from covey.services.clustering.engine.child_actions import wait
from covey.services.clustering.engine.growing import scaling_count
from covey.services.clustering.engine.policy_checks import PolicyChecks
from covey.services.clustering.engine.removal import Removal, forget, reduced
from covey.services.clustering.engine.run import Ended, Later, Run, Step, still
from covey.storage.store import Store, Transaction

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Choice:
    """Which members go: those that policies chose, or else those that can best be spared."""

    store: Store
    checks: PolicyChecks

    def of(self, cluster: Cluster, data: Document, count: int) -> list[Node]:
        """So many members, or all that there are."""
        with self.store.read() as tx:
            members = self.checks.members(tx, cluster)
        chosen = frozenset(victims(data, members, count))
        return [member.node for member in members if member.node.id in chosen]


@dataclass(frozen=True, slots=True)
class ScaleIn:
    """Fewer nodes, within the cluster's bounds."""

    removal: Removal
    choice: Choice

    def begin(self, run: Run) -> Step:
        cluster, data = run.the_cluster, run.action.data
        count = scaling_count(run, "deletion")
        size = max(0, len(cluster.nodes) - count)
        check_shrinkage(cluster, size)
        going = self.choice.of(cluster, data, count)
        return self.removal.begin(run, going, lambda same: reduced(same, size, data), destroy=destroys(data))

    def go_on(self, run: Run) -> Step:
        return self.removal.go_on(run)


@dataclass(frozen=True, slots=True)
class DeleteNodes:
    """Nodes that were named leave the cluster, with their servers or without."""

    store: Store
    removal: Removal

    def begin(self, run: Run) -> Step:
        cluster = run.the_cluster
        with self.store.read() as tx:
            members = tx.clustering.nodes.of(cluster.id)
        named = run.action.inputs.get("candidates")
        going = [node for node in members if isinstance(named, Sequence) and node.id in named]
        size = len(members) - len(going)
        check_shrinkage(cluster, size)
        destroy = bool(run.action.inputs.get("destroy_after_deletion"))
        return self.removal.begin(run, going, lambda same: reduced(same, size, run.action.data), destroy=destroy)

    def go_on(self, run: Run) -> Step:
        return self.removal.go_on(run)


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """One node and its server."""

    store: Store
    removal: Removal

    def begin(self, run: Run) -> Step:
        if run.cluster is not None and run.node is not None and not run.action.inputs.get("force"):
            check_shrinkage(run.cluster, len(set(run.cluster.nodes) - {run.node.id}))
        with self.store.write() as tx:
            _, action = still(tx, run)
            wait(tx, action, "Deletion in progress.", self.removal.clock())
        return Later()

    def go_on(self, run: Run) -> Step:
        node = run.node
        if node is None:
            return Ended(reason="The node was gone already.")
        step = self.removal.go_on(run, force=bool(run.action.inputs.get("force")))
        if isinstance(step, Ended) and step.worked:
            return replace(step, finally_=lambda tx: forget(tx, node, run.action.data))
        return step


@dataclass(frozen=True, slots=True)
class DeleteCluster:
    """All nodes and their servers, then what policies made for it, then the cluster. By force, whatever fails."""

    removal: Removal
    attachments: Attachments

    def begin(self, run: Run) -> Step:
        if run.cluster is None:
            return Ended(reason="The cluster was gone already.")
        with self.removal.store.read() as tx:
            members = tx.clustering.nodes.of(run.cluster.id)
        return self._last(run, self.removal.begin(run, members))

    def go_on(self, run: Run) -> Step:
        return self._last(run, self.removal.go_on(run, force=bool(run.action.inputs.get("force"))))

    def _last(self, run: Run, step: Step) -> Step:
        if not isinstance(step, Ended) or not step.worked or run.cluster is None:
            return step
        return replace(step, reason="The cluster was deleted.", finally_=lambda tx: self._delete(tx, run))

    def _delete(self, tx: Transaction, run: Run) -> None:
        cluster = run.the_cluster
        try:
            self.attachments.detach_all(tx, run.actor, cluster.id)
        except (Conflict, Forbidden) as error:
            if not run.action.inputs.get("force"):
                raise
            log.warning("cluster.group_left", cluster=cluster.id, reason=error.message)
        tx.clustering.clusters.delete(cluster.id)


def destroys(data: Document) -> bool:
    """Whether the servers of nodes that go are deleted."""
    return section(data, "deletion").get("destroy_after_deletion") is not False
