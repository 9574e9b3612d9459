"""CLUSTER_SCALE_OUT, CLUSTER_SCALE_IN and CLUSTER_RESIZE."""

from dataclasses import dataclass, replace

from covey.model.clustering.actions import Verb
from covey.model.clustering.clusters import Cluster, Node
from covey.model.clustering.policies.context import section
from covey.model.clustering.policies.decisions import deletion_candidates, placements
from covey.model.clustering.sizes import (
    Limits,
    ResizePlan,
    check_max_size,
    check_min_size,
    check_scale_count,
    parse_count,
    parse_resize,
    plan_resize,
)
from covey.model.clustering.specs import Document
from covey.services.clustering.engine.actions import ActionContext, Outcome, children_of
from covey.services.clustering.engine.node_creation import NodeCreation
from covey.services.clustering.engine.node_removal import NodeRemoval, reduced, reduces_desired_capacity
from covey.services.clustering.engine.policy_checks import PolicyChecks
from covey.storage.store import Store


@dataclass(frozen=True, slots=True)
class ScaleOut:
    """Adds nodes within the cluster's bounds."""

    creation: NodeCreation
    limits: Limits

    def start(self, context: ActionContext) -> Outcome:
        cluster, data = context.required_cluster, context.action.data
        count = _count(context, "creation")
        size = len(cluster.nodes) + count
        check_max_size(cluster, size, self.limits.max_nodes_per_cluster)
        return self.creation.add_members(
            context, placements(data, count), lambda locked: replace(locked, desired_capacity=size)
        )

    def resume(self, context: ActionContext) -> Outcome:
        return self.creation.poll(context)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Selects the nodes to remove: those that policies chose, else unhealthy and new ones first."""

    store: Store
    checks: PolicyChecks

    def select(self, cluster: Cluster, data: Document, count: int) -> list[Node]:
        """Return up to `count` members."""
        with self.store.read() as tx:
            members = self.checks.members(tx, cluster)
        selected = frozenset(deletion_candidates(data, members, count))
        return [member.node for member in members if member.node.id in selected]


@dataclass(frozen=True, slots=True)
class ScaleIn:
    """Removes nodes within the cluster's bounds."""

    removal: NodeRemoval
    candidates: Candidates

    def start(self, context: ActionContext) -> Outcome:
        cluster, data = context.required_cluster, context.action.data
        count = _count(context, "deletion")
        size = max(0, len(cluster.nodes) - count)
        check_min_size(cluster, size)
        nodes = self.candidates.select(cluster, data, count)
        return self.removal.remove_members(
            context, nodes, lambda locked: reduced(locked, size, data), destroy=_destroys_servers(data)
        )

    def resume(self, context: ActionContext) -> Outcome:
        return self.removal.poll(context)


@dataclass(frozen=True, slots=True)
class Resize:
    """Changes a cluster's bounds and adds or removes nodes for its new size."""

    store: Store
    creation: NodeCreation
    removal: NodeRemoval
    candidates: Candidates
    limits: Limits

    def start(self, context: ActionContext) -> Outcome:
        cluster, data, max_nodes = context.required_cluster, context.action.data, self.limits.max_nodes_per_cluster
        plan = plan_resize(parse_resize(context.action.inputs, max_nodes), cluster, len(cluster.nodes), max_nodes)

        def change(locked: Cluster) -> Cluster:
            return _resized(locked, plan, keeps_desired=plan.change < 0 and not reduces_desired_capacity(data))

        if plan.change >= 0:
            return self.creation.add_members(context, placements(data, plan.change), change)
        nodes = self.candidates.select(cluster, data, -plan.change)
        return self.removal.remove_members(context, nodes, change, destroy=_destroys_servers(data))

    def resume(self, context: ActionContext) -> Outcome:
        with self.store.read() as tx:
            adds_nodes = bool(children_of(tx, context.action, Verb.NODE_CREATE))
        return self.creation.poll(context) if adds_nodes else self.removal.poll(context)


def _count(context: ActionContext, part: str) -> int:
    """Return the number of nodes that policies decided, possibly 0, else the requested one. Raises Invalid."""
    decided = parse_count(section(context.action.data, part))
    if decided is not None:
        return decided
    count = parse_count(context.action.inputs, 1) or 0
    check_scale_count(context.action.verb, count, 0)
    return count


def _resized(cluster: Cluster, plan: ResizePlan, *, keeps_desired: bool) -> Cluster:
    desired = cluster.desired_capacity if keeps_desired else plan.desired_capacity
    return replace(cluster, min_size=plan.min_size, max_size=plan.max_size, desired_capacity=desired)


def _destroys_servers(data: Document) -> bool:
    return section(data, "deletion").get("destroy_after_deletion") is not False
