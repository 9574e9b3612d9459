"""Actions that make nodes: a cluster's first ones, more of them, or one that somebody asked for."""

from dataclasses import dataclass, replace

from covey.model.clustering.checks.outcomes import placements
from covey.model.clustering.checks.situation import section
from covey.model.clustering.clusters import Cluster, NodeStatus
from covey.model.clustering.limits import Limits
from covey.model.clustering.sizes import check_growth, check_scaling, read_count
from covey.ports import Clock
from covey.services.clustering.engine.growth import Growth, changes
from covey.services.clustering.engine.run import Ended, Run, Step
from covey.storage.store import Transaction

_NOT_MADE = frozenset({NodeStatus.INIT, NodeStatus.CREATING})


@dataclass(frozen=True, slots=True)
class CreateCluster:
    """The first nodes of a cluster, all at once."""

    clock: Clock
    growth: Growth

    def begin(self, run: Run) -> Step:
        places = placements(run.action.data, run.the_cluster.desired_capacity)
        return self._stamped(run, self.growth.grow(run, places))

    def go_on(self, run: Run) -> Step:
        return self._stamped(run, self.growth.settle(run))

    def _stamped(self, run: Run, step: Step) -> Step:
        """A cluster is made when its first nodes are."""
        if not isinstance(step, Ended) or not step.worked:
            return step
        now = self.clock()
        return replace(step, finally_=changes(run.the_cluster, lambda cluster: replace(cluster, created_at=now)))


@dataclass(frozen=True, slots=True)
class ScaleOut:
    """More nodes, within the cluster's bounds."""

    growth: Growth
    limits: Limits

    def begin(self, run: Run) -> Step:
        cluster, data = run.the_cluster, run.action.data
        count = scaling_count(run, "creation")
        size = len(cluster.nodes) + count
        check_growth(cluster, size, self.limits.nodes)
        return self.growth.grow(run, placements(data, count), lambda same: replace(same, desired_capacity=size))

    def go_on(self, run: Run) -> Step:
        return self.growth.settle(run)


@dataclass(frozen=True, slots=True)
class CreateNode:
    """A node on its own, or a new member where policies want it. One that gets no server is no member."""

    growth: Growth
    limits: Limits

    def begin(self, run: Run) -> Step:
        node = run.the_node
        if run.cluster is not None:
            self._within_bounds(run.cluster)
        place = placements(run.action.data, 1)[0]
        placed = replace(node, data={**node.data, "placement": place}) if place else node
        return self.growth.build(run, [placed], self._within_bounds)

    def go_on(self, run: Run) -> Step:
        step = self.growth.settle(run)
        if isinstance(step, Ended) and step.worked and run.cluster is not None:
            return replace(step, finally_=lambda tx: _count(tx, run.the_cluster.id))
        return step

    def _within_bounds(self, cluster: Cluster) -> Cluster:
        """The same cluster, which has the node already. Raises Invalid when that is one too many."""
        check_growth(cluster, len(cluster.nodes), self.limits.nodes)
        return cluster


def scaling_count(run: Run, part: str) -> int:
    """How many nodes come or go: as policies decided, which may be none at all; else as was asked. Raises Invalid."""
    decided = read_count(section(run.action.data, part))
    if decided is not None:
        return decided
    count = read_count(run.action.inputs, 1) or 0
    check_scaling(run.action.verb, count, 0)
    return count


def _count(tx: Transaction, cluster_id: str) -> None:
    """The cluster wants as many nodes as it has; others that are still being made are yet to succeed."""
    cluster = tx.clustering.clusters.lock(cluster_id)
    if cluster is not None:
        made = [node for node in tx.clustering.nodes.of(cluster_id) if node.status not in _NOT_MADE]
        tx.clustering.clusters.update(replace(cluster, desired_capacity=len(made)))
