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


def inventory(luck: Random) -> InventoryRecord:
    """Mostly roomy, at times with every kind of limit."""
    return InventoryRecord(
        total=luck.choice([4, 4, 8, 1]),
        reserved=luck.choice([0, 0, 0, 1]),
        max_unit=luck.choice([8, 8, 2]),
        step_size=luck.choice([1, 1, 1, 1, 2]),
        ratio=luck.choice([1.0, 1.0, 1.5]),
        used=luck.choice([0, 0, 0, 1, 3]),
    )


def some(luck: Random, things: Sequence[str], chance: float) -> frozenset[str]:
    return frozenset(thing for thing in things if luck.random() < chance)


def forest(luck: Random) -> list[ProviderRecord]:
    """A few providers: alone, in trees, sharing, or all of that."""
    records: list[ProviderRecord] = []
    nested, sharing = luck.choice([0.0, 0.6]), luck.choice([0.0, 0.3, 0.5])
    for number in range(1, luck.randint(2, 6) + 1):
        parent = luck.choice(records) if records and luck.random() < nested else None
        records.append(
            ProviderRecord(
                number,
                f"rp-{number}",
                f"name-{number}",
                parent.id if parent else None,
                (parent.root_id or parent.id) if parent else None,
                0,
                {name: inventory(luck) for name in CLASSES if luck.random() < 0.75},
                some(luck, TRAITS, 0.4) | some(luck, [SHARES], sharing),
                some(luck, AGGREGATES, 0.4),
            )
        )
    return records


def any_of(luck: Random, names: Sequence[str]) -> tuple[frozenset[str], ...]:
    """Mostly no condition at all, so that many questions have answers."""
    sets = [frozenset(luck.sample(names, luck.randint(1, 2))) for _ in range(luck.choice([0, 0, 0, 0, 1, 2]))]
    return tuple(sets)


def group(luck: Random, suffix: str, least: int) -> Group:
    wanted = {name: luck.randint(1, 2) for name in luck.sample(CLASSES, luck.randint(least, 2))}
    tree = luck.choice(["rp-1", "rp-3", "rp-9"]) if luck.random() < 0.15 else None
    traits = any_of(luck, TRAITS), some(luck, TRAITS, 0.08)
    return Group(suffix, wanted, *traits, any_of(luck, AGGREGATES), some(luck, AGGREGATES, 0.08), tree)


def question(luck: Random) -> Query:
    suffixes = luck.choice([[""], ["", "1"], ["1"], ["1", "2"], ["", "1", "2"]])
    named = [suffix for suffix in suffixes if suffix]
    return Query(
        tuple(group(luck, suffix, least=1 if suffix == suffixes[0] else 0) for suffix in suffixes),
        isolate=luck.random() < 0.4,
        root_required=some(luck, TRAITS, 0.05),
        root_forbidden=some(luck, TRAITS, 0.05),
        same_subtrees=(frozenset(named),) if named and luck.random() < 0.3 else (),
        nested=luck.random() < 0.8,
    )


def plain(candidate: Candidate) -> Answer:
    parts = ((uuid, name, n) for uuid, amounts in candidate.allocations.items() for name, n in amounts.items())
    return frozenset(parts), frozenset((suffix, frozenset(uuids)) for suffix, uuids in candidate.mappings.items())


@law
@given(a_seed)
def test_all_ways_are_found_and_each_once_and_summaries_show_their_trees(seed: int) -> None:
    luck = Random(seed)  # noqa: S311 -- nobody's secret
    for _ in range(ROUNDS):
        records, query = forest(luck), question(luck)
        found = find(query, Providers(records))
        answers = [plain(candidate) for candidate in found.candidates]
        expected = Reference(records, query)
        assert len(answers) == len(set(answers))
        assert set(answers) == expected.answers()
        assert {summary.uuid for summary in found.summaries} == expected.summarized(set(answers))


@law
@given(a_seed, st.integers(1, 4))
def test_a_limit_takes_the_first_of_them(seed: int, limit: int) -> None:
    luck = Random(seed)  # noqa: S311
    providers, query = Providers(forest(luck)), question(luck)
    assert find(query, providers, limit).candidates == find(query, providers).candidates[:limit]


@law
@given(a_seed)
def test_use_that_is_taken_in_place_is_use_that_was_there(seed: int) -> None:
    luck = Random(seed)  # noqa: S311
    records, query = forest(luck), question(luck)
    providers, fuller, name = Providers(records), luck.choice(records), luck.choice(CLASSES)
    providers.take(fuller.id, name, 2)
    later = [_with_use(one, name, 2) if one is fuller else one for one in records]
    assert find(query, providers) == find(query, Providers(later))


def _with_use(record: ProviderRecord, name: str, more: int) -> ProviderRecord:
    has = dict(record.inventories)
    if name in has:
        has[name] = replace(has[name], used=has[name].used + more)
    return replace(record, inventories=has)
