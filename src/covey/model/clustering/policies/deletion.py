"""Deletion: which nodes are removed first, and what happens to their servers."""

import random
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TypedDict, cast

from covey.model.clustering.actions import Verb
from covey.model.clustering.policies.context import Member, PolicyContext, capacity_change, properties_of, section
from covey.model.clustering.policies.decisions import select_candidates
from covey.model.clustering.specs import Binding, Document


class _Properties(TypedDict):
    criteria: str
    destroy_after_deletion: bool
    grace_period: int
    reduce_desired_capacity: bool


def pre_op(binding: Binding, context: PolicyContext, data: Document) -> Document:
    """Add the candidates and the terms of their deletion."""
    properties = cast("_Properties", properties_of(binding.policy))
    candidates = _candidates(properties["criteria"], context, data)
    if not candidates:
        return data
    deletion = {
        **section(data, "deletion"),
        "count": len(candidates),
        "candidates": candidates,
        "destroy_after_deletion": properties["destroy_after_deletion"],
        "grace_period": properties["grace_period"],
        "reduce_desired_capacity": properties["reduce_desired_capacity"],
    }
    if context.verb is Verb.CLUSTER_DEL_NODES:  # a request that names nodes also decides about their servers
        deletion["destroy_after_deletion"] = bool(context.action.inputs.get("destroy_after_deletion"))
    return {**data, "deletion": deletion}


def _candidates(criteria: str, context: PolicyContext, data: Document) -> list[str]:
    if context.verb is Verb.NODE_DELETE:
        return [context.action.target]
    named = context.action.inputs.get("candidates")
    if context.verb is Verb.CLUSTER_DEL_NODES:
        return [str(node) for node in named] if isinstance(named, list | tuple) else []
    return select_candidates(data, context.members, -capacity_change(context, data), _ORDERS[criteria](context))


def _oldest_first(context: PolicyContext) -> Callable[[Member], timedelta]:
    return lambda member: (member.node.created_at or member.node.init_at) - context.now


def _youngest_first(context: PolicyContext) -> Callable[[Member], timedelta]:
    return lambda member: context.now - (member.node.created_at or member.node.init_at)


def _oldest_profile_first(context: PolicyContext) -> Callable[[Member], tuple[timedelta, timedelta]]:
    age = _oldest_first(context)
    return lambda member: ((member.profile_created_at or context.now) - context.now, age(member))


def _random(context: PolicyContext) -> Callable[[Member], float]:
    """Every execution of one action gets the same order."""
    return lambda member: random.Random(f"{context.action.id}/{member.node.id}").random()  # noqa: S311 -- no secret


_ORDERS: Mapping[str, Callable[[PolicyContext], Callable[[Member], object]]] = {
    "OLDEST_FIRST": _oldest_first,
    "YOUNGEST_FIRST": _youngest_first,
    "OLDEST_PROFILE_FIRST": _oldest_profile_first,
    "RANDOM": _random,
}
