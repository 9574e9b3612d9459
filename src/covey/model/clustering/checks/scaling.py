"""Scaling: by how many nodes a cluster grows or shrinks when nobody says, and how often it may."""

from datetime import datetime, timedelta
from typing import TypedDict, cast

from covey.model.clustering.actions import Verb
from covey.model.clustering.checks.situation import Refused, Situation, section, terms
from covey.model.clustering.sizes import (
    Adjustment,
    changed,
    check_growth,
    check_scaling,
    check_shrinkage,
    fitted,
    read_count,
)
from covey.model.clustering.specs import Binding, Document, Policy


class _Adjustment(TypedDict):
    type: str
    number: float
    min_step: int
    best_effort: bool
    cooldown: int


class _Terms(TypedDict):
    event: str
    adjustment: _Adjustment


def is_cooling(binding: Binding, verb: Verb, now: datetime) -> bool:
    """Whether a policy about such actions wants more time to pass since the last one."""
    wanted = _read(binding.policy)
    if binding.last_op is None or wanted["event"] != verb:
        return False
    return now < binding.last_op + timedelta(seconds=wanted["adjustment"]["cooldown"])


def before(binding: Binding, situation: Situation, data: Document) -> Document:
    """Says how many nodes come, or go."""
    wanted = _read(binding.policy)
    if wanted["event"] != situation.verb:
        return data
    if is_cooling(binding, situation.verb, situation.now):
        raise Refused(f"Policy {binding.policy.id} cooldown still in progress.")
    count = _count(wanted["adjustment"], situation)
    if not wanted["adjustment"]["best_effort"]:
        _check(situation, count)
    count = abs(_fitted(situation, count) - len(situation.members))
    part = "creation" if situation.verb is Verb.CLUSTER_SCALE_OUT else "deletion"
    return {**data, part: {**section(data, part), "count": count}}


def _read(policy: Policy) -> _Terms:
    return cast("_Terms", terms(policy))


def _count(how: _Adjustment, situation: Situation) -> int:
    """How many nodes come or go, the cluster's bounds aside."""
    nodes, grows = len(situation.members), situation.verb is Verb.CLUSTER_SCALE_OUT
    count = read_count(situation.action.inputs)
    if count is None:
        kind = Adjustment(how["type"])
        number = how["number"] if grows or kind is Adjustment.EXACT else -how["number"]
        goal = changed(kind, number, nodes, how["min_step"])
        count = goal - nodes if grows else nodes - goal
        if count <= 0:
            raise Refused(f"Count ({count}) is not acceptable for action '{situation.verb}': it has to be at least 1.")
    check_scaling(situation.verb, count, 0)
    return count


def _check(situation: Situation, count: int) -> None:
    nodes = len(situation.members)
    if situation.verb is Verb.CLUSTER_SCALE_OUT:
        check_growth(situation.cluster, nodes + count, situation.most)
    else:
        check_shrinkage(situation.cluster, max(0, nodes - count))


def _fitted(situation: Situation, count: int) -> int:
    """The size that comes nearest; a cluster beyond its bounds stays as it is."""
    nodes, cluster = len(situation.members), situation.cluster
    if situation.verb is Verb.CLUSTER_SCALE_OUT:
        return fitted(nodes + count, nodes, cluster.max_size, situation.most)
    return fitted(nodes - count, min(cluster.min_size, nodes), nodes)
