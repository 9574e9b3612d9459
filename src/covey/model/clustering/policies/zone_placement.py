"""Zone placement: nodes are spread over availability zones by weight."""

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import TypedDict, cast

from covey.model.clustering.policies.context import (
    PolicyCheckFailed,
    PolicyContext,
    capacity_change,
    properties_of,
    section,
)
from covey.model.clustering.specs import Binding, Document


class _Zone(TypedDict):
    name: str
    weight: int


class _Properties(TypedDict):
    zones: list[_Zone]


def pre_op(binding: Binding, context: PolicyContext, data: Document) -> Document:
    """Add how many nodes each zone gains or loses."""
    change = capacity_change(context, data)
    weights = {zone["name"]: zone["weight"] for zone in cast("_Properties", properties_of(binding.policy))["zones"]}
    spread = Counter(member.zone for member in context.members if member.zone is not None)
    if change > 0:
        plan = plan_zones(_available(weights, context), spread, change)
        return {**data, "creation": {**section(data, "creation"), "count": change, "zones": plan}}
    if change < 0:
        # Nodes without a zone are removed first, then nodes in zones that the policy does not list.
        without_zone = len(context.members) - spread.total()
        plan = plan_zones(dict.fromkeys(spread, 0) | weights, spread, min(0, change + without_zone))
        return {**data, "deletion": {**section(data, "deletion"), "count": -change, "zones": plan}}
    return data


def plan_zones(weights: Mapping[str, int], spread: Mapping[str, int], change: int) -> dict[str, int]:
    """Return how many nodes each zone gains or loses to come as close to its share as possible.

    Each step takes the zone with the largest deficit, or the largest surplus. No zone therefore ends above its share
    rounded up, nor below its share rounded down.
    """
    nodes = {zone: spread.get(zone, 0) for zone in weights}
    step = 1 if change > 0 else -1
    shares = _shares(weights, sum(nodes.values()) + change)
    by_weight = sorted(weights, key=lambda zone: -weights[zone] * step)  # of equals the heaviest gains first
    for _ in range(abs(change)):
        zone = max(by_weight, key=lambda zone: (shares[zone] - nodes[zone]) * step)
        nodes[zone] += step
    changes = {zone: abs(nodes[zone] - spread.get(zone, 0)) for zone in weights}
    return {zone: count for zone, count in changes.items() if count}


def _shares(weights: Mapping[str, int], total: int) -> dict[str, Fraction]:
    whole = sum(weights.values())
    return {zone: Fraction(total * weight, whole) if whole else Fraction(0) for zone, weight in weights.items()}


def _available(weights: Mapping[str, int], context: PolicyContext) -> dict[str, int]:
    available = {zone: weight for zone, weight in weights.items() if zone in context.zones}
    if not available:
        raise PolicyCheckFailed(f"None of the policy's zones is available: {', '.join(weights)}.")
    return available
