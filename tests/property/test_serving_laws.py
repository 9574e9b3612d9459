"""The scheduler serves a server by the allocation candidates of the Placement API, for any providers."""

from collections import Counter
from random import Random

from hypothesis import given

from covey.model.flavor_requests import GranularGroup
from covey.model.fleet_records import HostRecord
from covey.model.ids import HostId
from covey.model.resources import Resources
from covey.model.servers import HostRequirements
from covey.scheduler.candidates import Candidate, CandidateQuery, RequestGroup, find
from covey.scheduler.decide import decide
from covey.scheduler.fleet import Fleet
from covey.scheduler.request_spec import RequestSpec
from tests.property.test_candidate_laws import CLASSES, TRAITS, forest, law, rng_seeds, subset

ROUNDS = 40


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


@law
@given(rng_seeds)
def test_chosen_allocations_are_a_candidate_and_a_refusal_means_there_is_none(seed: int) -> None:
    rng = Random(seed)  # noqa: S311 -- not used for secrets
    for _ in range(ROUNDS):
        records, (spec, query) = forest(rng), spec_and_query(rng)
        hosts = [HostRecord(HostId(each.id), each.name) for each in records if each.parent_id is None]
        fleet = Fleet(records, hosts)
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
        hosts = [HostRecord(HostId(each.id), each.name) for each in records if each.parent_id is None]
        batch = RequestSpec(spec.amounts, 4, 1, spec.requirements, granular=spec.granular, isolate=spec.isolate)
        taken: Counter[tuple[int, str]] = Counter()
        for allocations in decide(batch, Fleet(records, hosts), seed=1).allocations(spec.amounts):
            for provider, amounts in allocations.items():
                taken.update({(provider, name): amount for name, amount in amounts.items()})
        by_id = {each.id: each for each in records}
        for (provider, name), amount in taken.items():
            inventory = by_id[provider].inventories[name]
            assert inventory.used + amount <= inventory.capacity


def _each(traits: frozenset[str]) -> tuple[frozenset[str], ...]:
    return tuple(frozenset({trait}) for trait in sorted(traits))


def _summed(candidate: Candidate) -> dict[str, dict[str, int]]:
    return {uuid: dict(amounts) for uuid, amounts in candidate.allocations.items()}
