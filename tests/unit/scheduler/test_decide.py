"""One decision: the soft policies first, then the weighers, then the tie keys."""

import pytest

from covey.model.resources import server_resources
from covey.scheduler.decide import allowed_hosts, decide
from covey.scheduler.fleet import Fleet, Weights
from covey.scheduler.request_spec import HostRequirements, RequestSpec
from tests.unit.scheduler.fleets import (
    RACK,
    SWITCH,
    affinity,
    anti_affinity,
    domain,
    fleet,
    host,
    hosts,
    hosts_in,
    requirements,
    soft_affinity,
    soft_anti_affinity,
    spec,
)

SEEDS = range(60)
RACKS = fleet(*hosts(5), domain(1, 1, 2), domain(2, 3, 4))
AMBIGUOUS = fleet(*hosts(3), domain(1, 1, 3), domain(2, 2, 3))
UNEQUAL = fleet(host(1, used=(4, 0, 0)), host(2), host(3, used=(1, 0, 0)))

CHOICES: dict[str, tuple[RequestSpec, Fleet, set[int]]] = {
    "an empty fleet": (spec(), fleet(), set()),
    "the host with the most free capacity": (spec(), UNEQUAL, {2}),
    "any of the hosts with equal free capacity": (spec(), fleet(*hosts(3), host(4, used=(1, 0, 0))), {1, 2, 3}),
    "soft anti-affinity before free capacity": (spec(soft_anti_affinity(), members_by_host={2: 1}), UNEQUAL, {3}),
    "soft affinity before free capacity": (spec(soft_affinity(), members_by_host={1: 1}), UNEQUAL, {1}),
    "the host with the fewest members": (spec(soft_anti_affinity(), members_by_host={1: 3, 2: 2, 3: 2}), UNEQUAL, {2}),
    "the host with the most members": (spec(soft_affinity(), members_by_host={1: 3, 2: 2, 3: 2}), UNEQUAL, {1}),
    "the rack with the fewest members": (spec(soft_anti_affinity(RACK), members_by_host={1: 1}), RACKS, {3, 4}),
    "the rack with the most members": (spec(soft_affinity(RACK), members_by_host={1: 1, 2: 1, 3: 1}), RACKS, {1, 2}),
    "no rack ranks last for soft anti-affinity": (
        spec(soft_anti_affinity(RACK), members_by_host={1: 9, 3: 9}),
        RACKS,
        {1, 2, 3, 4},
    ),
    "no rack ranks last for soft affinity": (spec(soft_affinity(RACK)), RACKS, {1, 2, 3, 4}),
    "no rack is chosen when nothing else is feasible": (
        spec(soft_anti_affinity(RACK), anti_affinity(target="n1")),
        fleet(*hosts(2)),
        {2},
    ),
    "preferred rack": (spec(soft_affinity(RACK, "2")), RACKS, {3, 4}),
    "avoided rack, or no rack": (spec(soft_anti_affinity(RACK, "2")), RACKS, {1, 2, 5}),
    "preferred rack without free capacity is skipped": (
        spec(soft_affinity(RACK, "2"), soft_anti_affinity(), vcpus=8, members_by_host={1: 1}),
        fleet(*hosts(2), host(3, used=(1, 0, 0)), domain(1, 1, 2), domain(2, 3)),
        {2},
    ),
    "the first policy ranks first": (
        spec(soft_affinity(RACK), soft_anti_affinity(), members_by_host={1: 1}),
        RACKS,
        {2},
    ),
    "the second policy breaks ties of the first": (
        spec(soft_anti_affinity(), soft_affinity(RACK), members_by_host={1: 1}),
        RACKS,
        {2},
    ),
    "two scopes": (
        spec(soft_anti_affinity(RACK), soft_affinity(SWITCH), members_by_host={1: 1}),
        fleet(*hosts(4), domain(1, 1, 2), domain(2, 3, 4), domain(7, 1, 4, scope=SWITCH)),
        {4},
    ),
    "hard policies override soft ones": (
        spec(soft_affinity(), anti_affinity(), members_by_host={1: 1}),
        fleet(*hosts(2)),
        {2},
    ),
    "a host in two racks is not outside the avoided rack": (spec(soft_anti_affinity(RACK, "1")), AMBIGUOUS, {2}),
    "a host in two racks ranks last": (spec(soft_anti_affinity(RACK)), AMBIGUOUS, {1, 2}),
    "a full host is rejected": (
        spec(affinity(), members_by_host={1: 1}),
        fleet(host(1, used=(8, 0, 0)), host(2)),
        set(),
    ),
}


@pytest.mark.parametrize(("requested", "candidates", "chosen"), CHOICES.values(), ids=CHOICES)
def test_choice_is_among_the_best_hosts(requested: RequestSpec, candidates: Fleet, chosen: set[int]) -> None:
    assert {pick for seed in SEEDS for pick in decide(requested, candidates, seed).chosen} == chosen


WEIGHTS = {
    "equal weights": (Weights(), {2}),
    "only free VCPUs": (Weights(1.0, 0.0, 0.0), {1}),
    "only free memory": (Weights(0.0, 1.0, 0.0), {2}),
    "only free disk": (Weights(0.0, 0.0, 1.0), {3}),
    "no weight": (Weights(0.0, 0.0, 0.0), {1, 2, 3}),
    "negative weights pack": (Weights(-1.0, -1.0, -1.0), {3}),
    "mostly free memory": (Weights(1.0, 10.0, 1.0), {2}),
    "few free VCPUs, much free disk": (Weights(-1.0, 0.0, 1.0), {3}),
}
SHAPES = (host(1, used=(0, 4096, 50)), host(2, used=(2, 0, 20)), host(3, used=(6, 6144, 0)))


@pytest.mark.parametrize(("weights", "chosen"), WEIGHTS.values(), ids=WEIGHTS)
def test_weights_rank_hosts(weights: Weights, chosen: set[int]) -> None:
    candidates = fleet(*SHAPES, weights=weights)
    assert {pick for seed in SEEDS for pick in decide(spec(), candidates, seed).chosen} == chosen


def test_negative_multipliers_fill_one_host_after_another() -> None:
    packing = fleet(*hosts(3), weights=Weights(-1.0, -1.0, -1.0))
    assert decide(spec(vcpus=2, count=12), packing, 1).chosen == tuple(
        pick for pick in dict.fromkeys(decide(spec(vcpus=2, count=12), packing, 1).chosen) for _ in range(4)
    )


def test_forced_host_needs_free_capacity_and_no_isolation() -> None:
    requested = spec(
        anti_affinity(),
        affinity(RACK, "9"),
        members_by_host={1: 1},
        forced=True,
        requirements=HostRequirements(zone="az-9", required_traits=frozenset({"A"}), only_hosts=frozenset({1})),  # type: ignore[arg-type]
    )
    off = fleet(host(1, enabled=False, up=False), host(2))
    assert decide(requested, off, 1).chosen == (1,)
    assert decide(requested, fleet(host(1, used=(8, 0, 0)), host(2)), 1).chosen == ()
    assert decide(requested, fleet(host(2)), 1).chosen == ()
    reserved = domain(3, 1, projects=frozenset({"shop"}))
    assert decide(requested, fleet(host(1), host(2), reserved), 1).chosen == ()


def test_decision_records_the_candidate_count_and_the_seed() -> None:
    decision = decide(spec(anti_affinity(), members_by_host={1: 1}), fleet(*hosts(4)), 17)
    assert (decision.candidates, decision.seed) == (3, 17)


def test_cached_mask_applies_only_to_an_equal_request() -> None:
    candidates = fleet(host(1, zone="az-1"), host(2), host(3))
    for _ in range(2):
        assert hosts_in(candidates, allowed_hosts(spec(), candidates)) == {1, 2, 3}
        assert hosts_in(candidates, allowed_hosts(requirements(zone="az-1"), candidates)) == {1}
        assert hosts_in(candidates, allowed_hosts(spec(anti_affinity(), members_by_host={2: 1}), candidates)) == {1, 3}
        assert hosts_in(candidates, allowed_hosts(spec(vcpus=9), candidates)) == set()
        assert hosts_in(candidates, allowed_hosts(requirements(ignored_hosts=frozenset({1})), candidates)) == {2, 3}


def test_each_fleet_has_its_own_cache() -> None:
    before = fleet(*hosts(3))
    allowed_hosts(spec(), before)
    after = fleet(host(1, enabled=False), *hosts(3)[1:])
    assert hosts_in(after, allowed_hosts(spec(), after)) == {2, 3}
    assert hosts_in(before, allowed_hosts(spec(), before)) == {1, 2, 3}


def test_cached_capacity_mask_follows_taken_and_returned_amounts() -> None:
    candidates = fleet(*hosts(3))
    requested, small = spec(vcpus=8), spec()
    assert hosts_in(candidates, allowed_hosts(requested, candidates)) == {1, 2, 3}
    other = candidates.copy()
    other.take(0, server_resources(1, 0, 0))
    assert hosts_in(other, allowed_hosts(requested, other)) == {2, 3}
    assert hosts_in(candidates, allowed_hosts(requested, candidates)) == {1, 2, 3}
    candidates.take_for([candidates.hosts[1].id, candidates.hosts[2].id], server_resources(1, 0, 0))
    assert hosts_in(candidates, allowed_hosts(requested, candidates)) == {1}
    candidates.take(1, server_resources(-1, 0, 0))
    assert hosts_in(candidates, allowed_hosts(requested, candidates)) == {1, 2}
    assert hosts_in(candidates, allowed_hosts(small, candidates)) == {1, 2, 3}


def test_evicted_mask_is_computed_again() -> None:
    candidates = fleet(host(1, zone="az-1"), host(2))
    for number in range(600):
        assert hosts_in(candidates, allowed_hosts(requirements(zone=f"zone-{number}"), candidates)) == set()
        assert hosts_in(candidates, allowed_hosts(spec(memory_mb=number + 1), candidates)) == {1, 2}
    assert hosts_in(candidates, allowed_hosts(requirements(zone="az-1"), candidates)) == {1}
