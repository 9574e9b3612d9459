"""The scheduler serves a server by the allocation candidates of the Placement API, for any providers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import event, given, settings

from covey.model.fleet_records import AggregateRecord, HostRecord
from covey.model.groups import GroupView
from covey.model.ids import HostId
from covey.model.providers import ProviderRecord
from covey.model.resources import GranularGroup, Resources
from covey.model.servers import HostRequirements
from covey.scheduler import provider_allocations
from covey.scheduler.candidates import Candidate, CandidateQuery, RequestGroup, find
from covey.scheduler.decide import Decision, decide
from covey.scheduler.fleet import Fleet
from covey.scheduler.provider_trees import SHARES
from covey.scheduler.request_spec import RequestSpec
from covey.scheduler.room import count_fits
from tests.budgets import examples
from tests.property.test_candidate_laws import CLASSES, TRAITS, forest, law, rng_seeds, subset
from tests.unit.scheduler.fleets import RACK, SWITCH, anti_affinity

ROUNDS = 40
batch_law = settings(law, max_examples=examples(20))


def spec_and_query(rng: Random) -> tuple[RequestSpec, CandidateQuery]:
    """Draw one request, for the scheduler and for the Placement API."""
    amounts = {name: rng.randint(1, 2) for name in rng.sample(CLASSES, rng.randint(1, 2))}
    required = subset(rng, TRAITS, 0.15)
    granular = [
        GranularGroup(
            suffix,
            Resources({rng.choice(CLASSES): rng.randint(1, 2)}),
            subset(rng, TRAITS, 0.2),
            subset(rng, TRAITS, 0.1),
        )
        for suffix in rng.choice([[], [], ["1"], ["1", "2"]])
    ]
    isolate = rng.random() < 0.5
    spec = RequestSpec(
        Resources(amounts),
        requirements=HostRequirements(required_traits=required),
        granular=tuple(granular),
        isolate=isolate,
    )
    groups = [RequestGroup("", amounts, _each(required))]
    groups += [RequestGroup(g.suffix, dict(g.resources), _each(g.required), g.forbidden) for g in granular]
    return spec, CandidateQuery(tuple(groups), isolate=isolate)


def fleet_of(records: Sequence[ProviderRecord]) -> Fleet:
    """Return the providers as a fleet in which each root is a host."""
    return Fleet(records, [HostRecord(HostId(each.id), each.name) for each in records if each.parent_id is None])


def decide_batch(batch: RequestSpec, fleet: Fleet, most: int) -> Decision:
    """Decide on a batch, which must serve as many servers as possible, unless the search stops at its limit."""
    decision = decide(batch, fleet, seed=1)
    fitting = len(decision.fitting)
    assert fitting <= most
    if decision.proved:
        assert fitting == most
    else:
        unlimited = _decide_without_limit(batch, fleet)
        assert (len(unlimited.fitting), unlimited.proved) == (most, True)
    event(f"proved: {decision.proved}, all fit: {most == batch.count}, as many: {fitting == most}")
    return decision


@law
@given(rng_seeds)
def test_chosen_allocations_are_a_candidate_and_a_refusal_means_there_is_none(seed: int) -> None:
    rng = Random(seed)  # noqa: S311 -- not used for secrets
    for _ in range(ROUNDS):
        records, (spec, query) = forest(rng), spec_and_query(rng)
        fleet = fleet_of(records)
        decision = decide(spec, fleet, seed=1)
        candidates = find(query, fleet).candidates
        if decision.chosen:
            (chosen,) = decision.allocations(spec.amounts)
            uuids = {each.id: each.uuid for each in records}
            named = {uuids[provider]: dict(amounts) for provider, amounts in chosen.items()}
            assert named in [_summed(candidate) for candidate in candidates]
        else:
            assert candidates == ()


@law
@given(rng_seeds)
def test_batch_takes_no_more_than_providers_have(seed: int) -> None:
    rng = Random(seed)  # noqa: S311
    for _ in range(ROUNDS):
        records, (spec, _) = forest(rng), spec_and_query(rng)
        batch = RequestSpec(spec.amounts, 4, 1, spec.requirements, granular=spec.granular, isolate=spec.isolate)
        taken: Counter[tuple[int, str]] = Counter()
        for allocations in decide(batch, fleet_of(records), seed=1).allocations(spec.amounts):
            for provider, amounts in allocations.items():
                taken.update({(provider, name): amount for name, amount in amounts.items()})
        by_id = {each.id: each for each in records}
        for (provider, name), amount in taken.items():
            inventory = by_id[provider].inventories[name]
            assert inventory.used + amount <= inventory.capacity


@batch_law
@given(rng_seeds)
def test_proved_batch_serves_as_many_servers_as_brute_force(seed: int) -> None:
    rng = Random(seed)  # noqa: S311
    for _ in range(ROUNDS):
        records, (spec, query) = forest(rng), spec_and_query(rng)
        batch = replace(spec, count=3)
        decide_batch(batch, fleet_of(records), _most_served(query, records, batch.count))


@batch_law
@given(rng_seeds)
def test_batch_with_crossing_policies_serves_as_many_servers_as_brute_force(seed: int) -> None:
    rng = Random(seed)  # noqa: S311
    for _ in range(ROUNDS):
        records, (spec, query) = forest(rng), spec_and_query(rng)
        racks, switches = ({each.id: rng.randint(1, 3) for each in records} for _ in "12")
        policies = [anti_affinity(RACK, limit=rng.choice([1, 1, 2])), anti_affinity(SWITCH)]
        if rng.random() < 0.3:
            policies.append(anti_affinity())
        aggregates = [AggregateRecord(n, f"rack-{n}", RACK.id) for n in (1, 2, 3)]
        aggregates += [AggregateRecord(10 + n, f"switch-{n}", SWITCH.id) for n in (1, 2, 3)]
        hosts = [
            HostRecord(HostId(each.id), each.name, aggregates=frozenset({racks[each.id], 10 + switches[each.id]}))
            for each in records
            if each.parent_id is None
        ]
        domains = {host.id: (("r", racks[host.id]), ("s", switches[host.id]), ("h", host.id)) for host in hosts}
        limits = dict(zip("rsh", [policy.limit for policy in policies], strict=False))
        batch = replace(spec, count=3, group=GroupView(tuple(policies)))
        fleet = Fleet(records, hosts, aggregates)
        decision = decide_batch(batch, fleet, _most_by_host(query, records, domains, limits, batch.count))
        counts = Counter(domain for host in decision.fitting for domain in domains[host])
        assert all(number <= limits.get(scope, number) for (scope, _), number in counts.items())


@law
@given(rng_seeds)
def test_needs_of_different_classes_are_always_proved(seed: int) -> None:
    """Without traits, groups and sharing providers, the columns say exactly how many servers a tree serves."""
    rng = Random(seed)  # noqa: S311
    for _ in range(ROUNDS):
        records = [replace(each, aggregates=frozenset()) for each in forest(rng)]
        amounts = {name: rng.randint(1, 2) for name in rng.sample(CLASSES, rng.randint(1, 3))}
        fleet = fleet_of(records)
        decision = decide(RequestSpec(Resources(amounts), count=6), fleet, seed=1)
        assert decision.proved
        fits = count_fits(RequestSpec(Resources(amounts)), fleet)[fleet.is_host].sum()
        assert len(decision.fitting) == min(6, fits)


def _decide_without_limit(spec: RequestSpec, fleet: Fleet) -> Decision:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provider_allocations, "MAX_STEPS", 10**9)
        return decide(spec, fleet, seed=1)


def _most_served(query: CandidateQuery, records: Sequence[ProviderRecord], count: int) -> int:
    """Return how many servers fit, up to the count, by trying every candidate for each."""
    candidates = find(query, Fleet(records)).candidates
    if not count or not candidates:
        return 0
    most = 0
    for candidate in candidates:
        most = max(most, 1 + _most_served(query, [_after(each, candidate) for each in records], count - 1))
        if most == count:
            break
    return most


Domains = Mapping[HostId, Sequence[tuple[str, int]]]


def _most_by_host(
    query: CandidateQuery, records: Sequence[ProviderRecord], domains: Domains, limits: Mapping[str, int], count: int
) -> int:
    """Return how many servers fit within the limits of their hosts' domains, by trying every candidate of each host."""

    def most(records: Sequence[ProviderRecord], taken: Counter[tuple[str, int]], count: int) -> int:
        best = 0
        for host, its in domains.items():
            if not count or any(taken[each] >= limits[each[0]] for each in its if each[0] in limits):
                continue
            for candidate in find(query, Fleet(_serving(host, records))).candidates:
                best = max(best, 1 + most([_after(r, candidate) for r in records], taken + Counter(its), count - 1))
                if best == count:
                    return best
        return best

    return most(records, Counter(), count)


def _serving(host: HostId, records: Sequence[ProviderRecord]) -> list[ProviderRecord]:
    """Return the providers of the host's tree, and those that share with it as trees of their own."""
    own = [each for each in records if host in {each.id, each.root_id}]
    inside = frozenset[str]().union(*(each.aggregates for each in own))
    others = (each for each in records if each not in own and SHARES in each.traits and each.aggregates & inside)
    return [*own, *(replace(each, parent_id=None, root_id=None) for each in others)]


def _after(record: ProviderRecord, candidate: Candidate) -> ProviderRecord:
    taken = candidate.allocations.get(record.uuid, {})
    left = {name: replace(each, used=each.used + taken.get(name, 0)) for name, each in record.inventories.items()}
    return replace(record, inventories=left)


def _each(traits: frozenset[str]) -> tuple[frozenset[str], ...]:
    return tuple(frozenset({trait}) for trait in sorted(traits))


def _summed(candidate: Candidate) -> dict[str, dict[str, int]]:
    return {uuid: dict(amounts) for uuid, amounts in candidate.allocations.items()}
