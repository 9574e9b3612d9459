"""The input of a policy check: an action, its cluster and the cluster's nodes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.clusters import Cluster, Node, NodeStatus
from covey.model.clustering.policy_types import POLICY_TYPES
from covey.model.clustering.sizes import (
    MAX_NODES_PER_CLUSTER,
    check_scale_count,
    parse_count,
    parse_resize,
    plan_resize,
)
from covey.model.clustering.specs import Document, Policy
from covey.model.errors import Invalid

_UNHEALTHY = frozenset({NodeStatus.ERROR, NodeStatus.WARNING})


class PolicyCheckFailed(Invalid):
    """A policy rejects the action. With `replaces_data`, the failure is all that the action's data keeps."""

    def __init__(self, message: str, *, replaces_data: bool = False) -> None:
        super().__init__(message)
        self.replaces_data = replaces_data


@dataclass(frozen=True, slots=True)
class Member:
    """A node of a cluster as policies see it."""

    node: Node
    profile_created_at: datetime | None = None
    zone: str | None = None  # of the node's server

    @property
    def is_unhealthy(self) -> bool:
        """Whether the node is removed before healthy ones."""
        return self.node.status in _UNHEALTHY or self.node.tainted


def _no_hypervisors() -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """An action with everything that a policy check reads."""

    action: Action
    cluster: Cluster
    members: tuple[Member, ...]
    now: datetime
    zones: frozenset[str] = frozenset()  # with an enabled host
    hypervisors: Callable[[], Sequence[str]] = field(default=_no_hypervisors)  # names; raises Forbidden for tenants
    max_nodes: int = MAX_NODES_PER_CLUSTER

    @property
    def verb(self) -> Verb:
        """The verb of the action."""
        return self.action.verb


def capacity_change(context: PolicyContext, data: Document) -> int:
    """Return how many nodes the action adds; a negative number removes nodes. Raises Invalid.

    A count that an earlier policy set takes precedence over the action's inputs.
    """
    nodes = len(context.members)
    if "creation" in data:
        return parse_count(section(data, "creation"), 1) or 0
    if "count" in section(data, "deletion"):
        return -min(nodes, parse_count(section(data, "deletion"), 0) or 0)
    if context.verb is Verb.NODE_CREATE:
        return 1
    if context.verb is Verb.CLUSTER_RESIZE:
        request = parse_resize(context.action.inputs, context.max_nodes)
        return plan_resize(request, context.cluster, nodes, context.max_nodes).change
    count = parse_count(context.action.inputs, 1) or 0
    check_scale_count(context.verb, count, nodes, context.max_nodes)
    return count if context.verb is Verb.CLUSTER_SCALE_OUT else -min(nodes, count)


def section(data: Document, name: str) -> Document:
    """Return one part of the policy data; empty when no policy set it."""
    found = data.get(name)
    return found if isinstance(found, Mapping) else {}


def properties_of(policy: Policy) -> dict[str, object]:
    """Return the properties of a policy's spec, with defaults."""
    return POLICY_TYPES.named(policy.type).read(policy.spec)
