"""The laws of allocation candidates: exactly what brute force finds, whatever the forest and the question."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from covey.model.providers import InventoryRecord, ProviderRecord
from covey.scheduler.candidates import Candidate, Group, Providers, Query, find
from tests.property.candidates_reference import SHARES, Answer, Reference

law = settings(max_examples=100, deadline=None, derandomize=True)
a_seed = st.integers(0, 2**32)  # forests grow from it: chosen bit by bit, most of them would be bare
ROUNDS = 40

CLASSES, TRAITS, AGGREGATES = ["VCPU", "DISK_GB", "VF"], ["T_A", "T_B"], ["agg-x", "agg-y"]


def inventory(tie_breaking: Random) -> InventoryRecord:
    """Mostly roomy, at times with every kind of limit."""
    return InventoryRecord(
        total=tie_breaking.choice([4, 4, 8, 1]),
        reserved=tie_breaking.choice([0, 0, 0, 1]),
        max_unit=tie_breaking.choice([8, 8, 2]),
        step_size=tie_breaking.choice([1, 1, 1, 1, 2]),
        allocation_ratio=tie_breaking.choice([1.0, 1.0, 1.5]),
        used=tie_breaking.choice([0, 0, 0, 1, 3]),
    )


def some(tie_breaking: Random, things: Sequence[str], chance: float) -> frozenset[str]:
    return frozenset(thing for thing in things if tie_breaking.random() < chance)


def forest(tie_breaking: Random) -> list[ProviderRecord]:
    """A few providers: alone, in trees, sharing, or all of that."""
    records: list[ProviderRecord] = []
    nested, sharing = tie_breaking.choice([0.0, 0.6]), tie_breaking.choice([0.0, 0.3, 0.5])
    for number in range(1, tie_breaking.randint(2, 6) + 1):
        parent = tie_breaking.choice(records) if records and tie_breaking.random() < nested else None
        records.append(
            ProviderRecord(
                number,
                f"rp-{number}",
                f"name-{number}",
                parent.id if parent else None,
                (parent.root_id or parent.id) if parent else None,
                0,
                {name: inventory(tie_breaking) for name in CLASSES if tie_breaking.random() < 0.75},
                some(tie_breaking, TRAITS, 0.4) | some(tie_breaking, [SHARES], sharing),
                some(tie_breaking, AGGREGATES, 0.4),
            )
        )
    return records


def any_of(tie_breaking: Random, names: Sequence[str]) -> tuple[frozenset[str], ...]:
    """Mostly no condition at all, so that many questions have answers."""
    sets = [
        frozenset(tie_breaking.sample(names, tie_breaking.randint(1, 2)))
        for _ in range(tie_breaking.choice([0, 0, 0, 0, 1, 2]))
    ]
    return tuple(sets)


def group(tie_breaking: Random, suffix: str, least: int) -> Group:
    wanted = {name: tie_breaking.randint(1, 2) for name in tie_breaking.sample(CLASSES, tie_breaking.randint(least, 2))}
    tree = tie_breaking.choice(["rp-1", "rp-3", "rp-9"]) if tie_breaking.random() < 0.15 else None
    traits = any_of(tie_breaking, TRAITS), some(tie_breaking, TRAITS, 0.08)
    return Group(suffix, wanted, *traits, any_of(tie_breaking, AGGREGATES), some(tie_breaking, AGGREGATES, 0.08), tree)


def question(tie_breaking: Random) -> Query:
    suffixes = tie_breaking.choice([[""], ["", "1"], ["1"], ["1", "2"], ["", "1", "2"]])
    named = [suffix for suffix in suffixes if suffix]
    return Query(
        tuple(group(tie_breaking, suffix, least=1 if suffix == suffixes[0] else 0) for suffix in suffixes),
        isolate=tie_breaking.random() < 0.4,
        root_required=some(tie_breaking, TRAITS, 0.05),
        root_forbidden=some(tie_breaking, TRAITS, 0.05),
        same_subtrees=(frozenset(named),) if named and tie_breaking.random() < 0.3 else (),
        nested=tie_breaking.random() < 0.8,
    )


def plain(candidate: Candidate) -> Answer:
    parts = ((uuid, name, n) for uuid, amounts in candidate.allocations.items() for name, n in amounts.items())
    return frozenset(parts), frozenset((suffix, frozenset(uuids)) for suffix, uuids in candidate.mappings.items())


@law
@given(a_seed)
def test_all_ways_are_found_and_each_once_and_summaries_show_their_trees(seed: int) -> None:
    tie_breaking = Random(seed)  # noqa: S311 -- nobody's secret
    for _ in range(ROUNDS):
        records, query = forest(tie_breaking), question(tie_breaking)
        found = find(query, Providers(records))
        answers = [plain(candidate) for candidate in found.candidates]
        expected = Reference(records, query)
        assert len(answers) == len(set(answers))
        assert set(answers) == expected.answers()
        assert {summary.uuid for summary in found.summaries} == expected.summarized(set(answers))


@law
@given(a_seed, st.integers(1, 4))
def test_a_limit_takes_the_first_of_them(seed: int, limit: int) -> None:
    tie_breaking = Random(seed)  # noqa: S311
    providers, query = Providers(forest(tie_breaking)), question(tie_breaking)
    assert find(query, providers, limit).candidates == find(query, providers).candidates[:limit]


@law
@given(a_seed)
def test_use_that_is_taken_in_place_is_use_that_was_there(seed: int) -> None:
    tie_breaking = Random(seed)  # noqa: S311
    records, query = forest(tie_breaking), question(tie_breaking)
    providers, fuller, name = Providers(records), tie_breaking.choice(records), tie_breaking.choice(CLASSES)
    providers.take(fuller.id, name, 2)
    later = [_with_use(one, name, 2) if one is fuller else one for one in records]
    assert find(query, providers) == find(query, Providers(later))


def _with_use(record: ProviderRecord, name: str, more: int) -> ProviderRecord:
    has = dict(record.inventories)
    if name in has:
        has[name] = replace(has[name], used=has[name].used + more)
    return replace(record, inventories=has)
