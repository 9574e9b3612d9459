"""Allocation candidates equal those of brute force, for any providers and any query."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from covey.model.providers import InventoryRecord, ProviderRecord
from covey.model.resources import Resources
from covey.scheduler.candidates import Candidate, CandidateQuery, RequestGroup, find
from covey.scheduler.fleet import Fleet
from tests.budgets import examples
from tests.property.candidates_reference import SHARES, Answer, Reference

law = settings(max_examples=examples(100), deadline=None, derandomize=True)
rng_seeds = st.integers(
    0, 2**32
)  # providers are drawn with random.Random: drawn by Hypothesis, most would have nothing
ROUNDS = 40

CLASSES, TRAITS, AGGREGATES = ["VCPU", "DISK_GB", "VF"], ["T_A", "T_B"], ["agg-x", "agg-y"]


def inventory(rng: Random) -> InventoryRecord:
    """Draw an inventory that is mostly free, sometimes with limits of any kind."""
    return InventoryRecord(
        total=rng.choice([4, 4, 8, 1]),
        reserved=rng.choice([0, 0, 0, 1]),
        max_unit=rng.choice([8, 8, 2]),
        step_size=rng.choice([1, 1, 1, 1, 2]),
        allocation_ratio=rng.choice([1.0, 1.0, 1.5]),
        used=rng.choice([0, 0, 0, 1, 3]),
    )


def subset(rng: Random, names: Sequence[str], chance: float) -> frozenset[str]:
    return frozenset(name for name in names if rng.random() < chance)


def forest(rng: Random) -> list[ProviderRecord]:
    """Draw a few providers: standalone, in trees, sharing, or a mix."""
    records: list[ProviderRecord] = []
    nested, sharing = rng.choice([0.0, 0.6]), rng.choice([0.0, 0.3, 0.5])
    for number in range(1, rng.randint(2, 6) + 1):
        parent = rng.choice(records) if records and rng.random() < nested else None
        records.append(
            ProviderRecord(
                number,
                f"rp-{number}",
                f"name-{number}",
                parent.id if parent else None,
                (parent.root_id or parent.id) if parent else None,
                0,
                {name: inventory(rng) for name in CLASSES if rng.random() < 0.75},
                subset(rng, TRAITS, 0.4) | subset(rng, [SHARES], sharing),
                subset(rng, AGGREGATES, 0.4),
            )
        )
    return records


def any_of(rng: Random, names: Sequence[str]) -> tuple[frozenset[str], ...]:
    """Draw mostly no condition, so that many queries have candidates."""
    sets = [frozenset(rng.sample(names, rng.randint(1, 2))) for _ in range(rng.choice([0, 0, 0, 0, 1, 2]))]
    return tuple(sets)


def group(rng: Random, suffix: str, least: int) -> RequestGroup:
    resources = {name: rng.randint(1, 2) for name in rng.sample(CLASSES, rng.randint(least, 2))}
    tree = rng.choice(["rp-1", "rp-3", "rp-9"]) if rng.random() < 0.15 else None
    traits = any_of(rng, TRAITS), subset(rng, TRAITS, 0.08)
    return RequestGroup(suffix, resources, *traits, any_of(rng, AGGREGATES), subset(rng, AGGREGATES, 0.08), tree)


def random_query(rng: Random) -> CandidateQuery:
    suffixes = rng.choice([[""], ["", "1"], ["1"], ["1", "2"], ["", "1", "2"]])
    named = [suffix for suffix in suffixes if suffix]
    return CandidateQuery(
        tuple(group(rng, suffix, least=1 if suffix == suffixes[0] else 0) for suffix in suffixes),
        isolate=rng.random() < 0.4,
        root_required=subset(rng, TRAITS, 0.05),
        root_forbidden=subset(rng, TRAITS, 0.05),
        same_subtrees=(frozenset(named),) if named and rng.random() < 0.3 else (),
        nested=rng.random() < 0.8,
    )


def as_answer(candidate: Candidate) -> Answer:
    parts = ((uuid, name, n) for uuid, amounts in candidate.allocations.items() for name, n in amounts.items())
    return frozenset(parts), frozenset((suffix, frozenset(uuids)) for suffix, uuids in candidate.mappings.items())


@law
@given(rng_seeds)
def test_candidates_equal_brute_force_without_duplicates_and_summaries_list_their_trees(seed: int) -> None:
    rng = Random(seed)  # noqa: S311 -- not used for secrets
    for _ in range(ROUNDS):
        records, query = forest(rng), random_query(rng)
        result = find(query, Fleet(records))
        answers = [as_answer(candidate) for candidate in result.candidates]
        expected = Reference(records, query)
        assert len(answers) == len(set(answers))
        assert set(answers) == expected.answers()
        assert {summary.uuid for summary in result.summaries} == expected.summarized(set(answers))


@law
@given(rng_seeds, st.integers(1, 4))
def test_limit_returns_the_first_candidates(seed: int, limit: int) -> None:
    rng = Random(seed)  # noqa: S311
    providers, query = Fleet(forest(rng)), random_query(rng)
    assert find(query, providers, limit).candidates == find(query, providers).candidates[:limit]


@law
@given(rng_seeds)
def test_usage_taken_in_place_equals_usage_from_the_start(seed: int) -> None:
    rng = Random(seed)  # noqa: S311
    records, query = forest(rng), random_query(rng)
    providers, fuller, name = Fleet(records), rng.choice(records), rng.choice(CLASSES)
    providers.take_all([(fuller.id, Resources({name: 2}))])
    loaded = [_with_use(one, name, 2) if one is fuller else one for one in records]
    assert find(query, providers) == find(query, Fleet(loaded))


def _with_use(record: ProviderRecord, name: str, more: int) -> ProviderRecord:
    inventories = dict(record.inventories)
    if name in inventories:
        inventories[name] = replace(inventories[name], used=inventories[name].used + more)
    return replace(record, inventories=inventories)
