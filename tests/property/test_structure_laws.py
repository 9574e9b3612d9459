"""A fleet that followed any changes equals one that is built from the final records, and older fleets stay."""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from covey.model.fleet_records import FleetChange
from covey.scheduler.candidates import CandidateQuery, CandidateResult, find
from covey.scheduler.decide import Decision, allowed_hosts, decide
from covey.scheduler.explain import explain, host_reasons
from covey.scheduler.fleet import NO_DOMAIN, Fleet
from covey.scheduler.request_spec import RequestSpec
from tests.budgets import examples
from tests.property.structure_world import CLASSES, SCOPES, World
from tests.property.test_candidate_laws import random_query

law = settings(max_examples=examples(150), deadline=None, derandomize=True)
rng_seeds = st.integers(0, 2**32)
STEPS = 12

Answers = tuple[Decision, str, dict[str, str | None], CandidateResult, list[object]]


def started(rng: Random) -> tuple[World, Fleet]:
    world = World(rng)
    for _ in range(rng.randint(0, 8)):
        world.change()
    return world, world.fleet()


def answers(fleet: Fleet, spec: RequestSpec, query: CandidateQuery) -> Answers:
    """Return all that a fleet answers to a request and a query."""
    reasons = host_reasons(spec, fleet)
    return (
        decide(spec, fleet, 7),
        explain(spec, fleet).sentence(),
        reasons,
        find(query, fleet),
        [*columns(fleet), allowed_hosts(spec, fleet)[fleet.present].tolist()],
    )


def columns(fleet: Fleet) -> list[object]:
    """Return every column for the rows that exist, with rows by id and numbers of domains by name."""
    rows = np.flatnonzero(fleet.present).tolist()
    ids = fleet.ids.tolist()
    own: list[object] = [
        (
            ids[row],
            fleet.uuids[row],
            None if fleet.parent[row] < 0 else ids[fleet.parent[row]],
            ids[fleet.root[row]],
            fleet.traits[row],
            fleet.member_of[row],
            fleet.hosts[row],
            bool(fleet.is_host[row]),
            bool(fleet.enabled[row]),
            bool(fleet.up[row]),
            bool(fleet.available[row]),
            fleet.zone[row],
            fleet.in_aggregates[row],
            float(fleet.weight[row]) if fleet.is_host[row] else None,
            {name: amounts(fleet, name, row) for name in CLASSES},
        )
        for row in rows
    ]
    names = {
        key: {ids[row] for row in found}
        for key, found in (("hosts", fleet.host_rows), ("uuids", fleet.row_of_uuid.values()))
    }
    by_name = {name: ids[row] for name, row in fleet.row_of_name.items()}
    return [
        own,
        names,
        by_name,
        {ids[row] for row in fleet.row_of.values()},
        sorted(fleet.row_of),
        fleet.zones,
        list(fleet.aggregates.items()),
        [domains_of(fleet, scope.id) for scope in SCOPES],
    ]


def amounts(fleet: Fleet, name: str, row: int) -> object:
    line = fleet.inventories.classes.get(name)
    if line is None or not fleet.inventories.exists[line, row]:
        return None
    return int(fleet.capacity[line, row]), int(fleet.free[line, row]), fleet.inventories.units_at(name, row)


def domains_of(fleet: Fleet, scope: object) -> object:
    domains = fleet.domains(scope)  # type: ignore[arg-type]
    of_host = domains.of_host[fleet.present].tolist()
    named = [None if number == NO_DOMAIN else domains.names[number] for number in of_host]
    every_row = np.arange(len(fleet))
    per_host = domains.per_host(np.append(np.arange(len(domains.names)), NO_DOMAIN))
    assert np.array_equal(per_host, domains.of_host[every_row])  # runs agree with the column
    return list(domains.names), named, domains.ambiguous[fleet.present].tolist()


@law
@given(rng_seeds)
def test_changed_fleet_equals_one_built_from_the_final_records(seed: int) -> None:
    rng = Random(seed)  # noqa: S311 -- repeatable
    world, fleet = started(rng)
    for _ in range(STEPS):
        if rng.random() < 0.7:
            fleet = fleet.changed(world.change())
        else:
            world.take(fleet)
        if rng.random() < 0.6:  # fills the caches, which must follow
            spec, query = world.spec(), random_query(rng)
            assert answers(fleet, spec, query) == answers(world.fleet(), spec, query)


@law
@given(rng_seeds)
def test_older_fleet_answers_as_before(seed: int) -> None:
    rng = Random(seed)  # noqa: S311
    world, fleet = started(rng)
    kept: list[tuple[Fleet, RequestSpec, CandidateQuery, Answers]] = []
    for _ in range(STEPS):
        spec, query = world.spec(), random_query(rng)
        older, before = fleet, answers(fleet, spec, query) if rng.random() < 0.5 else None
        fleet = fleet.changed(world.change())
        kept.append((older, spec, query, before if before is not None else answers(older, spec, query)))
        world.take(fleet)
    for older, spec, query, before in kept:
        assert answers(older, spec, query) == before


@law
@given(rng_seeds)
def test_copy_answers_the_same_and_changes_alone(seed: int) -> None:
    rng = Random(seed)  # noqa: S311
    world, fleet = started(rng)
    spec, query = world.spec(), random_query(rng)
    before = answers(fleet, spec, query)
    other = fleet.copy()
    assert answers(other, spec, query) == before
    world.take(other)
    other.changed(world.change())
    assert answers(fleet, spec, query) == before


@law
@given(rng_seeds)
def test_empty_change_changes_nothing(seed: int) -> None:
    rng = Random(seed)  # noqa: S311
    world, fleet = started(rng)
    spec, query = world.spec(), random_query(rng)
    assert answers(fleet.changed(FleetChange()), spec, query) == answers(fleet, spec, query)
