"""The laws of the scheduler: what it decides is what the design says, whatever the fleet and the group."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from covey.model.groups import HOST, GroupPolicy, GroupView, PolicyKind, ScopeRef
from covey.model.ids import HostId, ProjectId, ScopeId
from covey.model.inventory import NO_UNIT_LIMITS, AllocationUnits
from covey.scheduler.decide import allowed, decide
from covey.scheduler.explain import explain, host_reasons
from covey.scheduler.fleet import AggregateRecord, Fleet, HostRecord, Weights
from covey.scheduler.request_spec import HostRequirements, RequestSpec
from tests.budgets import examples
from tests.property import reference

law = settings(max_examples=examples(200), deadline=None, derandomize=True)
wide_law, slow_law = settings(law, max_examples=examples(400)), settings(law, max_examples=examples(80))

SCOPES = [ScopeRef(ScopeId(f"id-of-{name}"), name) for name in ("rack", "switch", "row")]
PROJECTS = [ProjectId("web"), ProjectId("shop")]
TRAITS = ["CUSTOM_A", "CUSTOM_B"]
STRANGER = HostId(77)  # a place that is no host of the fleet
FIRST_AGGREGATE = 9001  # far from any number that a sentence counts


@dataclass(frozen=True)
class World:
    """A fleet and what is wanted of it."""

    spec: RequestSpec
    hosts: tuple[HostRecord, ...]
    aggregates: tuple[AggregateRecord, ...]
    weights: Weights

    def fleet(self) -> Fleet:
        return Fleet(self.hosts, self.aggregates, self.weights)

    def feasible(self) -> set[HostId]:
        return reference.feasible(self.spec, self.hosts, self.aggregates)

    def best(self) -> set[HostId]:
        return reference.best(self.spec, self.hosts, self.aggregates, self.weights)


def amounts(least: int, most: int) -> st.SearchStrategy[tuple[int, int, int]]:
    return st.tuples(*[st.integers(least, most)] * 3)


@st.composite
def some_hosts(draw: st.DrawFn, sizes: Sequence[int], least: int) -> tuple[HostRecord, ...]:
    """Hosts of few shapes, so that some are equal; some are over-full, disabled or down."""
    size = draw(st.integers(least, 8))
    room = st.tuples(*[st.sampled_from(sizes)] * 3)
    use = st.sampled_from([(0, 0, 0), (1, 0, 0), (0, 2, 1), (2, 2, 2), (3, 1, 9), (9, 5, 4)])
    shapes = [((max(sizes),) * 3, (1, 1, 1)), *draw(st.lists(st.tuples(room, use), max_size=2))]
    shape_of = draw(st.lists(st.sampled_from(shapes), min_size=size, max_size=size))
    off, down, zoned = (draw(few) for few in [st.sets(st.integers(1, 8), max_size=2)] * 3)
    plain = draw(st.sets(st.integers(1, 8), max_size=3))
    picky = draw(st.sets(st.integers(1, 8), max_size=2))
    units = draw(
        st.sampled_from([NO_UNIT_LIMITS, AllocationUnits(2, 4, 2), AllocationUnits(1, 1, 1), AllocationUnits(3)])
    )
    return tuple(
        HostRecord(
            HostId(n),
            f"node-{n}",
            capacity,
            used,
            n not in off,
            n not in down,
            "az-1" if n in zoned else None,
            frozenset(TRAITS[n in plain :]),
            (units if n in picky else NO_UNIT_LIMITS, NO_UNIT_LIMITS, units if n in zoned else NO_UNIT_LIMITS),
        )
        for n, (capacity, used) in enumerate(shape_of, 1)
    )


@st.composite
def some_aggregates(draw: st.DrawFn, hosts: Sequence[HostRecord]) -> tuple[AggregateRecord, ...]:
    """Domains of up to three scopes, and plain aggregates. Hosts are in one domain, in none, now and then in two."""
    ids = [host.id for host in hosts]
    found: list[tuple[ScopeId | None, set[HostId]]] = []
    for scope in SCOPES[: draw(st.integers(0, 3))]:
        domains: list[set[HostId]] = [set() for _ in range(draw(st.sampled_from([2, 3, 1, 0])))]
        nowhere, in_two = draw(st.sets(st.integers(1, 8), max_size=2)), draw(st.sets(st.integers(1, 8), max_size=2))
        for host in ids if domains else []:
            first = draw(st.integers(0, len(domains) - 1))
            for number in [] if host in nowhere else [first, first + 1] if host in in_two else [first]:
                domains[number % len(domains)].add(host)
        found += [(scope.id, domain) for domain in domains]
    found += [
        (None, part) for part in draw(st.lists(st.sets(st.sampled_from([*ids, STRANGER]), max_size=4), max_size=2))
    ]
    closed = draw(st.dictionaries(st.integers(0, 8), st.frozensets(st.sampled_from(TRAITS)), max_size=1))
    kept = draw(st.dictionaries(st.integers(0, 8), st.frozensets(st.sampled_from(PROJECTS)), max_size=2))
    return tuple(
        AggregateRecord(
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
def some_policies(
    draw: st.DrawFn, hosts: Sequence[HostRecord], aggregates: Sequence[AggregateRecord]
) -> tuple[GroupPolicy, ...]:
    """Any mix, also such as nobody may have: a decision is right for those, too."""
    found: list[GroupPolicy] = []
    known = [scope for scope in SCOPES if any(scope.id == aggregate.scope for aggregate in aggregates)]
    for _ in range(draw(st.integers(0, 4))):
        kind, scope = draw(st.sampled_from(PolicyKind)), draw(st.sampled_from([HOST, HOST, *known, *known, *SCOPES]))
        names = [h.name for h in hosts] if scope is HOST else [str(a.id) for a in aggregates if a.scope == scope.id]
        target = draw(st.sampled_from([*names, *names, "elsewhere"])) if draw(st.integers(0, 2)) == 0 else None
        found.append(GroupPolicy(kind, scope, target, draw(st.integers(1, 3))))
    return tuple(found)


def some_movers(hosts: Sequence[HostRecord]) -> st.SearchStrategy[tuple[tuple[int, int], ...]]:
    """Mostly nobody moves; each who does is between two hosts."""
    ids = [*(host.id for host in hosts), STRANGER]
    pairs = [(a, b) for a in ids for b in ids if a != b] or [(STRANGER, HostId(STRANGER + 1))]
    return st.sampled_from([0, 0, 0, 1, 2]).flatmap(
        lambda most: st.lists(st.sampled_from(pairs), max_size=most).map(tuple)
    )


@st.composite
def some_standing(draw: st.DrawFn, hosts: Sequence[HostRecord]) -> HostRequirements:
    """Mostly nothing special is asked for, or one thing."""
    ids = [host.id for host in hosts] + [STRANGER]
    few_hosts, traits = st.frozensets(st.sampled_from(ids), max_size=3), st.frozensets(st.sampled_from(TRAITS))
    special: dict[str, st.SearchStrategy[object]] = {
        "zone": st.sampled_from(["nova", "az-1", "az-2"]),
        "required_traits": traits,
        "forbidden_traits": traits,
        "only_hosts": few_hosts,
        "other_hosts": few_hosts,
    }
    asked = draw(st.sampled_from([[], [], [], *([name] for name in special), list(special)]))
    fields: dict[str, Any] = {name: draw(special[name]) for name in asked}
    return HostRequirements(draw(st.sampled_from([*PROJECTS, None])), **fields)


@st.composite
def worlds(draw: st.DrawFn, most: int = 1, sizes: Sequence[int] = (3, 8, 12), least: int = 0) -> World:
    hosts = draw(some_hosts(sizes, least))
    aggregates = draw(some_aggregates(hosts))
    wanted = draw(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 3)))
    places: Counter[int] = Counter(
        draw(st.lists(st.sampled_from([*(host.id for host in hosts), STRANGER]), max_size=6))
    )
    movers = draw(some_movers(hosts))
    places.update(host for mover in movers for host in mover)
    group = GroupView(draw(some_policies(hosts, aggregates)), dict(places), movers)
    count = draw(st.integers(1, most))
    requirements = draw(some_standing(hosts))
    multipliers = st.sampled_from([1.0, 1.0, 0.0, -1.0, 0.5, 3.0])
    return World(
        RequestSpec(wanted, count, draw(st.integers(1, count)), requirements, group),
        hosts,
        aggregates,
        Weights(draw(multipliers), draw(multipliers), draw(multipliers)),
    )


seeds = st.integers(0, 2**64 - 1)


@wide_law
@given(world=worlds())
def test_who_may_is_what_the_design_says(world: World) -> None:
    fleet = world.fleet()
    assert set(fleet.ids[allowed(world.spec, fleet)].tolist()) == world.feasible()


@wide_law
@given(world=worlds(least=2), scope=st.sampled_from([HOST, *SCOPES]), data=st.data())
def test_a_group_on_the_move_stays_together_whatever_its_moves_come_to(
    world: World, scope: ScopeRef, data: st.DataObject
) -> None:
    movers = data.draw(some_movers(world.hosts).filter(bool))
    resting = data.draw(st.lists(st.sampled_from([host.id for host in world.hosts]), max_size=1))
    places: Counter[int] = Counter([*resting, *(host for mover in movers for host in mover)])
    group = GroupView((GroupPolicy(PolicyKind.AFFINITY, scope),), dict(places), movers)
    world = replace(world, spec=replace(world.spec, group=group, requirements=HostRequirements()))
    fleet = world.fleet()
    assert set(fleet.ids[allowed(world.spec, fleet)].tolist()) == world.feasible()


@law
@given(world=worlds(), seed=seeds)
def test_nobody_beats_the_chosen_one(world: World, seed: int) -> None:
    decision = decide(world.spec, world.fleet(), seed)
    assert decision.candidates == len(world.feasible())
    assert decision.seed == seed
    assert len(decision.chosen) == min(1, decision.candidates)
    assert set(decision.chosen) <= world.best()


def is_plain(world: World) -> bool:
    """Whether how many fit does not depend on the order: no two scopes wider than a host keep the group apart."""
    hard = [p for p in world.spec.group.policies if not p.kind.is_soft and p.target is None]
    wide = {p.scope for p in hard if p.kind is PolicyKind.ANTI_AFFINITY} - {HOST}
    return len(wide) < 2 or not any(p.kind is PolicyKind.AFFINITY for p in hard)


@wide_law
@given(world=worlds(most=10).filter(is_plain), seed=seeds)
def test_in_a_batch_nobody_beats_the_chosen_one_at_any_step(world: World, seed: int) -> None:
    decision = decide(world.spec, world.fleet(), seed)

    def the_same(step: int, best: set[HostId]) -> HostId:
        assert step < len(decision.fitting), "one more fits"
        assert decision.fitting[step] in best, f"step {step}"
        return decision.fitting[step]

    assert decision.fitting == tuple(reference.in_turn(world.spec, world.hosts, _best_of(world), the_same))


@law
@given(world=worlds(most=10), seed=seeds)
def test_a_batch_is_all_that_fits_up_to_its_count_or_nothing_below_its_minimum(world: World, seed: int) -> None:
    decision = decide(world.spec, world.fleet(), seed)
    assert len(decision.fitting) <= world.spec.count
    assert decision.chosen == (decision.fitting if len(decision.fitting) >= world.spec.minimum else ())


@law
@given(world=worlds(most=5), seed=seeds, subset=st.integers(1, 4), keys=st.permutations(range(8)))
def test_equal_inputs_decide_equally_in_whatever_order_the_hosts_come(
    world: World, seed: int, subset: int, keys: list[int]
) -> None:
    fleet = world.fleet()
    decision = decide(world.spec, fleet, seed, subset)
    assert decide(world.spec, fleet, seed, subset) == decision
    hosts = [world.hosts[key] for key in keys if key < len(world.hosts)]
    assert decide(world.spec, replace(world, hosts=tuple(hosts)).fleet(), seed, subset) == decision


@slow_law
@given(world=worlds(sizes=(8,)))
def test_over_many_seeds_everybody_who_ties_for_best_is_chosen(world: World) -> None:
    """With sizes that floats can divide by, so that those who weigh the same do so to the last bit."""
    fleet = world.fleet()
    assert {pick for seed in range(120) for pick in decide(world.spec, fleet, seed).chosen} == world.best()


@law
@given(world=worlds(least=1), takes=st.lists(st.tuples(st.integers(0, 7), amounts(0, 2)), max_size=4))
def test_equal_hosts_tie_whatever_happened_to_them_before(
    world: World, takes: list[tuple[int, tuple[int, int, int]]]
) -> None:
    fleet = world.fleet()
    for row, taken in takes:
        fleet.take(row % len(fleet), taken)
        fleet.take(row % len(fleet), [-amount for amount in taken])
    assert decide(world.spec, fleet, 1) == decide(world.spec, world.fleet(), 1)


@law
@given(world=worlds(least=1), which=st.integers(0, 7), seed=seeds)
def test_one_more_host_like_another_never_makes_a_possible_request_impossible(
    world: World, which: int, seed: int
) -> None:
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
def test_one_more_empty_host_never_makes_a_possible_batch_impossible(
    world: World, seed: int, room: tuple[int, int, int]
) -> None:
    """Of a group with one hard policy at most; where several pull, one after another is not the most."""
    hard = [p for p in world.spec.group.policies if not p.kind.is_soft and p.target is None]
    assume(world.spec.count == 1 or len(hard) < 2)
    grown = replace(world, hosts=(*world.hosts, HostRecord(HostId(100), "node-100", room, (0, 0, 0))))
    before, now = (decide(w.spec, w.fleet(), seed) for w in (world, grown))
    assert len(now.fitting) >= len(before.fitting)
    assert bool(now.chosen) >= bool(before.chosen)


@law
@given(world=worlds(most=10), seed=seeds, subset=st.integers(1, 3))
def test_no_decision_breaks_a_capacity(world: World, seed: int, subset: int) -> None:
    chosen = Counter(decide(world.spec, world.fleet(), seed, subset).chosen)
    for host in world.hosts:
        for capacity, used, wanted in zip(host.capacity, host.used, world.spec.amounts, strict=True):
            taken = wanted * chosen[host.id]
            assert not taken or used + taken <= capacity


@law
@given(world=worlds(most=10), seed=seeds, subset=st.integers(1, 3))
def test_no_decision_breaks_a_hard_policy(world: World, seed: int, subset: int) -> None:
    chosen = Counter(decide(world.spec, world.fleet(), seed, subset).chosen)
    for policy in world.spec.group.policies:
        if policy.kind is PolicyKind.ANTI_AFFINITY:
            _stays_apart(policy, world, chosen)
        elif policy.kind is PolicyKind.AFFINITY:
            _stays_together(policy, world, chosen)


def _stays_apart(policy: GroupPolicy, world: World, chosen: Counter[HostId]) -> None:
    new, before = _by_domain(policy, world, chosen), _by_domain(policy, world, world.spec.group.places)
    if policy.target is not None:
        assert not new[policy.target]
    else:
        assert all(before[domain] + count <= policy.limit for domain, count in new.items() if count)


def _stays_together(policy: GroupPolicy, world: World, chosen: Counter[HostId]) -> None:
    new = +_by_domain(policy, world, chosen)
    if policy.target is not None:
        assert set(new) <= {policy.target}
        return
    for later in reference.outcomes(world.spec):
        before = +_by_domain(policy, replace(world, spec=later), later.group.places)
        assert set(new) <= set(before) if before else len(new) <= 1, "whatever the moves come to"


def _by_domain(policy: GroupPolicy, world: World, places: object) -> Counter[str]:
    """Here a host in two domains is in both: no server of a group with such a policy may come to it."""
    assert isinstance(places, dict)
    found = Counter[str]()
    for host in world.hosts:
        domains = reference.domains_of(host, policy.scope, world.aggregates)
        for domain in domains if places is not world.spec.group.places or len(domains) == 1 else []:
            found[domain] += places.get(host.id, 0)
    return found


@law
@given(world=worlds(most=6), seed=seeds)
def test_an_explanation_counts_every_refused_host_once(world: World, seed: int) -> None:
    fleet = world.fleet()
    placed = decide(world.spec, fleet, seed).fitting
    spec, hosts = world.spec, world.hosts
    for pick in placed:
        spec, hosts = _after(spec, hosts, pick)
    told = explain(world.spec, fleet, placed)
    lost = sum((reason.lost.astype(int) for reason in told.reasons), np.zeros(len(fleet), dtype=int))
    may = reference.feasible(spec, hosts, world.aggregates)
    assert lost.tolist() == [int(host.id not in may) for host in hosts]
    assert sum(reason.count for reason in told.reasons) == len(hosts) - len(may)
    assert [r.count for r in told.reasons] == sorted((r.count for r in told.reasons), reverse=True)


@law
@given(world=worlds(most=6), seed=seeds)
def test_what_a_tenant_reads_names_no_host_and_no_aggregate(world: World, seed: int) -> None:
    fleet = world.fleet()
    told = explain(world.spec, fleet, decide(world.spec, fleet, seed).fitting)
    for sentence in told.sentence(), told.without_numbers():
        assert "node-" not in sentence
        assert "900" not in sentence
        assert "uuid-" not in sentence


@law
@given(world=worlds())
def test_verdicts_are_against_those_who_may_not(world: World) -> None:
    fleet = world.fleet()
    may = world.feasible()
    told = host_reasons(world.spec, fleet)
    assert list(told) == [host.name for host in world.hosts]
    assert {host.id for host in world.hosts if told[host.name] is None} == may
    assert "" not in told.values()


@law
@given(world=worlds(most=5).filter(is_plain), seed=seeds, subset=st.integers(2, 5))
def test_a_subset_draws_from_the_few_best_of_those_that_the_soft_policies_leave(
    world: World, seed: int, subset: int
) -> None:
    decision = decide(world.spec, world.fleet(), seed, subset)

    def the_same(step: int, few: set[HostId]) -> HostId:
        assert step < len(decision.fitting), "one more fits"
        assert decision.fitting[step] in few, f"step {step}"
        return decision.fitting[step]

    assert decision.fitting == tuple(reference.in_turn(world.spec, world.hosts, _few_best_of(world, subset), the_same))


@slow_law
@given(world=worlds(sizes=(8,)), subset=st.integers(2, 4))
def test_over_many_seeds_all_of_the_few_best_are_drawn(world: World, subset: int) -> None:
    fleet, few = world.fleet(), _few_best_of(world, subset)(world.spec, world.hosts)
    assert {pick for seed in range(160) for pick in decide(world.spec, fleet, seed, subset).chosen} == few


@law
@given(world=worlds(most=4, least=1), which=st.integers(0, 7), seed=seeds)
def test_a_forced_ask_needs_nothing_but_room_on_the_host_that_it_names(world: World, which: int, seed: int) -> None:
    host = world.hosts[which % len(world.hosts)]
    requirements = replace(world.spec.requirements, only_hosts=frozenset({host.id}), other_hosts=frozenset())
    spec = replace(world.spec, requirements=requirements, forced=True)
    kinds = zip(host.capacity, host.used, spec.amounts, strict=True)
    fits = max(0, min((capacity - used) // wanted for capacity, used, wanted in kinds if wanted))
    fits *= all(units.allow(wanted) for units, wanted in zip(host.units, spec.amounts, strict=True))
    decision = decide(spec, world.fleet(), seed)
    assert decision.fitting == (host.id,) * min(spec.count, fits)
    verdict = host_reasons(spec, world.fleet())[host.name]
    assert (verdict is None) == (fits > 0)


@law
@given(
    world=worlds(least=1),
    takes=st.lists(st.tuples(st.integers(0, 7), amounts(-3, 3)), max_size=5),
    way=st.sampled_from(["one by one", "all at once", "by host"]),
)
def test_room_that_was_taken_is_as_if_it_had_never_been_there(
    world: World, takes: list[tuple[int, tuple[int, int, int]]], way: str
) -> None:
    fleet, hosts = world.fleet(), list(world.hosts)
    allowed(world.spec, fleet)  # what is remembered of it must not be remembered wrongly
    other = fleet.copy()
    allowed(world.spec, other)
    rows = [number % len(hosts) for number, _ in takes]
    for row, (_, taken) in zip(rows, takes, strict=True):
        hosts[row] = reference.after(_taking(taken, world.spec), hosts, hosts[row].id)[1][row]
        if way == "one by one":
            other.take(row, taken)
        elif way == "by host":
            other.take_for([hosts[row].id], taken)
    if way == "all at once":
        columns = np.array([taken for _, taken in takes], dtype=np.int64).reshape(-1, 3).T
        other.take_many(np.array(rows, dtype=np.intp), columns)
    _the_same(other, replace(world, hosts=tuple(hosts)).fleet(), world.spec)
    _the_same(fleet, world.fleet(), world.spec)  # a copy is nobody else's


def _taking(taken: tuple[int, int, int], spec: RequestSpec) -> RequestSpec:
    return replace(spec, amounts=taken)


@law
@given(world=worlds(least=1), numbers=st.lists(st.integers(1, 8), max_size=8), taken=amounts(-2, 3))
def test_the_same_room_is_taken_on_each_of_many_hosts(
    world: World, numbers: list[int], taken: tuple[int, int, int]
) -> None:
    fleet, hosts = world.fleet(), list(world.hosts)
    allowed(world.spec, fleet)
    picks = [hosts[number % len(hosts)].id for number in numbers]
    fleet.take_for(picks, taken)
    for pick in picks:
        hosts = reference.after(_taking(taken, world.spec), hosts, pick)[1]
    _the_same(fleet, replace(world, hosts=tuple(hosts)).fleet(), world.spec)


def _the_same(one: Fleet, other: Fleet, spec: RequestSpec) -> None:
    """To the last bit: hosts that are equal have to tie, whatever became of them before."""
    assert np.array_equal(one.free, other.free)
    assert np.array_equal(one.capacity, other.capacity)
    assert np.array_equal(one.weight, other.weight)
    assert np.array_equal(allowed(spec, one), allowed(spec, other))


def _best_of(world: World) -> Callable[[RequestSpec, reference.Hosts], set[HostId]]:
    return lambda spec, hosts: reference.best(spec, hosts, world.aggregates, world.weights)


def _few_best_of(world: World, subset: int) -> Callable[[RequestSpec, reference.Hosts], set[HostId]]:
    """All that can be among the few, whichever way their ties fall."""

    def few(spec: RequestSpec, hosts: reference.Hosts) -> set[HostId]:
        left = reference.softly_best(spec, hosts, world.aggregates)
        weighs = {host.id: reference.weight(host, hosts, world.weights) for host in hosts if host.id in left}
        enough = sorted(weighs.values(), reverse=True)[:subset]
        return {host for host in left if weighs[host] >= enough[-1] - reference.ALMOST}

    return few


def _after(
    spec: RequestSpec, hosts: tuple[HostRecord, ...], pick: HostId
) -> tuple[RequestSpec, tuple[HostRecord, ...]]:
    spec, later = reference.after(spec, hosts, pick)
    return spec, tuple(later)
