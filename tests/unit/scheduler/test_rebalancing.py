"""Rebalance plans: the fewest moves that repair the violations, in an order in which each move is allowed."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from covey.model.groups import GroupPolicy
from covey.model.ids import HostId, ProjectId
from covey.model.resources import GranularGroup, Resources, server_resources
from covey.scheduler.fleet import Fleet
from covey.scheduler.provider_trees import SHARES
from covey.scheduler.rebalancing import Member, Move, Plan, hosts_after, is_still_valid, plan
from covey.scheduler.request_spec import HostRequirements
from tests.plain_fleets import Amounts, PlainAggregate, PlainHost
from tests.unit.scheduler.fleets import (
    RACK,
    SWITCH,
    affinity,
    anti_affinity,
    domain,
    fleet,
    host,
    hosts,
    hosts_with_cards,
    provider,
    provider_fleet,
    soft_affinity,
    soft_anti_affinity,
)

ANYWHERE = HostRequirements()
SMALL: Amounts = (1, 1, 1)
WIDE: Amounts = (64, 1 << 20, 10_000)
RACKS = [domain(rack + 1, *range(4 * rack + 1, 4 * rack + 5)) for rack in range(4)]
SIXTEEN = fleet(*hosts(16, WIDE), *RACKS)


def members(
    *at: int, amounts: Amounts = SMALL, stuck: Iterable[int] = (), requirements: HostRequirements = ANYWHERE
) -> list[Member]:
    """Return a member on each of the hosts; members at the positions in `stuck` cannot move."""
    return [
        Member(f"m{i:04}", HostId(on), server_resources(*amounts), requirements, i not in set(stuck))
        for i, on in enumerate(at)
    ]


def planned(policies: list[GroupPolicy], group: list[Member], where: Fleet) -> Plan:
    return plan(policies, group, where, 7, timeout_s=60)


def racks_after(result: Plan, group: list[Member], size: int = 4) -> list[int]:
    """Return how many members each rack holds after the moves."""
    count = Counter((on - 1) // size for on in hosts_after(group, result.moves).values())
    return [count[rack] for rack in range(4)]


# A rack that was down is up again

EVACUATED = members(*(4 * (i % 3) + 1 + i // 3 % 4 for i in range(64)))


@pytest.mark.parametrize("policy", [soft_anti_affinity(RACK), anti_affinity(RACK, limit=16)], ids=str)
def test_restored_rack_gets_16_of_64_members(policy: GroupPolicy) -> None:
    result = planned([policy], EVACUATED, SIXTEEN)
    assert len(result.before) > 0
    assert (len(result.moves), result.bound, result.optimal) == (16, 16, True)
    assert racks_after(result, EVACUATED) == [16, 16, 16, 16]
    assert (result.after, result.blocked) == ((), ())


def test_soft_anti_affinity_by_host_spreads_members_within_the_rack() -> None:
    result = planned([soft_anti_affinity(RACK), soft_anti_affinity()], EVACUATED, SIXTEEN)
    count = Counter(hosts_after(EVACUATED, result.moves).values())
    assert racks_after(result, EVACUATED) == [16, 16, 16, 16]
    assert max(count.values()) - min(count.values()) <= 1
    assert result.optimal


# Each policy alone


def test_anti_affinity_moves_surplus_members_to_empty_hosts() -> None:
    group = members(1, 1, 1, 2, 3)
    result = planned([anti_affinity()], group, fleet(*hosts(6)))
    assert (len(result.moves), result.optimal, result.after) == (2, True, ())
    assert {move.source for move in result.moves} == {1}
    assert {move.destination for move in result.moves} < {4, 5, 6}


def test_affinity_gathers_in_the_rack_with_most_members() -> None:
    group = members(1, 2, 5, 9, 2)
    result = planned([affinity(RACK)], group, SIXTEEN)
    assert {move.member for move in result.moves} == {"m0002", "m0003"}
    assert racks_after(result, group)[0] == 5


def test_affinity_gathers_where_all_fit_even_when_most_are_elsewhere() -> None:
    where = fleet(host(1, (2, 9, 9), (2, 2, 2)), host(2, (9, 9, 9), (1, 1, 1)), domain(1, 1), domain(2, 2))
    result = planned([affinity(RACK)], members(1, 1, 2), where)
    assert {(move.source, move.destination) for move in result.moves} == {(1, 2)}
    assert len(result.moves) == 2


def test_members_move_into_a_required_rack_and_out_of_an_avoided_one() -> None:
    into = planned([affinity(RACK, "3")], members(1, 5, 9), SIXTEEN)
    assert {move.member for move in into.moves} == {"m0000", "m0001"}
    assert all(9 <= move.destination <= 12 for move in into.moves)
    out = planned([anti_affinity(RACK, "3")], members(1, 5, 9), SIXTEEN)
    assert {move.member for move in out.moves} == {"m0002"}
    assert out.after == ()


def test_member_in_no_domain_moves_into_one() -> None:
    where = fleet(*hosts(3), domain(1, 1), domain(2, 2))
    result = planned([anti_affinity(RACK)], members(1, 3), where)
    assert [(move.member, move.destination) for move in result.moves] == [("m0001", 2)]


def test_soft_affinity_gathers_members() -> None:
    result = planned([soft_affinity(RACK)], members(1, 2, 5), SIXTEEN)
    assert [move.member for move in result.moves] == ["m0002"]


# Several policies


def test_two_policies_are_satisfied_at_once() -> None:
    group = members(1, 1, 2, 5)
    result = planned([affinity(RACK), anti_affinity()], group, SIXTEEN)
    after = hosts_after(group, result.moves)
    assert set(after.values()) == {1, 2, 3, 4}
    assert (len(result.moves), result.optimal, result.after) == (2, True, ())


def test_policies_of_two_scopes_are_satisfied_at_once() -> None:
    switches = [
        domain(11, 1, 5, 9, 13, scope=SWITCH),
        domain(12, *(n for n in range(1, 17) if n % 4 != 1), scope=SWITCH),
    ]
    where = fleet(*hosts(16, WIDE), *RACKS, *switches)
    result = planned([affinity(SWITCH, "11"), anti_affinity(RACK)], members(2, 3, 9), where)
    assert len(result.moves) == 2
    assert result.after == ()


def test_hard_policies_precede_soft_ones() -> None:
    where = fleet(*hosts(3), domain(1, 1), domain(2, 2, 3))
    result = planned([soft_affinity(RACK), anti_affinity(RACK, limit=2)], members(2, 2, 3), where)
    assert len(result.moves) == 1
    assert [str(violation.policy) for violation in result.after] == ["soft-affinity:rack"]


def test_first_soft_policy_precedes_the_second() -> None:
    where = fleet(*hosts(4), domain(1, 1, 2), domain(2, 3, 4))
    first = planned([soft_affinity(RACK), soft_anti_affinity(RACK)], members(1, 2, 3), where)
    assert [str(violation.policy) for violation in first.after] == ["soft-anti-affinity:rack"]
    second = planned([soft_anti_affinity(RACK), soft_affinity(RACK)], members(1, 2, 3), where)
    assert second.moves == ()


# Obstacles


def test_group_without_violations_needs_no_moves() -> None:
    result = planned([anti_affinity(), soft_anti_affinity(RACK)], members(1, 5, 9, 13), SIXTEEN)
    assert result == Plan((), 0, True, (), ())


def test_empty_group_needs_no_moves() -> None:
    assert planned([anti_affinity()], [], SIXTEEN).moves == ()


def test_plan_repairs_what_is_possible_and_reports_the_rest() -> None:
    result = planned([anti_affinity()], members(1, 1, 1, 1), fleet(*hosts(3)))
    assert (len(result.moves), result.bound, result.optimal) == (2, 2, True)
    (left,) = result.after
    assert left.domain == "n1"
    assert len(left.members) == 2


def test_unrepairable_violation_causes_no_moves() -> None:
    full = fleet(host(1), host(2, used=(8, 0, 0)))
    result = planned([anti_affinity()], members(1, 1), full)
    assert (result.moves, result.after) == ((), result.before)
    assert result.optimal


def test_unmovable_member_stays() -> None:
    result = planned([anti_affinity()], members(1, 1, 1, stuck=[0, 2]), fleet(*hosts(5)))
    assert [move.member for move in result.moves] == ["m0001"]
    assert planned([anti_affinity()], members(1, 1, stuck=[0, 1]), fleet(*hosts(5))).moves == ()


def test_plan_never_moves_to_an_unsuitable_host() -> None:
    where = fleet(
        host(1),
        host(2, enabled=False),
        host(3, up=False),
        host(4, traits=frozenset({"CUSTOM_A"})),
        host(5),
        host(6, zone="elsewhere"),
        domain(1, 5, scope=None, projects=frozenset({ProjectId("other")})),
    )
    strict_requirements = HostRequirements(
        project_id=ProjectId("web"), zone="nova", forbidden_traits=frozenset({"CUSTOM_A"})
    )
    assert planned([anti_affinity()], members(1, 1, requirements=strict_requirements), where).moves == ()
    other_requirements = HostRequirements(project_id=ProjectId("web"), zone="elsewhere")
    assert [
        m.destination for m in planned([anti_affinity()], members(1, 1, requirements=other_requirements), where).moves
    ] == [6]


def test_move_that_frees_a_host_comes_first() -> None:
    """Rack 2 is full: its large member moves to rack 3 before a member of rack 1 fits there."""
    where = fleet(
        host(1, (9, 9, 9), (3, 3, 3)),
        host(2, (2, 9, 9), (2, 1, 1)),
        host(3, (2, 9, 9)),
        *(domain(n, n) for n in (1, 2, 3)),
    )
    large = Member("large", HostId(2), server_resources(2, 1, 1), HostRequirements(), movable=True)
    group = [*members(1, 1, 1), large]
    result = planned([anti_affinity(RACK, limit=2)], group, where)
    assert len(result.moves) == 1
    tight = fleet(
        host(1, (9, 9, 9), (3, 3, 3)),
        host(2, (2, 9, 9), (2, 1, 1)),
        host(3, (2, 9, 9), (0, 0, 0), traits=frozenset({"CUSTOM_BIG"})),
        *(domain(n, n) for n in (1, 2, 3)),
    )
    not_on_host_3 = HostRequirements(forbidden_traits=frozenset({"CUSTOM_BIG"}))
    group = [*members(1, 1, 1, requirements=not_on_host_3), large]
    result = planned([anti_affinity(RACK, limit=2)], group, tight)
    assert [(move.member == "large", move.source, move.destination) for move in result.moves] == [
        (True, 2, 3),
        (False, 1, 2),
    ]
    assert (result.optimal, result.after) == (True, ())


def member(name: str, on: int, vcpus: int, *only: int) -> Member:
    requirements = HostRequirements(only_hosts=frozenset(map(HostId, only)) if only else None)
    return Member(name, HostId(on), server_resources(vcpus, 1, 1), requirements, movable=True)


def test_contested_capacity_goes_to_the_move_that_enables_others() -> None:
    """If the small members moved to rack 3 first, `y` would not fit there and its host would stay full for `z`."""
    where = fleet(
        host(1, (3, 9, 9), (3, 3, 3)),
        host(2, (3, 9, 9), (2, 1, 1)),
        host(3, (5, 9, 9), (3, 1, 1)),
        *(domain(n, n) for n in (1, 2, 3)),
    )
    group = [member("p", 1, 1), member("q", 1, 1), member("r", 1, 1), member("y", 2, 2), member("z", 3, 3, 2, 3)]
    result = planned([soft_affinity(RACK, "3")], group, where)
    assert [move.member for move in result.moves[:2]] == ["y", "z"]
    assert {move.member for move in result.moves[2:]} == {"p", "q", "r"}
    assert (result.blocked, result.optimal) == ((), True)


TIGHT: list[PlainHost | PlainAggregate] = [
    host(1, (2, 9, 9), (2, 1, 1)),
    host(2, (2, 9, 9), (2, 2, 2)),
    domain(1, 1),
    domain(2, 2),
]
SWAP = [member("large", 1, 2), member("s1", 2, 1), member("s2", 2, 1)]


def test_swap_without_a_possible_order_is_reported_as_left() -> None:
    result = planned([soft_affinity(RACK, "1")], SWAP, fleet(*TIGHT))
    assert result.moves == ()
    assert {(move.member, move.destination) for move in result.blocked} == {("large", 2), ("s1", 1), ("s2", 1)}
    assert not result.optimal
    assert result.after == result.before


def test_free_capacity_is_checked_per_host_and_not_per_rack() -> None:
    """Six VCPUs are free in rack 2, in pieces of one and two: two large members fit, not three."""
    pieces: list[PlainHost] = [host(n, (size, 99, 99)) for n, size in ((2, 2), (3, 1), (4, 1), (5, 2))]
    where = fleet(host(1, (99, 99, 99), (8, 4, 4)), *pieces, domain(1, 1), domain(2, 2, 3, 4, 5))
    large = [Member(f"l{n}", HostId(1), server_resources(2, 1, 1), HostRequirements(), movable=True) for n in range(3)]
    small = [Member(f"s{n}", HostId(1), server_resources(1, 1, 1), HostRequirements(), movable=True) for n in range(2)]
    result = planned([affinity(RACK, "2")], [*large, *small], where)
    assert len(result.moves) == 4
    assert (result.optimal, result.blocked) == (True, ())
    assert len(result.after[0].members) == 1


def test_planning_leaves_the_fleet_unchanged() -> None:
    before = SIXTEEN.free.copy()
    planned([anti_affinity()], members(1, 1, 1), SIXTEEN)
    assert (SIXTEEN.free == before).all()
    assert SIXTEEN.static_masks == {}


# Size


@pytest.mark.parametrize(
    ("policies", "moves"),
    [
        ([soft_anti_affinity(RACK)], 400),
        ([anti_affinity()], 400),
        ([soft_anti_affinity(RACK), soft_anti_affinity()], 400),
        ([affinity(RACK)], 965),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else str(value),
)
def test_plan_for_1000_members_on_1000_hosts_is_optimal(policies: list[GroupPolicy], moves: int) -> None:
    where = fleet(
        *hosts(1000, (1000, 1 << 20, 10_000)), *(domain(r + 1, *range(20 * r + 1, 20 * r + 21)) for r in range(50))
    )
    result = planned(policies, members(*(1 + i * 7 % 600 for i in range(1000))), where)
    assert (len(result.moves), result.bound, result.optimal, result.after) == (moves, moves, True, ())


# Hosts that are many machines


@pytest.mark.parametrize(
    ("policy", "at", "moves"),
    [
        pytest.param(anti_affinity(), (1, 1, 2, 2), [(2, 3)], id="anti-affinity"),
        pytest.param(anti_affinity(limit=2), (1, 2, 2, 2), [(2, 3)], id="anti-affinity, and room on the exempt host"),
        pytest.param(soft_anti_affinity(), (1, 1, 1, 2, 2), [(2, 3)], id="soft anti-affinity"),
        pytest.param(affinity(), (1, 1, 2), [(2, 1)], id="affinity"),
        pytest.param(affinity(), (1, 2, 2), [(2, 1), (2, 1)], id="affinity: those on the exempt host stay"),
    ],
)
def test_members_elsewhere_are_rebalanced_and_those_on_an_exempt_host_stay(
    policy: GroupPolicy, at: tuple[int, ...], moves: list[tuple[int, int]]
) -> None:
    group = members(*at, stuck=[number for number, on in enumerate(at) if on == 1])
    where, exempt = fleet(*hosts(3)), frozenset({HostId(1)})
    result = plan([policy], group, where, 7, timeout_s=60, exempt=exempt)
    assert [(move.source, move.destination) for move in result.moves] == moves
    assert (bool(result.before), result.after, result.optimal) == (True, (), True)
    assert is_still_valid([policy], group, where, result.moves, exempt)


# Validity of an existing plan


def test_plan_stays_valid_while_its_moves_are_allowed() -> None:
    group = members(1, 1, 1)
    moves = [Move("m0000", HostId(1), HostId(2)), Move("m0001", HostId(1), HostId(3))]
    assert is_still_valid([anti_affinity()], group, fleet(*hosts(3)), moves)
    assert is_still_valid([anti_affinity()], group, fleet(*hosts(3)), moves[1:])


@pytest.mark.parametrize(
    ("policies", "group", "where"),
    [
        ([anti_affinity()], members(1, 2), fleet(*hosts(3))),
        ([anti_affinity()], members(2, 2), fleet(*hosts(3))),
        ([anti_affinity()], members(1, 1, 3), fleet(*hosts(3))),
        ([anti_affinity()], members(1, 1, stuck=[0]), fleet(*hosts(3))),
        ([anti_affinity()], members(1, 1), fleet(*hosts(2), host(3, used=(8, 0, 0)))),
        ([anti_affinity()], members(1, 1), fleet(*hosts(2), host(3, enabled=False))),
        ([anti_affinity()], members(1, 1), fleet(*hosts(2))),
        ([affinity()], members(1, 1), fleet(*hosts(3))),
        ([anti_affinity()], [], fleet(*hosts(3))),
    ],
    ids=[
        "already repaired",
        "member moved",
        "host taken",
        "member unmovable",
        "host full",
        "host disabled",
        "host deleted",
        "violates another policy",
        "no members",
    ],
)
def test_plan_becomes_invalid(policies: list[GroupPolicy], group: list[Member], where: Fleet) -> None:
    assert not is_still_valid(policies, group, where, [Move("m0000", HostId(1), HostId(3))])


# Any resource class, on hosts and in provider trees

GPU = "CUSTOM_GPU"
ONE_GPU = Resources({"VCPU": 1, GPU: 1})


def with_gpus(held: list[Mapping[int, int]], amounts: Resources = ONE_GPU, **fields: Any) -> list[Member]:
    """Return members that hold GPUs of providers, by id; the first key of each is their host, which serves the rest."""
    rest = amounts.without(GPU)
    return [
        Member(
            f"m{i:04}",
            HostId(next(iter(gpus))),
            amounts,
            ANYWHERE,
            movable=True,
            held={
                provider: Resources({**(rest if provider == next(iter(gpus)) else {}), GPU: number})
                for provider, number in gpus.items()
            },
            **fields,
        )
        for i, gpus in enumerate(held)
    ]


def used(where: Fleet, group: list[Member]) -> Fleet:
    """Let the members take what they hold."""
    where.take_all(use for member in group for use in (member.held or {}).items())
    return where


def test_member_moves_to_a_host_that_has_its_custom_class_free() -> None:
    group = with_gpus([{1: 1}, {1: 1}])
    where = used(provider_fleet(*(provider(n, VCPU=8, CUSTOM_GPU=free) for n, free in ((1, 2), (2, 0), (3, 1)))), group)
    result = planned([anti_affinity()], group, where)
    assert [(move.source, move.destination) for move in result.moves] == [(1, 3)]
    assert (result.after, result.optimal) == ((), True)


def test_member_stays_if_no_host_has_its_custom_class_free() -> None:
    group = with_gpus([{1: 1}, {1: 1}])
    where = used(provider_fleet(provider(1, VCPU=8, CUSTOM_GPU=2), provider(2, VCPU=8)), group)
    result = planned([anti_affinity()], group, where)
    assert (result.moves, len(result.after)) == ((), 1)


def test_member_moves_to_a_host_whose_card_is_free() -> None:
    """Hosts 1 to 3 with cards 4 to 6, of which another server holds number 5."""
    group = with_gpus([{1: 0, 4: 1}, {1: 0, 4: 1}])
    where = used(provider_fleet(*hosts_with_cards(3, {GPU: 2})), group)
    where.take_all([(5, Resources({GPU: 2}))])
    result = planned([anti_affinity()], group, where)
    assert [(move.source, move.destination) for move in result.moves] == [(1, 3)]
    assert (result.after, result.optimal) == ((), True)


def test_members_fill_the_cards_of_a_host_and_no_more() -> None:
    group = with_gpus([{1: 0, 4: 1}] * 4)
    where = used(provider_fleet(*hosts_with_cards(3, {GPU: 4}), racks={1: 7, 2: 8, 3: 8}), group)
    where.take_all([(5, Resources({GPU: 3})), (6, Resources({GPU: 4}))])
    result = planned([soft_anti_affinity(RACK)], group, where)
    assert [move.destination for move in result.moves] == [2]


def test_planned_move_is_valid_as_long_as_a_card_of_its_destination_is_free() -> None:
    """Hosts 1 and 2 with cards 3 and 4."""
    group, step = with_gpus([{1: 0, 3: 1}, {1: 0, 3: 1}]), [Move("m0000", HostId(1), HostId(2))]
    where = used(provider_fleet(*hosts_with_cards(2, {GPU: 2}), racks={1: 7, 2: 8}), group)
    for expected in (True, True, False):
        assert is_still_valid([anti_affinity(RACK)], group, where, step) is expected
        where.take_all([(4, Resources({GPU: 1}))])


def test_plan_avoids_trees_whose_providers_do_not_combine() -> None:
    """The cards of hosts 2 to 4 have one of two required traits each, and host 5 has one itself."""
    needs = HostRequirements(required_traits=frozenset({"CUSTOM_A", "CUSTOM_B"}))
    cards = [
        each
        for n in (2, 3, 4)
        for each in (
            provider(n, VCPU=8),
            provider(10 * n, n, traits=["CUSTOM_A"], CUSTOM_GPU=1),
            provider(10 * n + 1, n, traits=["CUSTOM_B"], CUSTOM_GPU=1),
        )
    ]
    good = [
        each
        for n in (1, 5)
        for each in (provider(n, VCPU=8, traits=["CUSTOM_A"]), provider(10 * n, n, traits=["CUSTOM_B"], CUSTOM_GPU=2))
    ]
    group = [replace(member, requirements=needs) for member in with_gpus([{1: 0, 10: 1}, {1: 0, 10: 1}])]
    where = used(provider_fleet(*good, *cards, racks={n: n for n in range(1, 6)}), group)
    result = planned([anti_affinity(RACK)], group, where)
    assert [(move.source, move.destination) for move in result.moves] == [(1, 5)]
    assert (result.after, result.blocked) == ((), ())


def test_moves_between_hosts_of_one_pool_need_its_room_twice() -> None:
    """A member holds its place until it has arrived."""
    amounts = Resources({"VCPU": 1, "DISK_GB": 10})
    group = [
        Member(
            f"m{i}",
            HostId(1),
            amounts,
            ANYWHERE,
            movable=True,
            held={1: Resources({"VCPU": 1}), 9: Resources({"DISK_GB": 10})},
        )
        for i in range(2)
    ]
    for free, moves in ((9, 0), (10, 1)):
        pool = provider(9, traits=[SHARES], pool="pool", DISK_GB=20 + free)
        where = used(provider_fleet(*(provider(n, VCPU=8, pool="pool") for n in (1, 2)), pool), group)
        assert len(planned([anti_affinity()], group, where).moves) == moves


def test_granular_groups_are_served_apart_at_the_destination() -> None:
    pair = tuple(GranularGroup(suffix, Resources({GPU: 1})) for suffix in "12")
    cpu = Resources({"VCPU": 1})
    held = {1: cpu, 4: Resources({GPU: 1}), 5: Resources({GPU: 1})}
    group = [
        Member(f"m{i}", HostId(1), cpu, ANYWHERE, movable=True, granular=pair, isolate=True, held=held)
        for i in range(2)
    ]
    where = used(provider_fleet(*hosts_with_cards(3, {GPU: 2}, {GPU: 2})), group)
    where.take_all([(6, Resources({GPU: 2}))])  # one card of host 2 is full
    result = planned([anti_affinity()], group, where)
    assert [move.destination for move in result.moves] == [3]
