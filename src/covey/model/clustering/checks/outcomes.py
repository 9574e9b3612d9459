"""What follows from what policies decided: where each new node goes, and which nodes go away."""

from collections.abc import Callable, Mapping, Sequence

from covey.model.clustering.checks.situation import Member, section
from covey.model.clustering.specs import Document

_BAD, _NEVER_MADE, _GOOD = range(3)


def placements(data: Document, count: int) -> list[dict[str, str]]:
    """The server group and the zone of each new node, where policies want them. A placement's own zone goes first."""
    given = section(data, "placement").get("placements")
    places = given if isinstance(given, list | tuple) else []
    zones = [zone for zone, number in _zones(data, "creation").items() for _ in range(number)]
    made: list[dict[str, str]] = []
    for number in range(count):
        zone = {"zone": zones[number]} if number < len(zones) else {}
        made.append(zone | (places[number] if number < len(places) else {}))
    return made


def victims(data: Document, members: Sequence[Member], count: int) -> list[str]:
    """The nodes that go: those that a policy chose; else bad ones, those never made, and then the last that came."""
    chosen = section(data, "deletion").get("candidates")
    if isinstance(chosen, list | tuple):
        return [str(node) for node in chosen]
    return pick(data, members, count, lambda member: -member.node.index)


def pick(data: Document, members: Sequence[Member], count: int, order: Callable[[Member], object]) -> list[str]:
    """So many nodes in that order, bad ones first, and of each zone as many as a plan wants; none for less than one."""
    ranked = sorted(members, key=lambda member: (_merit(member), order(member), member.node.id))
    left = dict(_zones(data, "deletion"))
    planned: list[Member] = []
    others: list[Member] = []
    for member in ranked:
        if member.zone is not None and left.get(member.zone, 0) > 0:
            left[member.zone] -= 1
            planned.append(member)
        else:
            others.append(member)
    if planned:
        others.sort(
            key=lambda member: member.zone is not None
        )  # what the plan leaves over is of those that are nowhere
    going = (planned + others)[: max(0, count)]
    return [member.node.id for member in ranked if member in going]


def _merit(member: Member) -> int:
    if member.is_bad:
        return _BAD
    return _NEVER_MADE if member.node.created_at is None else _GOOD


def _zones(data: Document, part: str) -> Mapping[str, int]:
    found = section(data, part).get("zones")
    return found if isinstance(found, Mapping) else {}
