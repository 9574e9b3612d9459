"""The laws of allocation candidates: exactly what brute force finds, whatever the forest and the question."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from covey.model.providers import InventoryRecord, ProviderRecord
from covey.scheduler.candidates import Candidate, CandidateQuery, Providers, RequestGroup, find
from tests.budgets import examples
from tests.property.candidates_reference import SHARES, Answer, Reference

law = settings(max_examples=examples(100), deadline=None, derandomize=True)
a_seed = st.integers(0, 2**32)  # forests grow from it: chosen bit by bit, most of them would be bare
ROUNDS = 40

CLASSES, TRAITS, AGGREGATES = ["VCPU", "DISK_GB", "VF"], ["T_A", "T_B"], ["agg-x", "agg-y"]


def inventory(rng: Random) -> InventoryRecord:
    """Mostly roomy, at times with every kind of limit."""
    return InventoryRecord(
        total=rng.choice([4, 4, 8, 1]),
        reserved=rng.choice([0, 0, 0, 1]),
        max_unit=rng.choice([8, 8, 2]),
        step_size=rng.choice([1, 1, 1, 1, 2]),
        allocation_ratio=rng.choice([1.0, 1.0, 1.5]),
        used=rng.choice([0, 0, 0, 1, 3]),
    )


def some(rng: Random, things: Sequence[str], chance: float) -> frozenset[str]:
    return frozenset(thing for thing in things if rng.random() < chance)


def forest(rng: Random) -> list[ProviderRecord]:
    """A few providers: alone, in trees, sharing, or all of that."""
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
                some(rng, TRAITS, 0.4) | some(rng, [SHARES], sharing),
                some(rng, AGGREGATES, 0.4),
            )
        )
    return records


def any_of(rng: Random, names: Sequence[str]) -> tuple[frozenset[str], ...]:
    """Mostly no condition at all, so that many questions have answers."""
    sets = [frozenset(rng.sample(names, rng.randint(1, 2))) for _ in range(rng.choice([0, 0, 0, 0, 1, 2]))]
    return tuple(sets)


def group(rng: Random, suffix: str, least: int) -> RequestGroup:
    wanted = {name: rng.randint(1, 2) for name in rng.sample(CLASSES, rng.randint(least, 2))}
    tree = rng.choice(["rp-1", "rp-3", "rp-9"]) if rng.random() < 0.15 else None
    traits = any_of(rng, TRAITS), some(rng, TRAITS, 0.08)
    return RequestGroup(suffix, wanted, *traits, any_of(rng, AGGREGATES), some(rng, AGGREGATES, 0.08), tree)


def question(rng: Random) -> CandidateQuery:
    suffixes = rng.choice([[""], ["", "1"], ["1"], ["1", "2"], ["", "1", "2"]])
    named = [suffix for suffix in suffixes if suffix]
    return CandidateQuery(
        tuple(group(rng, suffix, least=1 if suffix == suffixes[0] else 0) for suffix in suffixes),
        isolate=rng.random() < 0.4,
        root_required=some(rng, TRAITS, 0.05),
        root_forbidden=some(rng, TRAITS, 0.05),
        same_subtrees=(frozenset(named),) if named and rng.random() < 0.3 else (),
        nested=rng.random() < 0.8,
    )


def plain(candidate: Candidate) -> Answer:
    parts = ((uuid, name, n) for uuid, amounts in candidate.allocations.items() for name, n in amounts.items())
    return frozenset(parts), frozenset((suffix, frozenset(uuids)) for suffix, uuids in candidate.mappings.items())


@law
@given(a_seed)
def test_all_ways_are_found_and_each_once_and_summaries_show_their_trees(seed: int) -> None:
    rng = Random(seed)  # noqa: S311 -- nobody's secret
    for _ in range(ROUNDS):
        records, query = forest(rng), question(rng)
        found = find(query, Providers(records))
        answers = [plain(candidate) for candidate in found.candidates]
        expected = Reference(records, query)
        assert len(answers) == len(set(answers))
        assert set(answers) == expected.answers()
        assert {summary.uuid for summary in found.summaries} == expected.summarized(set(answers))


@law
@given(a_seed, st.integers(1, 4))
def test_a_limit_takes_the_first_of_them(seed: int, limit: int) -> None:
    rng = Random(seed)  # noqa: S311
    providers, query = Providers(forest(rng)), question(rng)
    assert find(query, providers, limit).candidates == find(query, providers).candidates[:limit]


@law
@given(a_seed)
def test_use_that_is_taken_in_place_is_use_that_was_there(seed: int) -> None:
    rng = Random(seed)  # noqa: S311
    records, query = forest(rng), question(rng)
    providers, fuller, name = Providers(records), rng.choice(records), rng.choice(CLASSES)
    providers.take(fuller.id, name, 2)
    later = [_with_use(one, name, 2) if one is fuller else one for one in records]
    assert find(query, providers) == find(query, Providers(later))


def _with_use(record: ProviderRecord, name: str, more: int) -> ProviderRecord:
    has = dict(record.inventories)
    if name in has:
        has[name] = replace(has[name], used=has[name].used + more)
    return replace(record, inventories=has)
