"""Many servers in one decision: each sees the ones before it."""

from collections import Counter

import pytest

from covey.model.groups import GroupPolicy
from covey.scheduler.decide import decide
from covey.scheduler.explain import explain
from covey.scheduler.fleet import Weights
from tests.unit.scheduler.fleets import (
    RACK,
    SWITCH,
    apart,
    domain,
    fleet,
    host,
    hosts,
    rather_apart,
    rather_together,
    spec,
    together,
)

SEEDS = range(20)


def test_three_a_host_on_two_hosts_is_six_and_the_seventh_is_refused() -> None:
    two = fleet(*hosts(2))
    decision = decide(spec(apart(limit=3), count=6, minimum=6), two, 1)
    assert Counter(decision.chosen) == {1: 3, 2: 3}
    seventh = spec(apart(limit=3), places={1: 3, 2: 3})
    assert decide(seventh, two, 1).chosen == ()
    assert explain(seventh, two).sentence() == "of 2 hosts: 2 already hold 3 of the group"


COUNTS = {
    "all of them": (6, 6, 6),
    "as many as fit": (9, 1, 6),
    "as many as fit, when that is the minimum": (9, 6, 6),
    "none below the minimum": (9, 7, 0),
    "no more than asked for": (4, 1, 4),
}


@pytest.mark.parametrize(("count", "minimum", "placed"), COUNTS.values(), ids=COUNTS)
def test_how_many_are_placed(count: int, minimum: int, placed: int) -> None:
    decision = decide(spec(vcpus=4, count=count, minimum=minimum), fleet(*hosts(3)), 1)
    assert len(decision.chosen) == placed
    assert len(decision.fitting) == min(count, 6)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("count", [1, 4, 7, 12])
def test_an_even_spread_is_even_at_every_step_whatever_the_weighers_think(count: int, seed: int) -> None:
    uneven = fleet(host(1), host(2, used=(4, 4096, 50)), host(3, (32, 65536, 900)), host(4, used=(1, 0, 0)))
    chosen = decide(spec(rather_apart(), count=count), uneven, seed).chosen
    for placed in range(1, count + 1):
        held: Counter[int] = Counter(chosen[:placed])
        assert max(held.values()) - min(held[number] for number in (1, 2, 3, 4)) <= 1


def test_a_spread_levels_what_was_uneven_before() -> None:
    chosen = decide(spec(rather_apart(), places={1: 3, 2: 1}, count=5), fleet(*hosts(3)), 1).chosen
    assert Counter(chosen) == {2: 2, 3: 3}


@pytest.mark.parametrize("seed", SEEDS)
def test_where_one_rack_is_short_of_room_the_others_stay_even(seed: int) -> None:
    racks = fleet(host(1, used=(6, 0, 0)), *hosts(7)[1:], domain(1, 1), domain(2, 2, 3), domain(3, 4, 5, 6), domain(4))
    held: Counter[int] = Counter(decide(spec(rather_apart(RACK), count=13), racks, seed).chosen)
    assert held[1] == 2
    rest = held[2] + held[3], held[4] + held[5] + held[6]
    assert sorted(rest) == [5, 6]
    assert not held[7]  # in no rack: only when nothing else is left


def test_a_host_in_no_rack_is_the_last_resort() -> None:
    racks = fleet(*hosts(2, (2, 8192, 100)), domain(1, 1))
    assert decide(spec(rather_apart(RACK), count=4), racks, 1).chosen == (1, 1, 2, 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_group_stays_together_until_its_rack_is_full(seed: int) -> None:
    racks = fleet(*hosts(4, (3, 8192, 100)), domain(1, 1, 2), domain(2, 3, 4))
    chosen = decide(spec(rather_together(RACK), count=12), racks, seed).chosen
    rack_of = {1: 1, 2: 1, 3: 2, 4: 2}
    order = [rack_of[pick] for pick in chosen]
    assert order == [order[0]] * 6 + [3 - order[0]] * 6


def test_a_group_that_must_stay_together_does_not_leave_its_rack() -> None:
    racks = fleet(*hosts(4, (3, 8192, 100)), domain(1, 1, 2), domain(2, 3, 4))
    wanted = spec(together(RACK), count=12)
    decision = decide(wanted, racks, 1)
    assert len(decision.chosen) == 6
    assert set(decision.chosen) in ({1, 2}, {3, 4})
    assert explain(wanted, racks, decision.chosen).sentence() == (
        "6 of 12 fit, then of 4 hosts: 2 lack VCPUs, 2 are not in the rack of the group"
    )


def test_together_in_a_rack_and_apart_in_its_hosts() -> None:
    racks = fleet(*hosts(5), domain(1, 1, 2, 3), domain(2, 4, 5))
    for seed in SEEDS:
        chosen = decide(spec(together(RACK), apart(), count=5), racks, seed).chosen
        assert sorted(chosen) == [1, 2, 3]


HOMES: dict[str, tuple[tuple[GroupPolicy, ...], int, set[int]]] = {
    "on the host that takes it all": ((together(),), 6, {3}),
    "on the best of the hosts that take it all": ((together(),), 4, {1}),
    "on the host that takes the most, when none takes all": ((together(),), 9, {3}),
    "in the rack that takes it all, although another has the best host": ((together(RACK),), 9, {2, 3}),
    "in the rack where it is apart as well": ((together(RACK), apart()), 2, {2, 3}),
    "in the rack that has as many switches": ((together(RACK), apart(SWITCH, limit=2)), 4, {2, 3}),
    "where both ask for it": ((together(RACK), together(SWITCH)), 6, {3}),
}


@pytest.mark.parametrize(("policies", "count", "home"), HOMES.values(), ids=HOMES)
@pytest.mark.parametrize("subset", [1, 2])
def test_a_batch_that_has_to_be_together_begins_where_most_of_it_fits(
    policies: tuple[GroupPolicy, ...], count: int, home: set[int], subset: int
) -> None:
    """The first host weighs most, for its memory; it has VCPUs for four, as the second has, and the third for six."""
    three = fleet(
        host(1, (4, 90000, 1000)),
        host(2, (4, 30000, 1000)),
        host(3, (6, 20000, 1000)),
        *(domain(1, 1), domain(2, 2, 3)),
        *(domain(3, 1, 2, scope=SWITCH), domain(4, 3, scope=SWITCH)),
    )
    for seed in SEEDS:
        chosen = decide(spec(*policies, count=count), three, seed, subset).chosen
        assert set(chosen) <= ({1, 3} if subset == 2 and home == {1} else home)
        assert len(chosen) == min(count, 6) if home == {3} else count


SPREADS: dict[str, tuple[tuple[GroupPolicy, ...], int, set[int]]] = {
    "no group": ((), 1000, {3, 4}),
    "rather apart": ((rather_apart(),), 1000, {3, 4}),
    "rather apart in racks": ((rather_apart(RACK),), 1000, {3, 4}),
    "three a host at most": ((apart(limit=3),), 900, {3}),
    "three a host at most, rather apart in racks": ((apart(limit=3), rather_apart(RACK)), 900, {3}),
    "rather together": ((rather_together(),), 1000, {0, 8}),
    "ninety a rack at most": ((apart(RACK, limit=90),), 900, {3}),
    "in one rack": ((together(RACK),), 240, {0, 8}),
}


@pytest.mark.parametrize(("policies", "placed", "held"), SPREADS.values(), ids=SPREADS)
def test_a_thousand_on_three_hundred_hosts_in_ten_racks(
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
    "rather apart": (rather_apart(),),
    "rather together in racks": (rather_together(RACK),),
    "one a host, rather apart in racks": (apart(), rather_apart(RACK)),
    "two a host, five a rack, rather together below switches": (
        *(apart(limit=2), apart(RACK, limit=5)),
        rather_together(SWITCH),
    ),
    "rather apart in hosts, then in racks": (rather_apart(), rather_apart(RACK)),
    "rather together below switches, apart in racks and hosts": (
        *(rather_together(SWITCH), rather_apart(RACK)),
        rather_apart(),
    ),
    "rather apart in racks, together below switches": (rather_apart(RACK), rather_together(SWITCH)),
    "rather below one switch, apart in racks": (rather_together(SWITCH, "1001"), rather_apart(RACK)),
    "in one rack, rather apart in hosts": (together(RACK, "3"), rather_apart()),
}


@pytest.mark.parametrize("policies", MIXES.values(), ids=MIXES)
@pytest.mark.parametrize("across", [False, True], ids=["racks below switches", "racks across switches"])
def test_a_batch_goes_where_its_servers_would_have_gone_one_by_one(
    policies: tuple[GroupPolicy, ...], across: bool
) -> None:
    """No two hosts weigh the same at any time, so that there is one right answer."""
    many = [host(n, (8, 80000 + n * 7919 % 601 * 13, 1000)) for n in range(1, 602)]
    racks = [domain(n, *range(n * 20 - 19, n * 20 + 1)) for n in range(1, 31)]  # the last host is in none
    below = [range(1 + n, 602, 3) if across else range(1 + n * 200, 201 + n * 200) for n in range(3)]
    switches = [domain(1001 + n, *hosts, scope=SWITCH) for n, hosts in enumerate(below)]
    whole = fleet(*many, *racks, *switches, weights=Weights(cpu=0, disk=0))
    places: Counter[int] = Counter({5: 1, 300: 2})
    batch = decide(spec(*policies, places=places, count=100), whole, 1).chosen
    one_by_one = []
    for _ in batch:
        (pick,) = decide(spec(*policies, places=dict(places)), whole, 1).chosen
        one_by_one.append(pick)
        whole.take_for([pick], spec().amounts)
        places[pick] += 1
    assert len(batch) == 100
    assert list(batch) == one_by_one


def test_a_batch_takes_the_roomiest_first_and_every_host_in_the_end() -> None:
    many = fleet(*(host(n, (n % 7 + 1, 8192, 1000)) for n in range(1, 501)))
    chosen = decide(spec(apart(), count=500, minimum=500), many, 3).chosen
    assert sorted(chosen) == list(range(1, 501))
    rooms = [(pick % 7 + 1) for pick in chosen]
    assert rooms == sorted(rooms, reverse=True)


@pytest.mark.parametrize("subset", [1, 2])
def test_a_small_batch_sees_the_last_of_many_hosts(subset: int) -> None:
    """All the roomy hosts are in one rack, and it takes one; the rest go to the lowest-ranked hosts."""
    roomy = [host(n, (8, 9000 + n, 100)) for n in range(1, 401)]
    small = [host(401, (1, 1024, 10)), host(402, (1, 1024, 11))]
    many = fleet(*roomy, *small, domain(1, *range(1, 401)), domain(2, 401), domain(3, 402))
    chosen = decide(spec(apart(RACK), count=4), many, 3, subset).chosen
    assert chosen[0] in ({400} if subset == 1 else {399, 400})
    assert sorted(chosen[1:]) == [401, 402]


def test_a_few_of_the_best_are_drawn_from_at_every_step() -> None:
    rising = fleet(*(host(n, (n, 8192, 100)) for n in range(1, 6)))
    firsts = Counter(decide(spec(), rising, seed, 3).chosen[0] for seed in range(300))
    assert set(firsts) == {3, 4, 5}
    assert min(firsts.values()) > 60
    assert len({decide(spec(apart(), count=5), rising, seed, 5).chosen for seed in range(100)}) > 20


def test_a_subset_larger_than_the_fleet_is_the_fleet() -> None:
    assert sorted(decide(spec(apart(), count=3), fleet(*hosts(3)), 1, 50).chosen) == [1, 2, 3]
