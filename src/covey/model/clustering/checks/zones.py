"""Zone placement: each zone has a share of the nodes, by its weight."""

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import TypedDict, cast

from covey.model.clustering.checks.situation import Refused, Situation, growth, section, terms
from covey.model.clustering.specs import Binding, Document


class _Zone(TypedDict):
    name: str
    weight: int


class _Terms(TypedDict):
    zones: list[_Zone]


def before(binding: Binding, situation: Situation, data: Document) -> Document:
    """Says how many nodes come, or go, in each zone."""
    change = growth(situation, data)
    weights = {zone["name"]: zone["weight"] for zone in cast("_Terms", terms(binding.policy))["zones"]}
    spread = Counter(member.zone for member in situation.members if member.zone is not None)
    if change > 0:
        plan = planned(_available(weights, situation), spread, change)
        return {**data, "creation": {**section(data, "creation"), "count": change, "zones": plan}}
    if change < 0:
        # Nodes that are nowhere go before all others, then those in zones that have no share.
        nowhere = len(situation.members) - spread.total()
        plan = planned(dict.fromkeys(spread, 0) | weights, spread, min(0, change + nowhere))
        return {**data, "deletion": {**section(data, "deletion"), "count": -change, "zones": plan}}
    return data


def planned(weights: Mapping[str, int], spread: Mapping[str, int], change: int) -> dict[str, int]:
    """How many nodes each zone gets, or gives, until all have come as near to their shares as they can.

    One after the other goes where most is missing, or from where most is too much. So no zone comes to more than its
    share rounded up, nor down to less than its share rounded down.
    """
    nodes = {zone: spread.get(zone, 0) for zone in weights}
    step = 1 if change > 0 else -1
    shares = _shares(weights, sum(nodes.values()) + change)
    heaviest = sorted(weights, key=lambda zone: -weights[zone] * step)  # of equals the heaviest gets first, gives last
    for _ in range(abs(change)):
        zone = max(heaviest, key=lambda zone: (shares[zone] - nodes[zone]) * step)
        nodes[zone] += step
    moved = {zone: abs(nodes[zone] - spread.get(zone, 0)) for zone in weights}
    return {zone: count for zone, count in moved.items() if count}


def _shares(weights: Mapping[str, int], total: int) -> dict[str, Fraction]:
    whole = sum(weights.values())
    return {zone: Fraction(total * weight, whole) if whole else Fraction(0) for zone, weight in weights.items()}


def _available(weights: Mapping[str, int], situation: Situation) -> dict[str, int]:
    found = {zone: weight for zone, weight in weights.items() if zone in situation.zones}
    if not found:
        raise Refused(f"None of its zones is available: {', '.join(weights)}.")
    return found
