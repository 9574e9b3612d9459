"""Plans of drains: which servers go where, in which order, and which stay."""

from collections.abc import Sequence
from typing import Any

from covey.model.groups import GroupPolicy, GroupState
from covey.model.ids import GroupId, HostId, ProjectId
from covey.model.resources import server_resources
from covey.model.servers import HostRequirements
from covey.scheduler.drain_planning import BlockedServer, DrainCandidate, PlannedMove, plan_drain
from covey.scheduler.fleet import Fleet
from covey.scheduler.rebalancing import Member
from tests.unit.scheduler.fleets import RACK, affinity, anti_affinity, domain, fleet, host, hosts

SIZE = {"vcpus": 1, "memory_mb": 1024, "disk_gb": 10}


def leaver(name: str, on: int, group: str | None = None, obstacle: str | None = None, **size: int) -> DrainCandidate:
    amounts = server_resources(**SIZE | size)
    member = Member(name, HostId(on), amounts, HostRequirements(), movable=obstacle is None)
    return DrainCandidate(member, None if group is None else GroupId(group), obstacle=obstacle)


def state(*policies: GroupPolicy, **members: int) -> GroupState:
    """Return a group with members on hosts, as n1=2."""
    places = {int(name[1:]): number for name, number in members.items()}
    return GroupState(1, ProjectId("web"), policies, places, {})


def planned(
    leavers: Sequence[DrainCandidate], where: Fleet, drained: set[int], group: GroupState | None = None, **options: Any
) -> tuple[dict[str, int], dict[str, str]]:
    """Return the destinations and the reasons, by server."""
    groups = {} if group is None else {GroupId("g"): group}
    found = list(plan_drain(leavers, groups, where, frozenset(map(HostId, drained)), 1, **options))
    moves = {str(each.server.id): int(each.destination) for each in found if isinstance(each, PlannedMove)}
    return moves, {str(each.server.id): each.reason for each in found if isinstance(each, BlockedServer)}


def test_no_server_goes_to_a_drained_host() -> None:
    moves, blocked = planned([leaver("a", 1), leaver("b", 2)], fleet(*hosts(3)), {1, 2})
    assert (moves, blocked) == ({"a": 3, "b": 3}, {})


def test_large_servers_are_placed_first() -> None:
    where = fleet(host(1), host(2, (4, 8192, 100)))
    leavers = [leaver("small", 1), leaver("large", 1, vcpus=4, memory_mb=4096)]
    moves, blocked = planned(leavers, where, {1})
    assert moves == {"large": 2}
    assert blocked == {"small": "No host admits it: of 2 hosts: 1 is disabled, 1 lacks VCPUs."}


def test_group_of_different_sizes_goes_where_all_of_it_fits() -> None:
    where = fleet(host(1), host(2, (6, 65536, 1000)), host(3, (8, 8192, 100)))
    leavers = [leaver("large", 1, "g", memory_mb=2048), leaver("wide", 1, "g", vcpus=6)]
    moves, stays = planned(leavers, where, {1}, state(affinity(), n1=2))
    assert (moves, stays) == ({"large": 3, "wide": 3}, {})


def test_smaller_server_leaves_room_in_its_rack_for_a_larger_one() -> None:
    racks = [domain(1, 1), domain(2, 2, 3), domain(3, 4, 5)]
    where = fleet(host(1), host(2, (2, 65536, 1000)), host(3, (1, 8192, 100)), *hosts(5, (1, 65536, 1000))[3:], *racks)
    leavers = [leaver("first", 1, "g", memory_mb=2048), leaver("wide", 1, "g", vcpus=2)]
    moves, stays = planned(leavers, where, {1}, state(affinity(RACK), n1=2))
    assert (moves, stays) == ({"first": 3, "wide": 2}, {})


def test_fleet_of_the_caller_stays_as_it_is() -> None:
    where = fleet(*hosts(2))
    before = where.free.copy(), where.enabled.copy()
    planned([leaver("a", 1)], where, {1})
    assert (where.free == before[0]).all()
    assert (where.enabled == before[1]).all()


def test_moves_that_have_ended_make_room_in_their_rack() -> None:
    where = fleet(*hosts(2), host(3), host(4), domain(1, 1, 2), domain(2, 3), domain(3, 4))
    leavers = [leaver("b", 1, "g"), leaver("a", 3, "g")]
    group = state(anti_affinity(RACK), n1=1, n3=1)
    moves, blocked = planned(leavers, where, {1, 3}, group)
    assert not blocked
    assert set(moves.values()) == {2, 4}, "whichever of them leaves rack 1, the other one may enter it"


def test_moves_that_begin_together_hold_both_places() -> None:
    where = fleet(*hosts(4), domain(1, 1, 2), domain(2, 3, 4))
    leavers = [leaver("b", 1, "g"), leaver("a", 1, "g")]
    group = state(anti_affinity(RACK), n1=2)
    one_by_one, _ = planned(leavers, where, {1}, group)
    at_once, blocked = planned(leavers, where, {1}, group, at_once=True)
    assert len(one_by_one) == 2
    assert at_once == {"b": one_by_one["b"]}
    assert "already holds 1 of the group" in blocked["a"] or "already hold 1 of the group" in blocked["a"]


def test_members_under_affinity_choose_a_rack_with_room_for_all() -> None:
    small = [host(n, (1, 8192, 100)) for n in (2, 3)]
    where = fleet(
        host(1),
        *small,
        host(4, (2, 8192, 100)),
        host(5, (1, 8192, 100)),
        domain(1, 1),
        domain(2, 2, 3),
        domain(3, 4, 5),
    )
    leavers = [leaver(name, 1, "g") for name in "abc"]
    moves, blocked = planned(leavers, where, {1}, state(affinity(RACK), n1=3))
    assert not blocked
    assert set(moves.values()) == {4, 5}


def test_affinity_group_that_does_not_fit_gives_its_room_back() -> None:
    where = fleet(host(1), host(2, (2, 8192, 100)))
    members = [leaver(name, 1, "g") for name in "abc"]
    small = [leaver(name, 1, memory_mb=512) for name in "xy"]
    moves, blocked = planned([*members, *small], where, {1}, state(affinity(), n1=3))
    assert moves == {"x": 2, "y": 2}
    assert blocked.keys() == {"a", "b", "c"}
    assert blocked["a"].startswith("Its group stays together, and 2 of 3 members fit elsewhere. No host admits it: ")


def test_affinity_group_moves_within_its_rack_as_far_as_it_fits() -> None:
    where = fleet(host(1), host(2, (1, 8192, 100)), host(3, (1, 8192, 100)), domain(1, 1, 2), domain(2, 3))
    members = [leaver(name, 1, "g") for name in "ab"]
    moves, blocked = planned(members, where, {1}, state(affinity(RACK), n1=2))
    assert set(moves.values()) == {2}
    assert len(blocked) == 1


def test_server_with_an_obstacle_stays_and_keeps_its_affinity_group() -> None:
    members = [leaver("a", 1, "g", obstacle="It is locked."), leaver("b", 1, "g")]
    moves, blocked = planned(members, fleet(*hosts(2)), {1}, state(affinity(), n1=2))
    assert moves == {}
    assert blocked["a"] == "It is locked."
