"""Deletion: which nodes go first, and what becomes of them."""

import random
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TypedDict, cast

from covey.model.clustering.actions import Verb
from covey.model.clustering.checks.outcomes import pick
from covey.model.clustering.checks.situation import Member, Situation, growth, section, terms
from covey.model.clustering.specs import Binding, Document


class _Terms(TypedDict):
    criteria: str
    destroy_after_deletion: bool
    grace_period: int
    reduce_desired_capacity: bool


def before(binding: Binding, situation: Situation, data: Document) -> Document:
    """Says which nodes go, and how."""
    wanted = cast("_Terms", terms(binding.policy))
    candidates = _candidates(wanted["criteria"], situation, data)
    if not candidates:
        return data
    deletion = {
        **section(data, "deletion"),
        "count": len(candidates),
        "candidates": candidates,
        "destroy_after_deletion": wanted["destroy_after_deletion"],
        "grace_period": wanted["grace_period"],
        "reduce_desired_capacity": wanted["reduce_desired_capacity"],
    }
    if situation.verb is Verb.CLUSTER_DEL_NODES:  # who names nodes says what becomes of their servers, too
        deletion["destroy_after_deletion"] = bool(situation.action.inputs.get("destroy_after_deletion"))
    return {**data, "deletion": deletion}


def _candidates(criteria: str, situation: Situation, data: Document) -> list[str]:
    if situation.verb is Verb.NODE_DELETE:
        return [situation.action.target]
    named = situation.action.inputs.get("candidates")
    if situation.verb is Verb.CLUSTER_DEL_NODES:
        return [str(node) for node in named] if isinstance(named, list | tuple) else []
    return pick(data, situation.members, -growth(situation, data), _ORDERS[criteria](situation))


def _oldest_first(situation: Situation) -> Callable[[Member], timedelta]:
    return lambda member: (member.node.created_at or member.node.init_at) - situation.now


def _youngest_first(situation: Situation) -> Callable[[Member], timedelta]:
    return lambda member: situation.now - (member.node.created_at or member.node.init_at)


def _oldest_profile_first(situation: Situation) -> Callable[[Member], tuple[timedelta, timedelta]]:
    age = _oldest_first(situation)
    return lambda member: ((member.profile_at or situation.now) - situation.now, age(member))


def _random(situation: Situation) -> Callable[[Member], float]:
    """The same for the same action, whoever takes its turn."""
    return lambda member: random.Random(f"{situation.action.id}/{member.node.id}").random()  # noqa: S311 -- no secret


_ORDERS: Mapping[str, Callable[[Situation], Callable[[Member], object]]] = {
    "OLDEST_FIRST": _oldest_first,
    "YOUNGEST_FIRST": _youngest_first,
    "OLDEST_PROFILE_FIRST": _oldest_profile_first,
    "RANDOM": _random,
}
