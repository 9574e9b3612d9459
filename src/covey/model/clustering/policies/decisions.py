"""Decisions in an action's policy data: the placement of each new node, and the candidates for deletion."""

from collections.abc import Callable, Mapping, Sequence

from covey.model.clustering.policies.context import Member, section
from covey.model.clustering.specs import Document

_UNHEALTHY, _NEVER_CREATED, _HEALTHY = range(3)


def placements(data: Document, count: int) -> list[dict[str, str]]:
    """Return the server group and zone of each new node. A placement's own zone overrides the zone plan."""
    given = section(data, "placement").get("placements")
    planned = given if isinstance(given, list | tuple) else []
    zones = [zone for zone, number in _zones(data, "creation").items() for _ in range(number)]
    result: list[dict[str, str]] = []
    for number in range(count):
        zone = {"zone": zones[number]} if number < len(zones) else {}
        result.append(zone | (planned[number] if number < len(planned) else {}))
    return result


def deletion_candidates(data: Document, members: Sequence[Member], count: int) -> list[str]:
    """Return the nodes to remove: a policy's candidates, else unhealthy, never created, then newest ones."""
    candidates = section(data, "deletion").get("candidates")
    if isinstance(candidates, list | tuple):
        return [str(node) for node in candidates]
    return select_candidates(data, members, count, lambda member: -member.node.index)


def select_candidates(
    data: Document, members: Sequence[Member], count: int, order: Callable[[Member], object]
) -> list[str]:
    """Return `count` nodes in that order, unhealthy ones first, by the zone plan if the data has one."""
    ranked = sorted(members, key=lambda member: (_health_rank(member), order(member), member.node.id))
    remaining = dict(_zones(data, "deletion"))
    planned: list[Member] = []
    unplanned: list[Member] = []
    for member in ranked:
        if member.zone is not None and remaining.get(member.zone, 0) > 0:
            remaining[member.zone] -= 1
            planned.append(member)
        else:
            unplanned.append(member)
    if planned:
        unplanned.sort(key=lambda member: member.zone is not None)  # the plan counts nodes without a zone apart
    selected = (planned + unplanned)[: max(0, count)]
    return [member.node.id for member in ranked if member in selected]


def _health_rank(member: Member) -> int:
    if member.is_unhealthy:
        return _UNHEALTHY
    return _NEVER_CREATED if member.node.created_at is None else _HEALTHY


def _zones(data: Document, part: str) -> Mapping[str, int]:
    found = section(data, part).get("zones")
    return found if isinstance(found, Mapping) else {}
