"""One decision: the soft policies first, then the weighers, then luck."""

import pytest

from covey.scheduler.decide import allowed, decide
from covey.scheduler.fleet import Fleet, Weights
from covey.scheduler.request_spec import HostRequirements, RequestSpec
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
    requirements,
    spec,
    together,
    who,
)

SEEDS = range(60)
RACKS = fleet(*hosts(5), domain(1, 1, 2), domain(2, 3, 4))
TORN = fleet(*hosts(3), domain(1, 1, 3), domain(2, 2, 3))
UNEQUAL = fleet(host(1, used=(4, 0, 0)), host(2), host(3, used=(1, 0, 0)))

CHOICES: dict[str, tuple[RequestSpec, Fleet, set[int]]] = {
    "an empty fleet": (spec(), fleet(), set()),
    "the one with most room": (spec(), UNEQUAL, {2}),
    "any of those with as much room": (spec(), fleet(*hosts(3), host(4, used=(1, 0, 0))), {1, 2, 3}),
    "apart, if possible, before room": (spec(rather_apart(), places={2: 1}), UNEQUAL, {3}),
    "together, if possible, before room": (spec(rather_together(), places={1: 1}), UNEQUAL, {1}),
    "where fewest are": (spec(rather_apart(), places={1: 3, 2: 2, 3: 2}), UNEQUAL, {2}),
    "where most are": (spec(rather_together(), places={1: 3, 2: 2, 3: 2}), UNEQUAL, {1}),
    "in the rack where fewest are": (spec(rather_apart(RACK), places={1: 1}), RACKS, {3, 4}),
    "in the rack where most are": (spec(rather_together(RACK), places={1: 1, 2: 1, 3: 1}), RACKS, {1, 2}),
    "in no rack is worst, also for staying apart": (spec(rather_apart(RACK), places={1: 9, 3: 9}), RACKS, {1, 2, 3, 4}),
    "in no rack is worst, also for staying together": (spec(rather_together(RACK)), RACKS, {1, 2, 3, 4}),
    "in no rack is better than nowhere": (spec(rather_apart(RACK), apart(target="n1")), fleet(*hosts(2)), {2}),
    "in a rack": (spec(rather_together(RACK, "2")), RACKS, {3, 4}),
    "outside of a rack, or in none": (spec(rather_apart(RACK, "2")), RACKS, {1, 2, 5}),
    "in the rack, though it has no room": (
        spec(rather_together(RACK, "2"), rather_apart(), vcpus=8, places={1: 1}),
        fleet(*hosts(2), host(3, used=(1, 0, 0)), domain(1, 1, 2), domain(2, 3)),
        {2},
    ),
    "the first listed policy first": (
        spec(rather_together(RACK), rather_apart(), places={1: 1}),
        RACKS,
        {2},
    ),
    "the later one breaks ties": (spec(rather_apart(), rather_together(RACK), places={1: 1}), RACKS, {2}),
    "two scopes": (
        spec(rather_apart(RACK), rather_together(SWITCH), places={1: 1}),
        fleet(*hosts(4), domain(1, 1, 2), domain(2, 3, 4), domain(7, 1, 4, scope=SWITCH)),
        {4},
    ),
    "hard policies have the last word": (spec(rather_together(), apart(), places={1: 1}), fleet(*hosts(2)), {2}),
    "a host in two racks is not outside of one of them": (spec(rather_apart(RACK, "1")), TORN, {2}),
    "a host in two racks is worst": (spec(rather_apart(RACK)), TORN, {1, 2}),
    "what is full is out": (spec(together(), places={1: 1}), fleet(host(1, used=(8, 0, 0)), host(2)), set()),
}


@pytest.mark.parametrize(("wanted", "among", "chosen"), CHOICES.values(), ids=CHOICES)
def test_the_best_are_chosen_between(wanted: RequestSpec, among: Fleet, chosen: set[int]) -> None:
    assert {pick for seed in SEEDS for pick in decide(wanted, among, seed).chosen} == chosen


WEIGHTS = {
    "all alike": (Weights(), {2}),
    "free VCPUs alone": (Weights(1.0, 0.0, 0.0), {1}),
    "free memory alone": (Weights(0.0, 1.0, 0.0), {2}),
    "free disk alone": (Weights(0.0, 0.0, 1.0), {3}),
    "nothing": (Weights(0.0, 0.0, 0.0), {1, 2, 3}),
    "little room: packing": (Weights(-1.0, -1.0, -1.0), {3}),
    "memory, much": (Weights(1.0, 10.0, 1.0), {2}),
    "little VCPU, much disk": (Weights(-1.0, 0.0, 1.0), {3}),
}
SHAPES = (host(1, used=(0, 4096, 50)), host(2, used=(2, 0, 20)), host(3, used=(6, 6144, 0)))


@pytest.mark.parametrize(("weights", "chosen"), WEIGHTS.values(), ids=WEIGHTS)
def test_operators_say_what_they_like(weights: Weights, chosen: set[int]) -> None:
    among = fleet(*SHAPES, weights=weights)
    assert {pick for seed in SEEDS for pick in decide(spec(), among, seed).chosen} == chosen


def test_negative_multipliers_fill_one_host_after_another() -> None:
    packing = fleet(*hosts(3), weights=Weights(-1.0, -1.0, -1.0))
    assert decide(spec(vcpus=2, count=12), packing, 1).chosen == tuple(
        pick for pick in dict.fromkeys(decide(spec(vcpus=2, count=12), packing, 1).chosen) for _ in range(4)
    )


def test_a_forced_host_needs_room_and_nothing_else() -> None:
    wanted = spec(
        apart(),
        together(RACK, "9"),
        places={1: 1},
        forced=True,
        requirements=HostRequirements(zone="az-9", required_traits=frozenset({"A"}), only_hosts=frozenset({1})),  # type: ignore[arg-type]
    )
    off = fleet(host(1, enabled=False, up=False), host(2), domain(3, 1, projects=frozenset({"shop"})))
    assert decide(wanted, off, 1).chosen == (1,)
    assert decide(wanted, fleet(host(1, used=(8, 0, 0)), host(2)), 1).chosen == ()
    assert decide(wanted, fleet(host(2)), 1).chosen == ()


def test_a_decision_says_how_many_would_have_done_and_by_which_seed() -> None:
    decision = decide(spec(apart(), places={1: 1}), fleet(*hosts(4)), 17)
    assert (decision.candidates, decision.seed) == (3, 17)


def test_what_a_fleet_remembers_of_one_question_it_does_not_answer_to_another() -> None:
    among = fleet(host(1, zone="az-1"), host(2), host(3))
    for _ in range(2):
        assert who(among, allowed(spec(), among)) == {1, 2, 3}
        assert who(among, allowed(requirements(zone="az-1"), among)) == {1}
        assert who(among, allowed(spec(apart(), places={2: 1}), among)) == {1, 3}
        assert who(among, allowed(spec(vcpus=9), among)) == set()
        assert who(among, allowed(requirements(other_hosts=frozenset({1})), among)) == {2, 3}


def test_what_a_fleet_remembers_is_its_own() -> None:
    before = fleet(*hosts(3))
    allowed(spec(), before)
    after = fleet(host(1, enabled=False), *hosts(3)[1:])
    assert who(after, allowed(spec(), after)) == {2, 3}
    assert who(before, allowed(spec(), before)) == {1, 2, 3}


def test_what_a_fleet_remembers_of_room_moves_with_it() -> None:
    among = fleet(*hosts(3))
    wanted, small = spec(vcpus=8), spec()
    assert who(among, allowed(wanted, among)) == {1, 2, 3}
    other = among.copy()
    other.take(0, (1, 0, 0))
    assert who(other, allowed(wanted, other)) == {2, 3}
    assert who(among, allowed(wanted, among)) == {1, 2, 3}
    among.take_for([among.hosts[1].id, among.hosts[2].id], (1, 0, 0))
    assert who(among, allowed(wanted, among)) == {1}
    among.take(1, (-1, 0, 0))
    assert who(among, allowed(wanted, among)) == {1, 2}
    assert who(among, allowed(small, among)) == {1, 2, 3}


def test_a_fleet_that_forgets_old_questions_answers_them_again() -> None:
    among = fleet(host(1, zone="az-1"), host(2))
    for number in range(600):
        assert who(among, allowed(requirements(zone=f"zone-{number}"), among)) == set()
        assert who(among, allowed(spec(memory_mb=number + 1), among)) == {1, 2}
    assert who(among, allowed(requirements(zone="az-1"), among)) == {1}
