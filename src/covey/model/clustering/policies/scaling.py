"""Scaling: how many nodes a scaling action adds or removes when its request has no count, and its cooldown."""

from datetime import datetime, timedelta
from typing import TypedDict, cast

from covey.model.clustering.actions import Verb
from covey.model.clustering.policies.context import PolicyCheckFailed, PolicyContext, properties_of, section
from covey.model.clustering.sizes import (
    AdjustmentType,
    calculate_desired,
    check_max_size,
    check_min_size,
    check_scale_count,
    parse_count,
    truncate_desired,
)
from covey.model.clustering.specs import Binding, Document, Policy


class _Adjustment(TypedDict):
    type: str
    number: float
    min_step: int
    best_effort: bool
    cooldown: int


class _Properties(TypedDict):
    event: str
    adjustment: _Adjustment


def is_cooling_down(binding: Binding, verb: Verb, now: datetime) -> bool:
    """Return whether the cooldown of a policy for this verb is still in progress."""
    properties = _properties(binding.policy)
    if binding.last_op is None or properties["event"] != verb:
        return False
    return now < binding.last_op + timedelta(seconds=properties["adjustment"]["cooldown"])


def pre_op(binding: Binding, context: PolicyContext, data: Document) -> Document:
    """Add the number of nodes to create or delete."""
    properties = _properties(binding.policy)
    if properties["event"] != context.verb:
        return data
    if is_cooling_down(binding, context.verb, context.now):
        raise PolicyCheckFailed(f"Policy {binding.policy.id} cooldown still in progress.")
    count = _count(properties["adjustment"], context)
    if not properties["adjustment"]["best_effort"]:
        _check_bounds(context, count)
    count = abs(_truncated(context, count) - len(context.members))
    part = "creation" if context.verb is Verb.CLUSTER_SCALE_OUT else "deletion"
    return {**data, part: {**section(data, part), "count": count}}


def _properties(policy: Policy) -> _Properties:
    return cast("_Properties", properties_of(policy))


def _count(adjustment: _Adjustment, context: PolicyContext) -> int:
    """Return the number of nodes to add or remove, before the cluster's bounds apply."""
    nodes, is_scale_out = len(context.members), context.verb is Verb.CLUSTER_SCALE_OUT
    count = parse_count(context.action.inputs)
    if count is None:
        kind = AdjustmentType(adjustment["type"])
        number = adjustment["number"] if is_scale_out or kind is AdjustmentType.EXACT else -adjustment["number"]
        desired = calculate_desired(kind, number, nodes, adjustment["min_step"])
        count = desired - nodes if is_scale_out else nodes - desired
        if count <= 0:
            raise PolicyCheckFailed(f"Count ({count}) is not acceptable for action '{context.verb}': the minimum is 1.")
    check_scale_count(context.verb, count, 0)
    return count


def _check_bounds(context: PolicyContext, count: int) -> None:
    nodes = len(context.members)
    if context.verb is Verb.CLUSTER_SCALE_OUT:
        check_max_size(context.cluster, nodes + count, context.max_nodes)
    else:
        check_min_size(context.cluster, max(0, nodes - count))


def _truncated(context: PolicyContext, count: int) -> int:
    """Return the nearest size within the bounds; a cluster beyond its bounds keeps its size."""
    nodes, cluster = len(context.members), context.cluster
    if context.verb is Verb.CLUSTER_SCALE_OUT:
        return truncate_desired(nodes + count, nodes, cluster.max_size, context.max_nodes)
    return truncate_desired(nodes - count, min(cluster.min_size, nodes), nodes)
