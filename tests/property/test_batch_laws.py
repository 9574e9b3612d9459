"""Batches under several hard policies place as many servers as brute force finds, and violate no policy."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from covey.model.groups import HOST, GroupPolicy, GroupView, PolicyKind
from covey.model.ids import HostId
from covey.model.resources import server_resources
from covey.scheduler.batch_classes import HostClasses, classify
from covey.scheduler.batch_search import MAX_STEPS, search
from covey.scheduler.batch_state import BatchState, DomainState, PolicyDomains
from covey.scheduler.decide import decide
from covey.scheduler.fleet import Weights
from covey.scheduler.request_spec import HostRequirements, RequestSpec
from tests.budgets import examples
from tests.plain_fleets import PlainAggregate, PlainHost
from tests.property import reference
from tests.property.test_scheduler_laws import FIRST_AGGREGATE, SCOPES, World, seeds

law = settings(max_examples=examples(300), deadline=None, derandomize=True)
wide_law = settings(law, max_examples=examples(400))

AMOUNTS = server_resources(1, 1, 1)


@st.composite
def crossing_worlds(draw: st.DrawFn) -> World:
    """Draw hosts that fit up to three servers in domains that cross, and a group with several hard policies."""
    fits = draw(st.lists(st.sampled_from([1, 1, 2, 3, 0]), min_size=2, max_size=7))
    hosts = tuple(
        PlainHost(HostId(n), f"node-{n}", (size, 9 + draw(st.integers(0, 3)), 9), (0, 0, 0))
        for n, size in enumerate(fits, 1)
    )
    aggregates: list[PlainAggregate] = []
    for scope in SCOPES:
        domains: list[set[HostId]] = [set() for _ in range(draw(st.integers(2, 4)))]
        for host in hosts:
            number = draw(st.integers(-1 if draw(st.integers(0, 5)) == 0 else 0, len(domains) - 1))
            if number >= 0:
                domains[number].add(host.id)
        for members in domains:
            number = FIRST_AGGREGATE + len(aggregates)
            aggregates.append(PlainAggregate(number, f"uuid-{number}", frozenset(members), scope.id))
    policies = draw(draw_policies(aggregates))
    places: Counter[int] = Counter(draw(st.lists(st.sampled_from([host.id for host in hosts]), max_size=2)))
    if draw(st.booleans()):
        places.clear()
    spec = RequestSpec(AMOUNTS, draw(st.integers(2, 6)), 1, HostRequirements(), GroupView(policies, dict(places)))
    return World(replace(spec, minimum=draw(st.integers(1, spec.count))), hosts, tuple(aggregates), Weights())


@st.composite
def draw_policies(draw: st.DrawFn, aggregates: Sequence[PlainAggregate]) -> tuple[GroupPolicy, ...]:
    """Draw anti-affinity in two or three scopes, and sometimes affinity, a target or soft policies."""
    kept_apart = draw(st.permutations(SCOPES))[: draw(st.sampled_from([2, 3]))]
    limits = st.sampled_from([1, 1, 1, 2, 3])
    found = [GroupPolicy(PolicyKind.ANTI_AFFINITY, scope, limit=draw(limits)) for scope in kept_apart]
    together = [scope for scope in (*SCOPES, HOST) if scope not in kept_apart]
    if draw(st.integers(0, 2)) == 0:
        found.append(GroupPolicy(PolicyKind.AFFINITY, draw(st.sampled_from(together))))
    if draw(st.integers(0, 3)) == 0:
        found.append(GroupPolicy(PolicyKind.ANTI_AFFINITY, limit=draw(limits)))
    if draw(st.integers(0, 4)) == 0:
        target = draw(st.sampled_from(aggregates))
        scope = next(scope for scope in SCOPES if scope.id == target.scope)
        kind = draw(st.sampled_from([PolicyKind.ANTI_AFFINITY, PolicyKind.AFFINITY]))
        found.append(GroupPolicy(kind, scope, str(target.id)))
    if draw(st.booleans()):
        kind = draw(st.sampled_from([PolicyKind.SOFT_ANTI_AFFINITY, PolicyKind.SOFT_AFFINITY]))
        found.append(GroupPolicy(kind, draw(st.sampled_from([HOST, *SCOPES]))))
    return tuple(found)


def most_that_fit(world: World) -> int:
    """Return the largest number of servers that the reference places in any order."""

    @cache
    def fit(placed: tuple[HostId, ...]) -> int:
        if len(placed) == world.spec.count:
            return len(placed)
        spec, hosts = world.spec, list(world.hosts)
        for pick in placed:
            spec, hosts = reference.after(spec, hosts, pick)
        most = len(placed)
        for host in reference.feasible(spec, hosts, world.aggregates):
            if most < world.spec.count:
                most = max(most, fit(tuple(sorted((*placed, host)))))
        return most

    return fit(())


@law
@given(world=crossing_worlds(), seed=seeds, subset=st.sampled_from([1, 1, 3]))
def test_batch_places_as_many_servers_as_brute_force(world: World, seed: int, subset: int) -> None:
    decision = decide(world.spec, world.fleet(), seed, subset)
    most = most_that_fit(world)
    assert decision.proved
    assert len(decision.fitting) == most
    assert len(decision.chosen) == (most if most >= world.spec.minimum else 0)
    event(f"{len(SCOPES)} scopes, all fit: {most == world.spec.count}")


@law
@given(world=crossing_worlds(), seed=seeds, subset=st.sampled_from([1, 1, 3]))
def test_every_server_of_a_batch_is_feasible_after_the_others(world: World, seed: int, subset: int) -> None:
    placed = decide(world.spec, world.fleet(), seed, subset).fitting
    for number, last in enumerate(placed):
        spec, hosts = world.spec, list(world.hosts)
        for pick in (*placed[:number], *placed[number + 1 :]):
            spec, hosts = reference.after(spec, hosts, pick)
        assert last in reference.feasible(spec, hosts, world.aggregates)


@law
@given(world=crossing_worlds(), seed=seeds)
def test_searched_batch_is_deterministic(world: World, seed: int) -> None:
    decision = decide(world.spec, world.fleet(), seed)
    assert decide(world.spec, world.fleet(), seed) == decision
    assert decide(world.spec, replace(world, hosts=world.hosts[::-1]).fleet(), seed) == decision


@st.composite
def states(draw: st.DrawFn, least_limits: int, most_limits: int, *, nested: bool = False) -> tuple[BatchState, int]:
    """Draw candidates with limits in several scopes, and the size of a batch."""
    size = draw(st.integers(1, 9))
    limits: list[PolicyDomains] = []
    for _ in range(draw(st.integers(least_limits, most_limits))):
        number = draw(st.integers(1, 5))
        of = np.array(draw(st.lists(st.integers(0, number - 1), min_size=size, max_size=size)), dtype=np.intp)
        if nested and limits:
            of = limits[-1].of // 2  # pairs of domains form the wider ones
        lefts = draw(st.lists(st.integers(1, 3), min_size=5, max_size=5))
        limits.append(PolicyDomains(of, [DomainState(left=left) for left in lefts]))
    homes = draw(st.lists(st.integers(0, draw(st.integers(0, 2))), min_size=size, max_size=size))
    fits = np.array(draw(st.lists(st.integers(1, 3), min_size=size, max_size=size)), dtype=np.int64)
    state = BatchState(
        np.arange(size), np.zeros(size, dtype=np.uint16), fits, np.zeros(size, dtype=np.complex128), limits=limits
    )
    if any(homes):
        state.affinity_domains.append(np.array(homes, dtype=np.intp))
    return state, draw(st.integers(2, 12))


def place_in_any_order(state: BatchState, classes: HostClasses, count: int, order: Sequence[int]) -> list[int]:
    """Place servers class by class, as long as they fit, where the bound is highest."""
    bounds = classes.bounds(count)
    home = int(bounds.argmax())
    counts = [0] * len(classes.room)
    taken: Counter[tuple[int, int]] = Counter()
    for candidate in order:
        number = int(classes.of[candidate])
        if classes.home[number] != home:
            continue
        domains = [(scope, int(limit.of[candidate])) for scope, limit in enumerate(state.limits)]
        left = (state.limits[scope].domains[domain].left - taken[scope, domain] for scope, domain in domains)
        more = min(int(state.fits[candidate]), count - sum(counts), *left)
        counts[number] += more
        taken.update(dict.fromkeys(domains, more))
    return counts


@wide_law
@given(drawn=states(1, 3, nested=True), data=st.data())
def test_any_order_places_the_most_servers_where_limits_nest(
    drawn: tuple[BatchState, int], data: st.DataObject
) -> None:
    """So a batch with nested limits is never searched."""
    state, count = drawn
    classes = classify(state, count)
    order = data.draw(st.permutations(range(len(state.rows))))
    assert len(classes.chains) == 1
    placed = place_in_any_order(state, classes, count, order)
    assert sum(placed) == classes.bounds(count).max() == most_by_enumeration(state, count)


@wide_law
@given(drawn=states(2, 4), data=st.data())
def test_search_finds_what_enumeration_finds(drawn: tuple[BatchState, int], data: st.DataObject) -> None:
    state, count = drawn
    classes = classify(state, count)
    placed = np.array(place_in_any_order(state, classes, count, data.draw(st.permutations(range(len(state.rows))))))
    found = search(classes, placed, range(int(classes.home.max()) + 1), count, MAX_STEPS)
    most = most_by_enumeration(state, count)
    assert found.proved
    assert found.counts.sum() == most <= classes.bounds(count).max()
    assert_within_limits(classes, found.counts)
    event(f"{len(classes.chains)} chains, improved: {bool(placed.sum() < most)}")


@wide_law
@given(drawn=states(2, 4), steps=st.integers(0, 900), data=st.data())
def test_search_that_stops_at_its_limit_is_unproved_and_loses_no_server(
    drawn: tuple[BatchState, int], steps: int, data: st.DataObject
) -> None:
    state, count = drawn
    classes = classify(state, count)
    placed = np.array(place_in_any_order(state, classes, count, data.draw(st.permutations(range(len(state.rows))))))
    found = search(classes, placed, range(int(classes.home.max()) + 1), count, steps)
    assert_within_limits(classes, found.counts)
    assert found.counts.sum() >= placed.sum()
    assert not found.proved or found.counts.sum() == most_by_enumeration(state, count)
    assert found.counts.sum() == count or not may_grow(classes, found.counts)


def may_grow(classes: HostClasses, counts: np.ndarray) -> bool:
    """Return whether another server fits beside these."""
    home = classes.home[counts > 0][0]
    inside = [number for number in range(len(counts)) if classes.home[number] == home]
    limits = [limit for chain in classes.chains for limit in chain]
    return any(
        counts[number] < classes.room[number]
        and all(counts[limit.part == limit.part[number]].sum() < limit.left[limit.part[number]] for limit in limits)
        for number in inside
    )


def assert_within_limits(classes: HostClasses, counts: np.ndarray) -> None:
    assert (counts <= classes.room).all()
    assert len(set(classes.home[counts > 0].tolist())) <= 1
    for chain in classes.chains:
        for limit in chain:
            taken = np.zeros_like(limit.left)
            np.add.at(taken, limit.part, counts)
            assert (taken <= limit.left).all()


def most_by_enumeration(state: BatchState, count: int) -> int:
    """Return the most servers that fit in one home, by trying every number on every host."""
    homes = state.affinity_domains[0].tolist() if state.affinity_domains else [0] * len(state.rows)
    return max(
        _most_on([row for row, its in enumerate(homes) if its == home], state, count, Counter()) for home in set(homes)
    )


def _most_on(rows: list[int], state: BatchState, count: int, taken: Counter[tuple[int, int]]) -> int:
    if not rows or not count:
        return 0
    domains = [(scope, int(limit.of[rows[0]])) for scope, limit in enumerate(state.limits)]
    left = (state.limits[scope].domains[domain].left - taken[scope, domain] for scope, domain in domains)
    fits = min(int(state.fits[rows[0]]), count, *left)
    return max(
        here + _most_on(rows[1:], state, count - here, taken + Counter(dict.fromkeys(domains, here)))
        for here in range(fits + 1)
    )
