"""Batches: each server of a decision is placed after the ones before it."""

from collections import Counter

import pytest

from covey.model.groups import GroupPolicy, ScopeRef
from covey.model.ids import ScopeId
from covey.scheduler import batch
from covey.scheduler.decide import decide
from covey.scheduler.explain import explain
from covey.scheduler.fleet import Fleet, Weights
from tests.unit.scheduler.fleets import (
    RACK,
    SWITCH,
    affinity,
    anti_affinity,
    domain,
    fleet,
    host,
    hosts,
    soft_affinity,
    soft_anti_affinity,
    spec,
)

SEEDS = range(20)


def test_limit_of_three_on_two_hosts_rejects_the_seventh_member() -> None:
    two = fleet(*hosts(2))
    decision = decide(spec(anti_affinity(limit=3), count=6, minimum=6), two, 1)
    assert Counter(decision.chosen) == {1: 3, 2: 3}
    seventh = spec(anti_affinity(limit=3), members_by_host={1: 3, 2: 3})
    assert decide(seventh, two, 1).chosen == ()
    assert explain(seventh, two).sentence() == "of 2 hosts: 2 already hold 3 of the group"


COUNTS = {
    "the whole batch fits": (6, 6, 6),
    "the batch shrinks to what fits": (9, 1, 6),
    "the minimum fits exactly": (9, 6, 6),
    "the minimum does not fit": (9, 7, 0),
    "more than the count would fit": (4, 1, 4),
}


@pytest.mark.parametrize(("count", "minimum", "placed"), COUNTS.values(), ids=COUNTS)
def test_batch_places_what_fits_between_minimum_and_count(count: int, minimum: int, placed: int) -> None:
    decision = decide(spec(vcpus=4, count=count, minimum=minimum), fleet(*hosts(3)), 1)
    assert len(decision.chosen) == placed
    assert len(decision.fitting) == min(count, 6)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("count", [1, 4, 7, 12])
def test_soft_anti_affinity_spreads_evenly_at_every_step_despite_the_weighers(count: int, seed: int) -> None:
    uneven = fleet(host(1), host(2, used=(4, 4096, 50)), host(3, (32, 65536, 900)), host(4, used=(1, 0, 0)))
    chosen = decide(spec(soft_anti_affinity(), count=count), uneven, seed).chosen
    for placed in range(1, count + 1):
        held: Counter[int] = Counter(chosen[:placed])
        assert max(held.values()) - min(held[number] for number in (1, 2, 3, 4)) <= 1


def test_soft_anti_affinity_levels_an_uneven_group() -> None:
    chosen = decide(spec(soft_anti_affinity(), members_by_host={1: 3, 2: 1}, count=5), fleet(*hosts(3)), 1).chosen
    assert Counter(chosen) == {2: 2, 3: 3}


@pytest.mark.parametrize("seed", SEEDS)
def test_spread_stays_even_over_the_racks_with_free_capacity(seed: int) -> None:
    racks = fleet(host(1, used=(6, 0, 0)), *hosts(7)[1:], domain(1, 1), domain(2, 2, 3), domain(3, 4, 5, 6), domain(4))
    held: Counter[int] = Counter(decide(spec(soft_anti_affinity(RACK), count=13), racks, seed).chosen)
    assert held[1] == 2
    rest = held[2] + held[3], held[4] + held[5] + held[6]
    assert sorted(rest) == [5, 6]
    assert not held[7]  # in no rack: a last resort


def test_host_in_no_rack_is_the_last_resort() -> None:
    racks = fleet(*hosts(2, (2, 8192, 100)), domain(1, 1))
    assert decide(spec(soft_anti_affinity(RACK), count=4), racks, 1).chosen == (1, 1, 2, 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_soft_affinity_leaves_a_rack_only_when_it_is_full(seed: int) -> None:
    racks = fleet(*hosts(4, (3, 8192, 100)), domain(1, 1, 2), domain(2, 3, 4))
    chosen = decide(spec(soft_affinity(RACK), count=12), racks, seed).chosen
    rack_of = {1: 1, 2: 1, 3: 2, 4: 2}
    order = [rack_of[pick] for pick in chosen]
    assert order == [order[0]] * 6 + [3 - order[0]] * 6


def test_affinity_never_leaves_its_rack() -> None:
    racks = fleet(*hosts(4, (3, 8192, 100)), domain(1, 1, 2), domain(2, 3, 4))
    requested = spec(affinity(RACK), count=12)
    decision = decide(requested, racks, 1)
    assert len(decision.chosen) == 6
    assert set(decision.chosen) in ({1, 2}, {3, 4})
    assert explain(requested, racks, decision.chosen).sentence() == (
        "6 of 12 fit, then of 4 hosts: 2 lack VCPUs, 2 are not in the rack of the group"
    )


def test_affinity_by_rack_combines_with_anti_affinity_by_host() -> None:
    racks = fleet(*hosts(5), domain(1, 1, 2, 3), domain(2, 4, 5))
    for seed in SEEDS:
        chosen = decide(spec(affinity(RACK), anti_affinity(), count=5), racks, seed).chosen
        assert sorted(chosen) == [1, 2, 3]


STARTS: dict[str, tuple[tuple[GroupPolicy, ...], int, set[int]]] = {
    "the host that fits the whole batch": ((affinity(),), 6, {3}),
    "the best of the hosts that fit the whole batch": ((affinity(),), 4, {1}),
    "the host that fits most when none fits the whole batch": ((affinity(),), 9, {3}),
    "the rack that fits the whole batch, not the rack of the best host": ((affinity(RACK),), 9, {2, 3}),
    "the rack that also satisfies anti-affinity by host": ((affinity(RACK), anti_affinity()), 2, {2, 3}),
    "the rack that also satisfies anti-affinity by switch": (
        (affinity(RACK), anti_affinity(SWITCH, limit=2)),
        4,
        {2, 3},
    ),
    "the host that satisfies affinity by rack and by switch": ((affinity(RACK), affinity(SWITCH)), 6, {3}),
}


@pytest.mark.parametrize(("policies", "count", "start"), STARTS.values(), ids=STARTS)
@pytest.mark.parametrize("subset", [1, 2])
def test_affinity_batch_starts_in_the_domain_that_fits_most_of_it(
    policies: tuple[GroupPolicy, ...], count: int, start: set[int], subset: int
) -> None:
    """The first host has the highest weight because of its memory. VCPUs fit four, four and six servers."""
    three = fleet(
        host(1, (4, 90000, 1000)),
        host(2, (4, 30000, 1000)),
        host(3, (6, 20000, 1000)),
        *(domain(1, 1), domain(2, 2, 3)),
        *(domain(3, 1, 2, scope=SWITCH), domain(4, 3, scope=SWITCH)),
    )
    for seed in SEEDS:
        chosen = decide(spec(*policies, count=count), three, seed, subset).chosen
        assert set(chosen) <= ({1, 3} if subset == 2 and start == {1} else start)
        assert len(chosen) == min(count, 6) if start == {3} else count


def test_affinity_batch_that_fits_in_several_racks_starts_on_the_best_host() -> None:
    racks = fleet(
        *(*hosts(3), host(4, (8, 8193, 100))), domain(1, 1, 2, 3), domain(2, 4), domain(3, 1, 2, 3, 4, scope=SWITCH)
    )
    for policies in ((affinity(RACK),), (affinity(RACK), anti_affinity(SWITCH, limit=9))):
        assert set(decide(spec(*policies, count=4), racks, 1).chosen) == {4}


SPREADS: dict[str, tuple[tuple[GroupPolicy, ...], int, set[int]]] = {
    "no group": ((), 1000, {3, 4}),
    "soft anti-affinity": ((soft_anti_affinity(),), 1000, {3, 4}),
    "soft anti-affinity by rack": ((soft_anti_affinity(RACK),), 1000, {3, 4}),
    "limit of 3 per host": ((anti_affinity(limit=3),), 900, {3}),
    "limit of 3 per host, soft anti-affinity by rack": ((anti_affinity(limit=3), soft_anti_affinity(RACK)), 900, {3}),
    "soft affinity": ((soft_affinity(),), 1000, {0, 8}),
    "limit of 90 per rack": ((anti_affinity(RACK, limit=90),), 900, {3}),
    "affinity by rack": ((affinity(RACK),), 240, {0, 8}),
}


@pytest.mark.parametrize(("policies", "placed", "held"), SPREADS.values(), ids=SPREADS)
def test_batch_of_1000_on_300_hosts_is_placed_by_its_policies(
    policies: tuple[GroupPolicy, ...], placed: int, held: set[int]
) -> None:
    racks = [domain(rack, *range(rack * 30 - 29, rack * 30 + 1)) for rack in range(1, 11)]
    many = fleet(*hosts(300), *racks)
    chosen: Counter[int] = Counter(decide(spec(*policies, count=1000), many, 7).chosen)
    assert chosen.total() == placed
    assert {chosen[number] for number in range(1, 301)} <= held | ({chosen.total() % 8} if 0 in held else set())
    assert decide(spec(*policies, count=1000, minimum=placed + 1), many, 7).chosen == ()


MIXES: dict[str, tuple[GroupPolicy, ...]] = {
    "no policy": (),
    "soft anti-affinity": (soft_anti_affinity(),),
    "soft affinity by rack": (soft_affinity(RACK),),
    "limit of 1 per host, soft anti-affinity by rack": (anti_affinity(), soft_anti_affinity(RACK)),
    "limits of 2 per host and 5 per rack, soft affinity by switch": (
        *(anti_affinity(limit=2), anti_affinity(RACK, limit=5)),
        soft_affinity(SWITCH),
    ),
    "soft anti-affinity by host, then by rack": (soft_anti_affinity(), soft_anti_affinity(RACK)),
    "soft affinity by switch, soft anti-affinity by rack and host": (
        *(soft_affinity(SWITCH), soft_anti_affinity(RACK)),
        soft_anti_affinity(),
    ),
    "soft anti-affinity by rack, soft affinity by switch": (soft_anti_affinity(RACK), soft_affinity(SWITCH)),
    "preferred switch, soft anti-affinity by rack": (soft_affinity(SWITCH, "1001"), soft_anti_affinity(RACK)),
    "required rack, soft anti-affinity by host": (affinity(RACK, "3"), soft_anti_affinity()),
}


@pytest.mark.parametrize("policies", MIXES.values(), ids=MIXES)
@pytest.mark.parametrize("across", [False, True], ids=["racks below switches", "racks across switches"])
def test_batch_equals_its_servers_placed_one_at_a_time(policies: tuple[GroupPolicy, ...], across: bool) -> None:
    """No two hosts ever have the same weight, so exactly one result is correct."""
    many = [host(n, (8, 80000 + n * 7919 % 601 * 13, 1000)) for n in range(1, 602)]
    racks = [domain(n, *range(n * 20 - 19, n * 20 + 1)) for n in range(1, 31)]  # the last host is in none
    below = [range(1 + n, 602, 3) if across else range(1 + n * 200, 201 + n * 200) for n in range(3)]
    switches = [domain(1001 + n, *hosts, scope=SWITCH) for n, hosts in enumerate(below)]
    whole = fleet(*many, *racks, *switches, weights=Weights(cpu=0, disk=0))
    members_by_host: Counter[int] = Counter({5: 1, 300: 2})
    batch = decide(spec(*policies, members_by_host=members_by_host, count=100), whole, 1).chosen
    one_by_one = []
    for _ in batch:
        (pick,) = decide(spec(*policies, members_by_host=dict(members_by_host)), whole, 1).chosen
        one_by_one.append(pick)
        whole.take_for([pick], spec().amounts)
        members_by_host[pick] += 1
    assert len(batch) == 100
    assert list(batch) == one_by_one


def test_batch_uses_hosts_with_the_most_free_capacity_first() -> None:
    many = fleet(*(host(n, (n % 7 + 1, 8192, 1000)) for n in range(1, 501)))
    chosen = decide(spec(anti_affinity(), count=500, minimum=500), many, 3).chosen
    assert sorted(chosen) == list(range(1, 501))
    capacities = [(pick % 7 + 1) for pick in chosen]
    assert capacities == sorted(capacities, reverse=True)


@pytest.mark.parametrize("subset", [1, 2])
def test_small_batch_reaches_the_lowest_ranked_hosts(subset: int) -> None:
    """All large hosts are in one rack, which takes one server; the others need the lowest-ranked hosts."""
    large = [host(n, (8, 9000 + n, 100)) for n in range(1, 401)]
    small = [host(401, (1, 1024, 10)), host(402, (1, 1024, 11))]
    many = fleet(*large, *small, domain(1, *range(1, 401)), domain(2, 401), domain(3, 402))
    chosen = decide(spec(anti_affinity(RACK), count=4), many, 3, subset).chosen
    assert chosen[0] in ({400} if subset == 1 else {399, 400})
    assert sorted(chosen[1:]) == [401, 402]


def test_subset_picks_randomly_among_the_top_ranked_hosts_at_every_step() -> None:
    rising = fleet(*(host(n, (n, 8192, 100)) for n in range(1, 6)))
    firsts = Counter(decide(spec(), rising, seed, 3).chosen[0] for seed in range(300))
    assert set(firsts) == {3, 4, 5}
    assert min(firsts.values()) > 60
    assert len({decide(spec(anti_affinity(), count=5), rising, seed, 5).chosen for seed in range(100)}) > 20


def test_subset_larger_than_the_fleet_is_the_whole_fleet() -> None:
    assert sorted(decide(spec(anti_affinity(), count=3), fleet(*hosts(3)), 1, 50).chosen) == [1, 2, 3]


ZONE = SWITCH  # zones cross racks


def crossing(*emptiest_first: int) -> Fleet:
    """Return n1 in rack 1 and zone 1, n3 in rack 2 and zone 1, n4 in rack 2 and zone 2; the first has most memory."""
    roomy = {number: 8192 - 1024 * place for place, number in enumerate(emptiest_first)}
    return fleet(
        *(host(number, (8, memory_mb, 100)) for number, memory_mb in roomy.items()),
        *(domain(1, 1), domain(2, 3, 4)),
        *(domain(11, 1, 3, scope=ZONE), domain(12, 4, scope=ZONE)),
    )


@pytest.mark.parametrize("order", [(3, 1, 4), (3, 4, 1), (1, 3, 4), (4, 3, 1)])
@pytest.mark.parametrize("subset", [1, 2])
def test_batch_in_crossing_scopes_is_placed_although_the_best_host_blocks_it(
    order: tuple[int, ...], subset: int
) -> None:
    policies = anti_affinity(RACK), anti_affinity(ZONE)
    for seed in SEEDS:
        decision = decide(spec(*policies, count=2, minimum=2), crossing(*order), seed, subset)
        assert sorted(decision.chosen) == [1, 4]
        assert decision.proved


def test_batch_in_crossing_scopes_explains_why_a_third_does_not_fit() -> None:
    requested, blocked = spec(anti_affinity(RACK), anti_affinity(ZONE), count=3, minimum=3), crossing(3, 1, 4)
    decision = decide(requested, blocked, 1)
    assert (decision.chosen, sorted(decision.fitting), decision.proved) == ((), [1, 4], True)
    assert explain(requested, blocked, decision.fitting).sentence() == (
        "2 of 3 fit, then of 3 hosts: 3 already hold 1 of the group in their rack"
    )


def test_affinity_batch_in_crossing_scopes_starts_where_most_of_it_really_fits() -> None:
    """Both rows have three racks and three zones. In the row of the best hosts, two racks are in the same zone only."""
    row = ScopeRef(ScopeId("id-of-row"), "row")
    rows = fleet(
        *(host(number, (8, 8192, 100)) for number in range(1, 6)),
        *(host(number, (8, 2048, 100)) for number in range(6, 9)),
        *(domain(1, 1, 2, 3), domain(2, 4), domain(3, 5), domain(4, 6), domain(5, 7), domain(6, 8)),
        *(domain(11, 1, 4, 5, 6, scope=ZONE), domain(12, 2, 7, scope=ZONE), domain(13, 3, 8, scope=ZONE)),
        *(domain(21, *range(1, 6), scope=row), domain(22, 6, 7, 8, scope=row)),
    )
    for seed in SEEDS:
        chosen = decide(spec(affinity(row), anti_affinity(RACK), anti_affinity(ZONE), count=3), rows, seed).chosen
        assert sorted(chosen) == [6, 7, 8]


def test_searched_batch_takes_the_best_hosts_of_each_class() -> None:
    """Rack 2 is in both zones. The search puts one server in each rack; weight and soft policies rank its hosts."""
    many = fleet(
        *(host(n, (8, 1024 * n, 100)) for n in range(1, 4)),  # rack 1, zone 1
        *(host(n, (8, 2048 * n, 100)) for n in range(4, 7)),  # rack 2, zone 1
        *(host(n, (8, 1024 * n, 100)) for n in range(7, 10)),  # rack 2, zone 2
        *(domain(1, 1, 2, 3), domain(2, *range(4, 10))),
        *(domain(11, *range(1, 7), scope=ZONE), domain(12, 7, 8, 9, scope=ZONE)),
    )
    policies = anti_affinity(RACK), anti_affinity(ZONE)
    assert set(decide(spec(*policies, count=2), many, 1).chosen) == {3, 9}
    preferred = soft_affinity(target="n7")
    assert set(decide(spec(*policies, preferred, count=2), many, 1).chosen) == {3, 7}


def test_decision_is_unproved_when_the_search_stopped_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "MAX_STEPS", 0)
    requested, blocked = spec(anti_affinity(RACK), anti_affinity(ZONE), count=2, minimum=2), crossing(3, 1, 4)
    decision = decide(requested, blocked, 1)
    assert (decision.chosen, decision.fitting, decision.proved) == ((), (3,), False)
    explanation = explain(requested, blocked, decision.fitting, proved=decision.proved)
    assert explanation.sentence().endswith("; the search for other placements stopped at its limit, more may fit")
    assert explanation.without_numbers().endswith("stopped at its limit, more may fit")
