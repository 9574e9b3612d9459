"""A rebalance: the fewest moves that end what is wrong, in an order in which each may be made."""

from collections import Counter
from collections.abc import Iterable

import pytest

from covey.model.groups import GroupPolicy
from covey.model.ids import HostId, ProjectId
from covey.scheduler.fleet import AggregateRecord, Fleet, HostRecord
from covey.scheduler.rebalancing import Member, Move, Plan, hosts_after, is_still_valid, plan
from covey.scheduler.request_spec import HostRequirements
from tests.unit.scheduler.fleets import (
    RACK,
    SWITCH,
    Amounts,
    apart,
    domain,
    fleet,
    host,
    hosts,
    rather_apart,
    rather_together,
    together,
)

ANYWHERE = HostRequirements()
SMALL: Amounts = (1, 1, 1)
WIDE: Amounts = (64, 1 << 20, 10_000)
RACKS = [domain(rack + 1, *range(4 * rack + 1, 4 * rack + 5)) for rack in range(4)]
SIXTEEN = fleet(*hosts(16, WIDE), *RACKS)


def members(
    *at: int, amounts: Amounts = SMALL, stuck: Iterable[int] = (), requirements: HostRequirements = ANYWHERE
) -> list[Member]:
    """One on each of the hosts; those whose positions are in `stuck` can't move."""
    return [Member(f"m{i:04}", HostId(on), amounts, requirements, i not in set(stuck)) for i, on in enumerate(at)]


def planned(policies: list[GroupPolicy], group: list[Member], where: Fleet) -> Plan:
    return plan(policies, group, where, 7, timeout_s=60)


def racks_after(found: Plan, group: list[Member], size: int = 4) -> list[int]:
    """How many of the group each rack holds in the end."""
    count = Counter((on - 1) // size for on in hosts_after(group, found.moves).values())
    return [count[rack] for rack in range(4)]


# One rack was lost, and is back

LOST = members(*(4 * (i % 3) + 1 + i // 3 % 4 for i in range(64)))


@pytest.mark.parametrize("policy", [rather_apart(RACK), apart(RACK, limit=16)], ids=str)
def test_a_rack_that_is_back_takes_sixteen_of_sixty_four(policy: GroupPolicy) -> None:
    found = planned([policy], LOST, SIXTEEN)
    assert len(found.before) > 0
    assert (len(found.moves), found.bound, found.optimal) == (16, 16, True)
    assert racks_after(found, LOST) == [16, 16, 16, 16]
    assert (found.after, found.left) == ((), ())


def test_its_hosts_share_them_if_they_rather_would() -> None:
    found = planned([rather_apart(RACK), rather_apart()], LOST, SIXTEEN)
    count = Counter(hosts_after(LOST, found.moves).values())
    assert racks_after(found, LOST) == [16, 16, 16, 16]
    assert max(count.values()) - min(count.values()) <= 1
    assert found.optimal


# Each policy by itself


def test_apart_on_hosts() -> None:
    group = members(1, 1, 1, 2, 3)
    found = planned([apart()], group, fleet(*hosts(6)))
    assert (len(found.moves), found.optimal, found.after) == (2, True, ())
    assert {move.source for move in found.moves} == {1}
    assert {move.destination for move in found.moves} < {4, 5, 6}


def test_together_where_most_are() -> None:
    group = members(1, 2, 5, 9, 2)
    found = planned([together(RACK)], group, SIXTEEN)
    assert {move.member for move in found.moves} == {"m0002", "m0003"}
    assert racks_after(found, group)[0] == 5


def test_together_where_all_fit_though_most_are_elsewhere() -> None:
    where = fleet(host(1, (2, 9, 9), (2, 2, 2)), host(2, (9, 9, 9), (1, 1, 1)), domain(1, 1), domain(2, 2))
    found = planned([together(RACK)], members(1, 1, 2), where)
    assert {(move.source, move.destination) for move in found.moves} == {(1, 2)}
    assert len(found.moves) == 2


def test_to_the_domain_that_is_named_and_out_of_it() -> None:
    into = planned([together(RACK, "3")], members(1, 5, 9), SIXTEEN)
    assert {move.member for move in into.moves} == {"m0000", "m0001"}
    assert all(9 <= move.destination <= 12 for move in into.moves)
    out = planned([apart(RACK, "3")], members(1, 5, 9), SIXTEEN)
    assert {move.member for move in out.moves} == {"m0002"}
    assert out.after == ()


def test_out_of_no_domain() -> None:
    where = fleet(*hosts(3), domain(1, 1), domain(2, 2))
    found = planned([apart(RACK)], members(1, 3), where)
    assert [(move.member, move.destination) for move in found.moves] == [("m0001", 2)]


def test_rather_together() -> None:
    found = planned([rather_together(RACK)], members(1, 2, 5), SIXTEEN)
    assert [move.member for move in found.moves] == ["m0002"]


# Several at once


def test_two_policies_hold_together() -> None:
    group = members(1, 1, 2, 5)
    found = planned([together(RACK), apart()], group, SIXTEEN)
    after = hosts_after(group, found.moves)
    assert set(after.values()) == {1, 2, 3, 4}
    assert (len(found.moves), found.optimal, found.after) == (2, True, ())


def test_two_scopes() -> None:
    switches = [
        domain(11, 1, 5, 9, 13, scope=SWITCH),
        domain(12, *(n for n in range(1, 17) if n % 4 != 1), scope=SWITCH),
    ]
    where = fleet(*hosts(16, WIDE), *RACKS, *switches)
    found = planned([together(SWITCH, "11"), apart(RACK)], members(2, 3, 9), where)
    assert len(found.moves) == 2
    assert found.after == ()


def test_hard_policies_come_before_soft_ones() -> None:
    where = fleet(*hosts(3), domain(1, 1), domain(2, 2, 3))
    found = planned([rather_together(RACK), apart(RACK, limit=2)], members(2, 2, 3), where)
    assert len(found.moves) == 1
    assert [str(violation.policy) for violation in found.after] == ["soft-affinity:rack"]


def test_the_first_soft_policy_comes_before_the_next() -> None:
    where = fleet(*hosts(4), domain(1, 1, 2), domain(2, 3, 4))
    first = planned([rather_together(RACK), rather_apart(RACK)], members(1, 2, 3), where)
    assert [str(violation.policy) for violation in first.after] == ["soft-anti-affinity:rack"]
    second = planned([rather_apart(RACK), rather_together(RACK)], members(1, 2, 3), where)
    assert second.moves == ()


# What stands in the way


def test_nothing_wrong_means_no_moves() -> None:
    found = planned([apart(), rather_apart(RACK)], members(1, 5, 9, 13), SIXTEEN)
    assert found == Plan((), 0, True, (), ())


def test_empty_group_needs_no_moves() -> None:
    assert planned([apart()], [], SIXTEEN).moves == ()


def test_what_is_impossible_is_told_and_the_rest_is_done() -> None:
    found = planned([apart()], members(1, 1, 1, 1), fleet(*hosts(3)))
    assert (len(found.moves), found.bound, found.optimal) == (2, 2, True)
    (left,) = found.after
    assert left.domain == "n1"
    assert len(left.members) == 2


def test_what_can_not_be_made_better_is_left_alone() -> None:
    full = fleet(host(1), host(2, used=(8, 0, 0)))
    found = planned([apart()], members(1, 1), full)
    assert (found.moves, found.after) == ((), found.before)
    assert found.optimal


def test_who_can_not_move_stays() -> None:
    found = planned([apart()], members(1, 1, 1, stuck=[0, 2]), fleet(*hosts(5)))
    assert [move.member for move in found.moves] == ["m0001"]
    assert planned([apart()], members(1, 1, stuck=[0, 1]), fleet(*hosts(5))).moves == ()


def test_hosts_that_would_not_be_chosen_are_not() -> None:
    where = fleet(
        host(1),
        host(2, enabled=False),
        host(3, up=False),
        host(4, traits=frozenset({"CUSTOM_A"})),
        host(5),
        host(6, zone="elsewhere"),
        domain(1, 5, scope=None, projects=frozenset({ProjectId("other")})),
    )
    picky = HostRequirements(project_id=ProjectId("web"), zone="nova", forbidden_traits=frozenset({"CUSTOM_A"}))
    assert planned([apart()], members(1, 1, requirements=picky), where).moves == ()
    easy = HostRequirements(project_id=ProjectId("web"), zone="elsewhere")
    assert [m.destination for m in planned([apart()], members(1, 1, requirements=easy), where).moves] == [6]


def test_a_host_that_has_to_be_left_first_makes_an_order() -> None:
    """Rack 2 is full: one of its own, a large one that must go on to rack 3, makes room for the two of rack 1."""
    where = fleet(
        host(1, (9, 9, 9), (3, 3, 3)),
        host(2, (2, 9, 9), (2, 1, 1)),
        host(3, (2, 9, 9)),
        *(domain(n, n) for n in (1, 2, 3)),
    )
    large = Member("large", HostId(2), (2, 1, 1), HostRequirements(), movable=True)
    group = [*members(1, 1, 1), large]
    found = planned([apart(RACK, limit=2)], group, where)
    assert len(found.moves) == 1
    tight = fleet(
        host(1, (9, 9, 9), (3, 3, 3)),
        host(2, (2, 9, 9), (2, 1, 1)),
        host(3, (2, 9, 9), (0, 0, 0), traits=frozenset({"CUSTOM_BIG"})),
        *(domain(n, n) for n in (1, 2, 3)),
    )
    shy = HostRequirements(forbidden_traits=frozenset({"CUSTOM_BIG"}))
    group = [*members(1, 1, 1, requirements=shy), large]
    found = planned([apart(RACK, limit=2)], group, tight)
    assert [(move.member == "large", move.source, move.destination) for move in found.moves] == [
        (True, 2, 3),
        (False, 1, 2),
    ]
    assert (found.optimal, found.after) == (True, ())


def one(name: str, on: int, vcpus: int, *only: int) -> Member:
    wanted = HostRequirements(only_hosts=frozenset(map(HostId, only)) if only else None)
    return Member(name, HostId(on), (vcpus, 1, 1), wanted, movable=True)


def test_room_that_two_want_goes_first_to_the_one_who_makes_more() -> None:
    """If the small ones went to rack 3 at once, `y` would not fit there, and its host would not be free for `z`."""
    where = fleet(
        host(1, (3, 9, 9), (3, 3, 3)),
        host(2, (3, 9, 9), (2, 1, 1)),
        host(3, (5, 9, 9), (3, 1, 1)),
        *(domain(n, n) for n in (1, 2, 3)),
    )
    group = [one("p", 1, 1), one("q", 1, 1), one("r", 1, 1), one("y", 2, 2), one("z", 3, 3, 2, 3)]
    found = planned([rather_together(RACK, "3")], group, where)
    assert [move.member for move in found.moves[:2]] == ["y", "z"]
    assert {move.member for move in found.moves[2:]} == {"p", "q", "r"}
    assert (found.left, found.optimal) == ((), True)


TIGHT: list[HostRecord | AggregateRecord] = [
    host(1, (2, 9, 9), (2, 1, 1)),
    host(2, (2, 9, 9), (2, 2, 2)),
    domain(1, 1),
    domain(2, 2),
]
SWAP = [one("large", 1, 2), one("s1", 2, 1), one("s2", 2, 1)]


def test_a_swap_for_which_there_is_no_order_is_left_and_told() -> None:
    found = planned([rather_together(RACK, "1")], SWAP, fleet(*TIGHT))
    assert found.moves == ()
    assert {(move.member, move.destination) for move in found.left} == {("large", 2), ("s1", 1), ("s2", 1)}
    assert not found.optimal
    assert found.after == found.before


def test_hosts_too_small_for_what_their_sum_promises_are_looked_at_one_by_one() -> None:
    """Six VCPUs are free in rack 2, but in pieces of one and two: the large one fits twice, not three times."""
    pieces: list[HostRecord] = [host(n, (size, 99, 99)) for n, size in ((2, 2), (3, 1), (4, 1), (5, 2))]
    where = fleet(host(1, (99, 99, 99), (8, 4, 4)), *pieces, domain(1, 1), domain(2, 2, 3, 4, 5))
    large = [Member(f"l{n}", HostId(1), (2, 1, 1), HostRequirements(), movable=True) for n in range(3)]
    small = [Member(f"s{n}", HostId(1), (1, 1, 1), HostRequirements(), movable=True) for n in range(2)]
    found = planned([together(RACK, "2")], [*large, *small], where)
    assert len(found.moves) == 4
    assert (found.optimal, found.left) == (True, ())
    assert len(found.after[0].members) == 1


def test_a_fleet_is_left_as_it_was() -> None:
    before = SIXTEEN.free.copy()
    planned([apart()], members(1, 1, 1), SIXTEEN)
    assert (SIXTEEN.free == before).all()
    assert SIXTEEN.static_masks == {}


# Size


@pytest.mark.parametrize(
    ("policies", "moves"),
    [
        ([rather_apart(RACK)], 400),
        ([apart()], 400),
        ([rather_apart(RACK), rather_apart()], 400),
        ([together(RACK)], 965),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else str(value),
)
def test_a_thousand_members_over_a_thousand_hosts(policies: list[GroupPolicy], moves: int) -> None:
    where = fleet(
        *hosts(1000, (1000, 1 << 20, 10_000)), *(domain(r + 1, *range(20 * r + 1, 20 * r + 21)) for r in range(50))
    )
    found = planned(policies, members(*(1 + i * 7 % 600 for i in range(1000))), where)
    assert (len(found.moves), found.bound, found.optimal, found.after) == (moves, moves, True, ())


# Going on with a plan


def test_a_plan_is_gone_on_with_while_it_is_right() -> None:
    group = members(1, 1, 1)
    moves = [Move("m0000", HostId(1), HostId(2)), Move("m0001", HostId(1), HostId(3))]
    assert is_still_valid([apart()], group, fleet(*hosts(3)), moves)
    assert is_still_valid([apart()], group, fleet(*hosts(3)), moves[1:])


@pytest.mark.parametrize(
    ("policies", "group", "where"),
    [
        ([apart()], members(1, 2), fleet(*hosts(3))),
        ([apart()], members(2, 2), fleet(*hosts(3))),
        ([apart()], members(1, 1, 3), fleet(*hosts(3))),
        ([apart()], members(1, 1, stuck=[0]), fleet(*hosts(3))),
        ([apart()], members(1, 1), fleet(*hosts(2), host(3, used=(8, 0, 0)))),
        ([apart()], members(1, 1), fleet(*hosts(2), host(3, enabled=False))),
        ([apart()], members(1, 1), fleet(*hosts(2))),
        ([together()], members(1, 1), fleet(*hosts(3))),
        ([apart()], [], fleet(*hosts(3))),
    ],
    ids=["it is right already", "it is elsewhere", "taken", "stuck", "full", "disabled", "gone", "worse", "no member"],
)
def test_a_plan_is_not_gone_on_with_when(policies: list[GroupPolicy], group: list[Member], where: Fleet) -> None:
    assert not is_still_valid(policies, group, where, [Move("m0000", HostId(1), HostId(3))])
