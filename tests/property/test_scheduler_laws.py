"""Decisions of the scheduler equal those of the reference, for any fleet and any group."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from covey.model.groups import HOST, GroupPolicy, GroupView, PolicyKind, ScopeRef
from covey.model.ids import HostId, ProjectId, ScopeId
from covey.model.inventory import NO_UNIT_LIMITS, AllocationUnits
from covey.model.resources import server_resources
from covey.scheduler.decide import allowed_hosts, decide
from covey.scheduler.explain import explain, host_reasons
from covey.scheduler.fleet import Fleet, Weights
from covey.scheduler.request_spec import HostRequirements, RequestSpec
from tests.budgets import examples
from tests.plain_fleets import PlainAggregate, PlainHost, plain_amounts, plain_fleet
from tests.property import reference

law = settings(max_examples=examples(200), deadline=None, derandomize=True)
wide_law, slow_law = settings(law, max_examples=examples(400)), settings(law, max_examples=examples(80))

SCOPES = [ScopeRef(ScopeId(f"id-of-{name}"), name) for name in ("rack", "switch", "row")]
PROJECTS = [ProjectId("web"), ProjectId("shop")]
TRAITS = ["CUSTOM_A", "CUSTOM_B"]
UNKNOWN_HOST = HostId(77)  # not in the fleet
FIRST_AGGREGATE = 9001  # larger than any count in a sentence


@dataclass(frozen=True)
class World:
    """A fleet and a request."""

    spec: RequestSpec
    hosts: tuple[PlainHost, ...]
    aggregates: tuple[PlainAggregate, ...]
    weights: Weights

    def fleet(self) -> Fleet:
        return plain_fleet(self.hosts, self.aggregates, self.weights)

    def feasible(self) -> set[HostId]:
        return reference.feasible(self.spec, self.hosts, self.aggregates)

    def best(self) -> set[HostId]:
        return reference.best(self.spec, self.hosts, self.aggregates, self.weights)


def amounts(least: int, most: int) -> st.SearchStrategy[tuple[int, int, int]]:
    return st.tuples(*[st.integers(least, most)] * 3)


@st.composite
def draw_hosts(draw: st.DrawFn, sizes: Sequence[int], least: int) -> tuple[PlainHost, ...]:
    """Draw hosts of few shapes, so that some are equal; some are overcommitted, disabled or down."""
    size = draw(st.integers(least, 8))
    room = st.tuples(*[st.sampled_from(sizes)] * 3)
    use = st.sampled_from([(0, 0, 0), (1, 0, 0), (0, 2, 1), (2, 2, 2), (3, 1, 9), (9, 5, 4)])
    shapes = [((max(sizes),) * 3, (1, 1, 1)), *draw(st.lists(st.tuples(room, use), max_size=2))]
    shape_of = draw(st.lists(st.sampled_from(shapes), min_size=size, max_size=size))
    off, down, zoned = (draw(few) for few in [st.sets(st.integers(1, 8), max_size=2)] * 3)
    plain = draw(st.sets(st.integers(1, 8), max_size=3))
    limited = draw(st.sets(st.integers(1, 8), max_size=2))
    units = draw(
        st.sampled_from([NO_UNIT_LIMITS, AllocationUnits(2, 4, 2), AllocationUnits(1, 1, 1), AllocationUnits(3)])
    )
    return tuple(
        PlainHost(
            HostId(n),
            f"node-{n}",
            capacity,
            used,
            n not in off,
            n not in down,
            "az-1" if n in zoned else None,
            frozenset(TRAITS[n in plain :]),
            (units if n in limited else NO_UNIT_LIMITS, NO_UNIT_LIMITS, units if n in zoned else NO_UNIT_LIMITS),
        )
        for n, (capacity, used) in enumerate(shape_of, 1)
    )


@st.composite
def draw_aggregates(draw: st.DrawFn, hosts: Sequence[PlainHost]) -> tuple[PlainAggregate, ...]:
    """Draw domains of up to three scopes, and plain aggregates. A host is in one domain, in none, or rarely in two."""
    ids = [host.id for host in hosts]
    found: list[tuple[ScopeId | None, set[HostId]]] = []
    for scope in SCOPES[: draw(st.integers(0, 3))]:
        domains: list[set[HostId]] = [set() for _ in range(draw(st.sampled_from([2, 3, 1, 0])))]
        in_none, in_two = draw(st.sets(st.integers(1, 8), max_size=2)), draw(st.sets(st.integers(1, 8), max_size=2))
        for host in ids if domains else []:
            first = draw(st.integers(0, len(domains) - 1))
            for number in [] if host in in_none else [first, first + 1] if host in in_two else [first]:
                domains[number % len(domains)].add(host)
        found += [(scope.id, domain) for domain in domains]
    found += [
        (None, part) for part in draw(st.lists(st.sets(st.sampled_from([*ids, UNKNOWN_HOST]), max_size=4), max_size=2))
    ]
    closed = draw(st.dictionaries(st.integers(0, 8), st.frozensets(st.sampled_from(TRAITS)), max_size=1))
    kept = draw(st.dictionaries(st.integers(0, 8), st.frozensets(st.sampled_from(PROJECTS)), max_size=2))
    return tuple(
        PlainAggregate(
            FIRST_AGGREGATE + number,
            f"uuid-{number}",
            frozenset(members),
            scope,
            kept.get(number, frozenset()),
            closed.get(number, frozenset()),
        )
        for number, (scope, members) in enumerate(found)
    )


@st.composite
def draw_policies(
    draw: st.DrawFn, hosts: Sequence[PlainHost], aggregates: Sequence[PlainAggregate]
) -> tuple[GroupPolicy, ...]:
    """Draw any mix of policies, also combinations that the API rejects: decisions on them must be correct too."""
    found: list[GroupPolicy] = []
    known = [scope for scope in SCOPES if any(scope.id == aggregate.scope for aggregate in aggregates)]
    for _ in range(draw(st.integers(0, 4))):
        kind, scope = draw(st.sampled_from(PolicyKind)), draw(st.sampled_from([HOST, HOST, *known, *known, *SCOPES]))
        names = [h.name for h in hosts] if scope is HOST else [str(a.id) for a in aggregates if a.scope == scope.id]
        target = draw(st.sampled_from([*names, *names, "elsewhere"])) if draw(st.integers(0, 2)) == 0 else None
        found.append(GroupPolicy(kind, scope, target, draw(st.integers(1, 3))))
    return tuple(found)


def migrations_among(hosts: Sequence[PlainHost]) -> st.SearchStrategy[tuple[tuple[int, int], ...]]:
    """Draw mostly no moving members; each moving member has two hosts."""
    ids = [*(host.id for host in hosts), UNKNOWN_HOST]
    pairs = [(a, b) for a in ids for b in ids if a != b] or [(UNKNOWN_HOST, HostId(UNKNOWN_HOST + 1))]
    return st.sampled_from([0, 0, 0, 1, 2]).flatmap(
        lambda most: st.lists(st.sampled_from(pairs), max_size=most).map(tuple)
    )


@st.composite
def draw_requirements(draw: st.DrawFn, hosts: Sequence[PlainHost]) -> HostRequirements:
    """Draw mostly no requirement, or one."""
    ids = [host.id for host in hosts] + [UNKNOWN_HOST]
    few_hosts, traits = st.frozensets(st.sampled_from(ids), max_size=3), st.frozensets(st.sampled_from(TRAITS))
    special: dict[str, st.SearchStrategy[object]] = {
        "zone": st.sampled_from(["nova", "az-1", "az-2"]),
        "required_traits": traits,
        "forbidden_traits": traits,
        "only_hosts": few_hosts,
        "ignored_hosts": few_hosts,
    }
    names = draw(st.sampled_from([[], [], [], *([name] for name in special), list(special)]))
    fields: dict[str, Any] = {name: draw(special[name]) for name in names}
    return HostRequirements(draw(st.sampled_from([*PROJECTS, None])), **fields)


@st.composite
def worlds(draw: st.DrawFn, most: int = 1, sizes: Sequence[int] = (3, 8, 12), least: int = 0) -> World:
    hosts = draw(draw_hosts(sizes, least))
    aggregates = draw(draw_aggregates(hosts))
    wanted = draw(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 3)))
    members_by_host: Counter[int] = Counter(
        draw(st.lists(st.sampled_from([*(host.id for host in hosts), UNKNOWN_HOST]), max_size=6))
    )
    migrating = draw(migrations_among(hosts))
    members_by_host.update(host for pair in migrating for host in pair)
    source_host = draw(st.sampled_from([None, None, *(host.id for host in hosts)]))
    group = GroupView(draw(draw_policies(hosts, aggregates)), dict(members_by_host), migrating, source_host)
    count = draw(st.integers(1, most))
    requirements = draw(draw_requirements(hosts))
    multipliers = st.sampled_from([1.0, 1.0, 0.0, -1.0, 0.5, 3.0])
    return World(
        RequestSpec(server_resources(*wanted), count, draw(st.integers(1, count)), requirements, group),
        hosts,
        aggregates,
        Weights(draw(multipliers), draw(multipliers), draw(multipliers)),
    )


seeds = st.integers(0, 2**64 - 1)


@wide_law
@given(world=worlds())
def test_allowed_hosts_are_the_feasible_hosts_of_the_reference(world: World) -> None:
    fleet = world.fleet()
    assert set(fleet.ids[allowed_hosts(world.spec, fleet)].tolist()) == world.feasible()


@wide_law
@given(world=worlds(least=2), scope=st.sampled_from([HOST, *SCOPES]), data=st.data())
def test_affinity_of_a_moving_group_holds_for_every_outcome_of_its_moves(
    world: World, scope: ScopeRef, data: st.DataObject
) -> None:
    migrating = data.draw(migrations_among(world.hosts).filter(bool))
    resting = data.draw(st.lists(st.sampled_from([host.id for host in world.hosts]), max_size=1))
    members_by_host: Counter[int] = Counter([*resting, *(host for pair in migrating for host in pair)])
    source_host = data.draw(st.sampled_from([None, *(host.id for host in world.hosts)]))
    group = GroupView((GroupPolicy(PolicyKind.AFFINITY, scope),), dict(members_by_host), migrating, source_host)
    world = replace(world, spec=replace(world.spec, group=group, requirements=HostRequirements()))
    fleet = world.fleet()
    assert set(fleet.ids[allowed_hosts(world.spec, fleet)].tolist()) == world.feasible()


@law
@given(world=worlds(), seed=seeds)
def test_chosen_host_ranks_first(world: World, seed: int) -> None:
    decision = decide(world.spec, world.fleet(), seed)
    assert decision.candidates == len(world.feasible())
    assert decision.seed == seed
    assert len(decision.chosen) == min(1, decision.candidates)
    assert set(decision.chosen) <= world.best()


def is_order_independent(world: World) -> bool:
    """Return whether the number that fits is independent of the order.

    It is not where anti-affinity in two scopes wider than a host crosses; `test_batch_laws` covers that.
    """
    hard = [p for p in world.spec.group.policies if not p.kind.is_soft and p.target is None]
    return len({p.scope for p in hard if p.kind is PolicyKind.ANTI_AFFINITY} - {HOST}) < 2


@wide_law
@given(world=worlds(most=10).filter(is_order_independent), seed=seeds)
def test_every_host_of_a_batch_ranks_first_at_its_step(world: World, seed: int) -> None:
    decision = decide(world.spec, world.fleet(), seed)

    def check_step(step: int, best: set[HostId]) -> HostId:
        assert step < len(decision.fitting), "one more fits"
        assert decision.fitting[step] in best, f"step {step}"
        return decision.fitting[step]

    assert decision.fitting == tuple(reference.place_in_turn(world.spec, world.hosts, _best_of(world), check_step))


@law
@given(world=worlds(most=10), seed=seeds)
def test_batch_places_what_fits_up_to_its_count_and_nothing_below_its_minimum(world: World, seed: int) -> None:
    decision = decide(world.spec, world.fleet(), seed)
    assert len(decision.fitting) <= world.spec.count
    assert decision.chosen == (decision.fitting if len(decision.fitting) >= world.spec.minimum else ())


@law
@given(world=worlds(most=5), seed=seeds, subset=st.integers(1, 4), keys=st.permutations(range(8)))
def test_decision_is_deterministic_and_independent_of_the_host_order(
    world: World, seed: int, subset: int, keys: list[int]
) -> None:
    fleet = world.fleet()
    decision = decide(world.spec, fleet, seed, subset)
    assert decide(world.spec, fleet, seed, subset) == decision
    hosts = [world.hosts[key] for key in keys if key < len(world.hosts)]
    assert decide(world.spec, replace(world, hosts=tuple(hosts)).fleet(), seed, subset) == decision


@slow_law
@given(world=worlds(sizes=(8,)))
def test_every_tied_host_is_chosen_by_some_seed(world: World) -> None:
    """Sizes are powers of two, so that equal weights are equal floats."""
    fleet = world.fleet()
    assert {pick for seed in range(120) for pick in decide(world.spec, fleet, seed).chosen} == world.best()


@law
@given(world=worlds(least=1), takes=st.lists(st.tuples(st.integers(0, 7), amounts(0, 2)), max_size=4))
def test_taken_and_returned_amounts_do_not_change_a_decision(
    world: World, takes: list[tuple[int, tuple[int, int, int]]]
) -> None:
    fleet = world.fleet()
    for row, taken in takes:
        fleet.take(row % len(fleet), server_resources(*taken))
        fleet.take(row % len(fleet), server_resources(*taken) * -1)
    assert decide(world.spec, fleet, 1) == decide(world.spec, world.fleet(), 1)


@law
@given(world=worlds(least=1), which=st.integers(0, 7), seed=seeds)
def test_adding_a_copy_of_a_host_never_makes_a_request_infeasible(world: World, which: int, seed: int) -> None:
    like = world.hosts[which % len(world.hosts)]
    twin = replace(like, id=HostId(100), name="node-100")
    aggregates = tuple(
        replace(aggregate, hosts=aggregate.hosts | {twin.id}) if like.id in aggregate.hosts else aggregate
        for aggregate in world.aggregates
    )
    grown = replace(world, hosts=(*world.hosts, twin), aggregates=aggregates)
    assert bool(decide(grown.spec, grown.fleet(), seed).chosen) >= bool(decide(world.spec, world.fleet(), seed).chosen)


@law
@given(world=worlds(most=8), seed=seeds, room=amounts(0, 20))
def test_adding_an_empty_host_never_makes_a_batch_infeasible(
    world: World, seed: int, room: tuple[int, int, int]
) -> None:
    grown = replace(world, hosts=(*world.hosts, PlainHost(HostId(100), "node-100", room, (0, 0, 0))))
    before, after = (decide(w.spec, w.fleet(), seed) for w in (world, grown))
    assert len(after.fitting) >= len(before.fitting)
    assert bool(after.chosen) >= bool(before.chosen)


@law
@given(world=worlds(most=10), seed=seeds, subset=st.integers(1, 3))
def test_no_decision_exceeds_a_capacity(world: World, seed: int, subset: int) -> None:
    chosen = Counter(decide(world.spec, world.fleet(), seed, subset).chosen)
    for host in world.hosts:
        for capacity, used, wanted in zip(host.capacity, host.used, plain_amounts(world.spec.amounts), strict=True):
            taken = wanted * chosen[host.id]
            assert not taken or used + taken <= capacity


@law
@given(world=worlds(most=10), seed=seeds, subset=st.integers(1, 3))
def test_no_decision_violates_a_hard_policy(world: World, seed: int, subset: int) -> None:
    chosen = Counter(decide(world.spec, world.fleet(), seed, subset).chosen)
    for policy in world.spec.group.policies:
        if policy.kind is PolicyKind.ANTI_AFFINITY:
            _assert_anti_affinity(policy, world, chosen)
        elif policy.kind is PolicyKind.AFFINITY:
            _assert_affinity(policy, world, chosen)


def _assert_anti_affinity(policy: GroupPolicy, world: World, chosen: Counter[HostId]) -> None:
    new, before = _by_domain(policy, world, chosen), _by_domain(policy, world, world.spec.group.members_by_host)
    if policy.target is not None:
        assert not new[policy.target]
    else:
        assert all(before[domain] + count <= policy.limit for domain, count in new.items() if count)


def _assert_affinity(policy: GroupPolicy, world: World, chosen: Counter[HostId]) -> None:
    new = +_by_domain(policy, world, chosen)
    if policy.target is not None:
        assert set(new) <= {policy.target}
        return
    for later in reference.outcomes(world.spec):
        before = +_by_domain(policy, replace(world, spec=later), later.group.members_by_host)
        assert set(new) <= set(before) if before else len(new) <= 1, "for every outcome of the moves"


def _by_domain(policy: GroupPolicy, world: World, members_by_host: object) -> Counter[str]:
    """Count servers by domain. New servers on a host in two domains count in both: the policy forbids such a host."""
    assert isinstance(members_by_host, dict)
    found = Counter[str]()
    for host in world.hosts:
        domains = reference.domains_of(host, policy.scope, world.aggregates)
        for domain in domains if members_by_host is not world.spec.group.members_by_host or len(domains) == 1 else []:
            found[domain] += members_by_host.get(host.id, 0)
    return found


@law
@given(world=worlds(most=6), seed=seeds)
def test_explanation_counts_every_rejected_host_once(world: World, seed: int) -> None:
    fleet = world.fleet()
    placed = decide(world.spec, fleet, seed).fitting
    spec, hosts = world.spec, world.hosts
    for pick in placed:
        spec, hosts = _after(spec, hosts, pick)
    explanation = explain(world.spec, fleet, placed)
    rejected = sum((reason.rejected.astype(int) for reason in explanation.reasons), np.zeros(len(fleet), dtype=int))
    feasible = reference.feasible(spec, hosts, world.aggregates)
    assert rejected.tolist() == [int(host.id not in feasible) for host in hosts]
    assert sum(reason.count for reason in explanation.reasons) == len(hosts) - len(feasible)
    assert [r.count for r in explanation.reasons] == sorted((r.count for r in explanation.reasons), reverse=True)


@law
@given(world=worlds(most=6), seed=seeds)
def test_explanation_for_tenants_names_no_host_and_no_aggregate(world: World, seed: int) -> None:
    fleet = world.fleet()
    explanation = explain(world.spec, fleet, decide(world.spec, fleet, seed).fitting)
    for sentence in explanation.sentence(), explanation.without_numbers():
        assert "node-" not in sentence
        assert "900" not in sentence
        assert "uuid-" not in sentence


@law
@given(world=worlds())
def test_host_reasons_exist_exactly_for_infeasible_hosts(world: World) -> None:
    fleet = world.fleet()
    feasible = world.feasible()
    reasons = host_reasons(world.spec, fleet)
    assert list(reasons) == [host.name for host in world.hosts]
    assert {host.id for host in world.hosts if reasons[host.name] is None} == feasible
    assert "" not in reasons.values()


@law
@given(world=worlds(most=5).filter(is_order_independent), seed=seeds, subset=st.integers(2, 5))
def test_subset_picks_among_the_top_ranked_hosts_after_the_soft_policies(world: World, seed: int, subset: int) -> None:
    decision = decide(world.spec, world.fleet(), seed, subset)

    def check_step(step: int, few: set[HostId]) -> HostId:
        assert step < len(decision.fitting), "one more fits"
        assert decision.fitting[step] in few, f"step {step}"
        return decision.fitting[step]

    assert decision.fitting == tuple(
        reference.place_in_turn(world.spec, world.hosts, _subset_of(world, subset), check_step)
    )


@slow_law
@given(world=worlds(sizes=(8,)), subset=st.integers(2, 4))
def test_every_host_of_the_subset_is_chosen_by_some_seed(world: World, subset: int) -> None:
    fleet, few = world.fleet(), _subset_of(world, subset)(world.spec, world.hosts)
    assert {pick for seed in range(160) for pick in decide(world.spec, fleet, seed, subset).chosen} == few


@law
@given(world=worlds(most=4, least=1), which=st.integers(0, 7), seed=seeds, ignores_isolation=st.booleans())
def test_forced_request_needs_free_capacity_on_its_host_and_no_isolation(
    world: World, which: int, seed: int, *, ignores_isolation: bool
) -> None:
    host = world.hosts[which % len(world.hosts)]
    requirements = replace(
        world.spec.requirements,
        only_hosts=frozenset({host.id}),
        ignored_hosts=frozenset(),
        ignores_isolation=ignores_isolation,
    )
    spec = replace(world.spec, requirements=requirements, forced=True)
    kinds = zip(host.capacity, host.used, plain_amounts(spec.amounts), strict=True)
    fits = max(0, min((capacity - used) // wanted for capacity, used, wanted in kinds if wanted))
    fits *= all(units.allow(wanted) for units, wanted in zip(host.units, plain_amounts(spec.amounts), strict=True))
    fits *= reference.is_open(spec, host, world.aggregates)
    decision = decide(spec, world.fleet(), seed)
    assert decision.fitting == (host.id,) * min(spec.count, fits)
    reason = host_reasons(spec, world.fleet())[host.name]
    assert (reason is None) == (fits > 0)


@law
@given(
    world=worlds(least=1),
    takes=st.lists(st.tuples(st.integers(0, 7), amounts(-3, 3)), max_size=5),
    method=st.sampled_from(["single", "take_all", "take_for"]),
)
def test_fleet_after_taking_amounts_equals_a_fleet_built_with_that_usage(
    world: World, takes: list[tuple[int, tuple[int, int, int]]], method: str
) -> None:
    fleet, hosts = world.fleet(), list(world.hosts)
    allowed_hosts(world.spec, fleet)  # fills the cache, which must follow the changes
    other = fleet.copy()
    allowed_hosts(world.spec, other)
    rows = [number % len(hosts) for number, _ in takes]
    for row, (_, taken) in zip(rows, takes, strict=True):
        hosts[row] = reference.after(_with_amounts(taken, world.spec), hosts, hosts[row].id)[1][row]
        if method == "single":
            other.take(row, server_resources(*taken))
        elif method == "take_for":
            other.take_for([hosts[row].id], server_resources(*taken))
    if method == "take_all":
        pairs = zip(rows, takes, strict=True)
        other.take_all((hosts[row].id, server_resources(*taken)) for row, (_, taken) in pairs)
    _assert_equal(other, replace(world, hosts=tuple(hosts)).fleet(), world.spec)
    _assert_equal(fleet, world.fleet(), world.spec)  # changing a copy leaves the original unchanged


def _with_amounts(taken: tuple[int, int, int], spec: RequestSpec) -> RequestSpec:
    return replace(spec, amounts=server_resources(*taken))


@law
@given(world=worlds(least=1), numbers=st.lists(st.integers(1, 8), max_size=8), taken=amounts(-2, 3))
def test_take_for_subtracts_the_amounts_on_every_listed_host(
    world: World, numbers: list[int], taken: tuple[int, int, int]
) -> None:
    fleet, hosts = world.fleet(), list(world.hosts)
    allowed_hosts(world.spec, fleet)
    picks = [hosts[number % len(hosts)].id for number in numbers]
    fleet.take_for(picks, server_resources(*taken))
    for pick in picks:
        hosts = reference.after(_with_amounts(taken, world.spec), hosts, pick)[1]
    _assert_equal(fleet, replace(world, hosts=tuple(hosts)).fleet(), world.spec)


def _assert_equal(one: Fleet, other: Fleet, spec: RequestSpec) -> None:
    """Compare exactly: equal hosts must tie, whatever their history."""
    assert np.array_equal(one.free, other.free)
    assert np.array_equal(one.capacity, other.capacity)
    assert np.array_equal(one.weight, other.weight)
    assert np.array_equal(allowed_hosts(spec, one), allowed_hosts(spec, other))


def _best_of(world: World) -> Callable[[RequestSpec, reference.Hosts], set[HostId]]:
    return lambda spec, hosts: reference.best(spec, hosts, world.aggregates, world.weights)


def _subset_of(world: World, subset: int) -> Callable[[RequestSpec, reference.Hosts], set[HostId]]:
    """Return a function for the hosts that can be in the subset, however ties are broken."""

    def few(spec: RequestSpec, hosts: reference.Hosts) -> set[HostId]:
        best_hosts = reference.best_by_soft_policies(spec, hosts, world.aggregates)
        weight_of = {host.id: reference.weight(host, hosts, world.weights) for host in hosts if host.id in best_hosts}
        top_weights = sorted(weight_of.values(), reverse=True)[:subset]
        return {host for host in best_hosts if weight_of[host] >= top_weights[-1] - reference.ALMOST}

    return few


def _after(spec: RequestSpec, hosts: tuple[PlainHost, ...], pick: HostId) -> tuple[RequestSpec, tuple[PlainHost, ...]]:
    spec, later = reference.after(spec, hosts, pick)
    return spec, tuple(later)
