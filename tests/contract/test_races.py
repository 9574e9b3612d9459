"""Concurrent requests: the rules of zones, scopes and names hold, and each loser gets an error message."""

import itertools
import threading
import uuid
from collections.abc import Callable
from functools import partial

import pytest
import sqlalchemy as sa

from covey.model.aggregates import Aggregate
from covey.model.errors import Conflict, CoveyError, Invalid, NotFound
from covey.model.ids import AggregateId, HostId, ScopeId
from covey.model.scopes import Scope
from covey.services.aggregates import AggregateChange, Aggregates
from covey.services.flavors import Flavors
from covey.storage.store import Store
from tests.build import NOW, a_flavor, a_host, an_admin
from tests.contract.concurrency import (
    OpenAccess,
    conflicts,
    domains_by_host,
    run_concurrently,
    successes,
    zones_by_host,
)

CROWD = 12
ROUNDS = 15
RACK = ScopeId("00000000-0000-0000-0000-0000000000aa")
ADMIN = an_admin()


@pytest.fixture
def aggregates(store: Store) -> Aggregates:
    return Aggregates(store, OpenAccess(), lambda: NOW, lambda: str(uuid.uuid4()))


@pytest.fixture
def host(store: Store) -> HostId:
    return add_hosts(store, "n1")[0]


def add_hosts(store: Store, *names: str) -> list[HostId]:
    with store.write() as tx:
        tx.hosts.add([a_host(name) for name in names], NOW)
        return [host.id for host in tx.hosts.find()]


def add_domains(store: Store, *names: str, scope: ScopeId | None) -> list[AggregateId]:
    with store.write() as tx:
        tx.scopes.add([Scope(RACK, "rack", False, False, str(uuid.uuid4()))])
        return tx.aggregates.add([(str(uuid.uuid4()), name, None, scope) for name in names], NOW)


def only_conflicts(results: list[Aggregate | CoveyError]) -> bool:
    return all(isinstance(error, Conflict) for error in conflicts(results))


@pytest.mark.usefixtures("host")
def test_exactly_one_of_many_concurrent_zones_gets_a_host(aggregates: Aggregates, connected: sa.Engine) -> None:
    made = [aggregates.create(ADMIN, f"a{n}", f"z{n}") for n in range(CROWD)]
    results = run_concurrently([partial(aggregates.add_host, ADMIN, each.id, "n1") for each in made])
    (winner,) = successes(results)
    assert only_conflicts(results)
    assert zones_by_host(connected) == {"n1": winner.zone}
    assert [each.id for each in aggregates.all(ADMIN) if each.hosts] == [winner.id]


@pytest.mark.usefixtures("host")
def test_host_joins_many_aggregates_of_one_zone_concurrently(aggregates: Aggregates, connected: sa.Engine) -> None:
    made = [aggregates.create(ADMIN, f"a{n}", "z" if n % 2 else None) for n in range(CROWD)]
    results = run_concurrently([partial(aggregates.add_host, ADMIN, each.id, "n1") for each in made])
    assert conflicts(results) == []
    assert zones_by_host(connected) == {"n1": "z"}


@pytest.mark.usefixtures("host")
def test_host_that_leaves_all_zoned_aggregates_has_no_zone(aggregates: Aggregates, connected: sa.Engine) -> None:
    made = [aggregates.create(ADMIN, f"a{n}", "z") for n in range(4)]
    for _ in range(ROUNDS):
        for each in made:
            aggregates.add_host(ADMIN, each.id, "n1")
        results = run_concurrently([partial(aggregates.remove_host, ADMIN, each.id, "n1") for each in made])
        assert conflicts(results) == []
        assert zones_by_host(connected) == {"n1": None}


@pytest.mark.usefixtures("host")
def test_zone_without_aggregates_disappears(aggregates: Aggregates, connected: sa.Engine) -> None:
    made = [aggregates.create(ADMIN, f"a{n}", "z") for n in range(4)]
    for each in made:
        aggregates.add_host(ADMIN, each.id, "n1")
    for zone in ("z", None) * ROUNDS:
        change = AggregateChange(rezone=True, zone=zone)
        assert conflicts(run_concurrently([partial(aggregates.update, ADMIN, each.id, change) for each in made])) == []
        assert zones_by_host(connected) == {"n1": zone}


def test_concurrent_zone_renames_never_leave_a_host_in_two_zones(
    aggregates: Aggregates, store: Store, connected: sa.Engine
) -> None:
    add_hosts(store, "n1", "n2", "n3")
    made = [aggregates.create(ADMIN, f"a{n}", "z0") for n in range(2)]
    zones = ["z0", "z1", None]

    def rezone(each: Aggregate) -> None:
        for zone in zones * 4:
            ignoring_model_errors(partial(aggregates.update, ADMIN, each.id, AggregateChange(rezone=True, zone=zone)))

    def rename(each: Aggregate) -> None:
        for zone in zones * 4:
            ignoring_model_errors(
                partial(aggregates.set_metadata, ADMIN, each.id, {"availability_zone": zone, "k": "v"})
            )

    def come_and_go(each: Aggregate, name: str) -> None:
        for _ in range(6):
            ignoring_model_errors(partial(aggregates.add_host, ADMIN, each.id, name))
            ignoring_model_errors(partial(aggregates.remove_host, ADMIN, each.id, name))
        ignoring_model_errors(partial(aggregates.add_host, ADMIN, each.id, name))

    tasks: list[Callable[[], None]] = [partial(rezone, each) for each in made]
    tasks += [partial(rename, each) for each in made]
    tasks += [partial(come_and_go, each, name) for each, name in itertools.product(made, ("n1", "n2", "n3"))]
    assert conflicts(run_concurrently(tasks)) == []
    assert set(zones_by_host(connected).values()) <= set(zones)


def ignoring_model_errors(change: Callable[[], object]) -> None:
    """Return the task without its model errors; any other error fails the test."""
    try:
        change()
    except CoveyError as error:
        assert isinstance(error, Conflict | Invalid | NotFound), error  # noqa: PT017 -- these three are answers


def test_exactly_one_of_two_concurrent_domains_gets_a_host(store: Store, host: HostId, connected: sa.Engine) -> None:
    domains = add_domains(store, "r1", "r2", "r3", "r4", scope=RACK)

    def join(domain: AggregateId) -> AggregateId:
        with store.write() as tx:
            tx.aggregates.add_hosts([(domain, host)], NOW)
        return domain

    def leave(domain: AggregateId) -> None:
        with store.write() as tx:
            tx.aggregates.remove_hosts([(domain, host)], NOW)

    for _ in range(ROUNDS):
        results = run_concurrently([partial(join, domain) for domain in domains])
        (winner,) = successes(results)
        assert all(isinstance(error, Conflict) for error in conflicts(results))
        assert domains_by_host(connected) == {(host, RACK): winner}
        leave(winner)


def test_aggregate_joins_scope_while_its_host_joins_another_domain(
    store: Store, host: HostId, connected: sa.Engine
) -> None:
    late, domain = add_domains(store, "late", "r1", scope=None)

    def become_domain() -> None:
        with store.write() as tx:
            tx.aggregates.set_scope([late], RACK, NOW)

    def join(aggregate: AggregateId) -> None:
        with store.write() as tx:
            tx.aggregates.add_hosts([(aggregate, host)], NOW)

    def start_over() -> None:
        with store.write() as tx:
            tx.aggregates.remove_hosts([(late, host), (domain, host)], NOW)
            tx.aggregates.set_scope([late], None, NOW)
            tx.aggregates.set_scope([domain], RACK, NOW)

    for _ in range(ROUNDS):
        start_over()
        tasks: list[Callable[[], None]] = [become_domain, partial(join, late), partial(join, domain)]
        results = run_concurrently(tasks)
        assert all(isinstance(error, Conflict) for error in conflicts(results))
        assert len(conflicts(results)) <= 1, "two of the three can always stand together"
        domains_by_host(connected)


def test_adding_a_host_waits_for_its_aggregate_to_join_a_scope(
    store: Store, host: HostId, connected: sa.Engine
) -> None:
    (late,) = add_domains(store, "late", scope=None)
    in_the_middle, go_on = threading.Event(), threading.Event()

    def become_domain() -> None:
        with store.write() as tx:
            tx.aggregates.set_scope([late], RACK, NOW)
            in_the_middle.set()
            go_on.wait(0.3)

    def join() -> None:
        in_the_middle.wait(5)
        with store.write() as tx:
            tx.aggregates.add_hosts([(late, host)], NOW)
        go_on.set()

    assert conflicts(run_concurrently([become_domain, join])) == []
    assert domains_by_host(connected) == {(host, RACK): late}


def test_one_of_two_overlapping_aggregates_joins_a_scope(store: Store, connected: sa.Engine) -> None:
    shared = add_hosts(store, *(f"n{n}" for n in range(20)))
    first, second = add_domains(store, "r1", "r2", scope=None)
    with store.write() as tx:  # in opposite orders, so that locking in row order would deadlock
        tx.aggregates.add_hosts([(first, host) for host in shared], NOW)
        tx.aggregates.add_hosts([(second, host) for host in reversed(shared)], NOW)

    def scope(domain: AggregateId, scope: ScopeId | None) -> AggregateId:
        with store.write() as tx:
            tx.aggregates.set_scope([domain], scope, NOW)
        return domain

    for _ in range(ROUNDS):
        results = run_concurrently([partial(scope, domain, RACK) for domain in (first, second)])
        (winner,) = successes(results)
        (loser,) = conflicts(results)
        assert loser.message == "A host of the aggregate is already in another domain of that scope."
        assert set(domains_by_host(connected).values()) == {winner}
        scope(winner, None)


def test_exactly_one_of_many_concurrent_aggregates_of_a_name_is_created(aggregates: Aggregates) -> None:
    results = run_concurrently([partial(aggregates.create, ADMIN, "fast", None)] * 20)
    assert len(successes(results)) == 1
    assert {error.message for error in conflicts(results)} == {"Aggregate fast already exists."}
    assert only_conflicts(results)


def test_exactly_one_of_many_concurrent_flavors_of_a_name_is_created(store: Store) -> None:
    flavors = Flavors(store, OpenAccess(), lambda: NOW)
    new = [a_flavor("small", id=f"id-{n}") for n in range(20)]
    results = run_concurrently([partial(flavors.create, ADMIN, flavor) for flavor in new])
    assert len(successes(results)) == 1
    assert {error.message for error in conflicts(results)} == {"Flavor with name small already exists."}
    assert all(isinstance(error, Conflict) for error in conflicts(results))


def test_host_deleted_while_it_joins_an_aggregate_leaves_no_rows(
    aggregates: Aggregates, store: Store, connected: sa.Engine
) -> None:
    made = aggregates.create(ADMIN, "a", "z")

    def delete(host: HostId) -> None:
        with store.write() as tx:
            tx.hosts.delete([host])

    for _ in range(ROUNDS):
        (host,) = add_hosts(store, "n1")
        tasks: list[Callable[[], object]] = [
            partial(delete, host),
            partial(aggregates.add_host, ADMIN, made.id, "n1"),
        ]
        results = run_concurrently(tasks)
        assert all(isinstance(error, Conflict | NotFound) for error in conflicts(results))
        assert zones_by_host(connected) == {}
        assert aggregates.get(ADMIN, made.id).hosts == ()
