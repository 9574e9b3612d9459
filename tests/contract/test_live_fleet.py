"""The fleet in memory reflects every change of rows, once, and is not loaded again for it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from uuid import uuid4

import pytest
import sqlalchemy as sa

from covey.model.changes import UsageChange
from covey.model.groups import Group
from covey.model.hosts import NewHost
from covey.model.ids import AggregateId, GroupId, HostId, ProjectId, ScopeId, UserId
from covey.model.inventory import Inventory, ResourceClass
from covey.model.providers import InventoryRecord, Provider
from covey.model.resources import Resources, server_resources
from covey.model.scopes import Scope
from covey.scheduler.candidates.flat import can_allocate
from covey.scheduler.fleet import Fleet, Weights
from covey.services.live_fleet import LiveFleet
from covey.storage import engine
from covey.storage.store import Store, Transaction
from tests.fleet_in_memory import differences

NOW = datetime(2026, 1, 1)  # noqa: DTZ001 -- as the database has it
VF = "SRIOV_NET_VF"
EAST = "00000000-0000-0000-0000-0000000000ea"


def add(store: Store, name: str, parent: str | None = None, **inventories: int) -> None:
    with store.write() as tx:
        tx.providers.add(name, name, tx.providers.by_uuid(parent) if parent else None, NOW)
        made = tx.providers.by_uuid(name)
        assert made is not None
        tx.inventories.put({made.id: {kind: InventoryRecord(total) for kind, total in inventories.items()}})


def one(store: Store, name: str) -> Provider:
    with store.read() as tx:
        found = tx.providers.by_uuid(name)
    assert found is not None
    return found


def take(store: Store, name: str, **amounts: int) -> None:
    provider = one(store, name).id
    with store.write() as tx:
        assert tx.allocations.take([(provider, kind, amount) for kind, amount in amounts.items()]) == []


def live_fleet(store: Store) -> LiveFleet:
    return LiveFleet(store, lambda: str(uuid4()), Weights(), "nova", isolate_aggregates=True)


def look(store: Store, live: LiveFleet) -> Fleet:
    """Return the fleet in memory, which must equal the rows."""
    assert differences(store, live, live_fleet(store)) == {}
    with store.read() as tx, live.fresh(tx) as seen:
        return seen.fleet


def tag(store: Store, live: LiveFleet) -> str:
    """Return the tag, which is another one after a load."""
    with store.read() as tx, live.fresh(tx) as seen:
        return seen.tag


def used(seen: Fleet, name: str, resource_class: str) -> int:
    line, row = seen.inventories.classes[resource_class], seen.row_of_uuid.get(name)
    assert row is not None
    return int(seen.capacity[line, row] - seen.free[line, row])


@pytest.fixture
def fleet(store: Store) -> Store:
    """A host with a network card below it."""
    add(store, "host", VCPU=8, MEMORY_MB=512, DISK_GB=10)
    add(store, "card", "host", SRIOV_NET_VF=4)
    return store


def test_usage_changes_are_seen_without_a_reload(fleet: Store) -> None:
    live = live_fleet(fleet)
    before = look(fleet, live)
    take(fleet, "host", VCPU=3, MEMORY_MB=100)
    take(fleet, "card", SRIOV_NET_VF=2)
    after = look(fleet, live)
    assert after is before
    assert (used(after, "host", "VCPU"), used(after, "host", "MEMORY_MB"), used(after, "card", VF)) == (3, 100, 2)
    take(fleet, "card", SRIOV_NET_VF=-1)
    assert used(look(fleet, live), "card", VF) == 1
    assert used(look(fleet, live), "card", VF) == 1


def test_claim_of_another_process_is_seen(fleet: Store) -> None:
    live = live_fleet(fleet)
    look(fleet, live)
    with fleet.write() as tx:
        use = UsageChange(one(fleet, "host").id, server_resources(2, 0, 0))
        tx.changes.add_uses([use], "the tag of a fleet in memory")
    with fleet.read() as tx, live.fresh(tx) as seen:
        assert used(seen.fleet, "host", "VCPU") == 2


def test_new_providers_inventories_traits_and_aggregates_are_seen(fleet: Store) -> None:
    live = live_fleet(fleet)
    look(fleet, live)
    add(fleet, "other", VCPU=1)
    assert look(fleet, live).present.tolist() == [True, True, True]
    host = one(fleet, "host").id
    with fleet.write() as tx:
        tx.inventories.put({host: {"VCPU": InventoryRecord(1)}})
        tx.traits.replace(host, ["HW_CPU_X86_AVX"])
        tx.providers.set_aggregates(host, [EAST])
    seen = look(fleet, live)
    assert can_allocate(seen, "VCPU", 2).tolist() == [False, False, False]
    assert seen.traits.any_of(["HW_CPU_X86_AVX"]).tolist() == [True, False, False]
    assert seen.member_of.any_of([EAST]).tolist() == [True, False, False]
    with fleet.write() as tx:
        tx.providers.delete(one(fleet, "other").id)
    assert look(fleet, live).present.tolist() == [True, True, False]


STRUCTURAL_CHANGES: dict[str, Callable[[Transaction, list[HostId], AggregateId], object]] = {
    "inventory": lambda tx, hosts, _: tx.hosts.set_inventories([(hosts[0], {ResourceClass.VCPU: Inventory(99)})]),
    "new class": lambda tx, hosts, _: tx.inventories.put({hosts[0]: {"CUSTOM_GPU": InventoryRecord(2)}}),
    "dropped class": lambda tx, hosts, _: tx.inventories.drop([(hosts[1], "DISK_GB")]),
    "trait": lambda tx, hosts, _: tx.hosts.add_traits([(hosts[0], "CUSTOM_SSD")]),
    "lost trait": lambda tx, hosts, _: tx.hosts.remove_traits([(hosts[1], "CUSTOM_OLD")]),
    "disabled": lambda tx, hosts, _: _disable(tx, hosts[0]),
    "new host": lambda tx, _, __: tx.hosts.add([a_host("late")], NOW),
    "deleted host": lambda tx, hosts, _: tx.hosts.delete([hosts[2]]),
    "joins a domain": lambda tx, hosts, rack: tx.aggregates.add_hosts([(rack, hosts[1])], NOW),
    "leaves a domain": lambda tx, hosts, rack: tx.aggregates.remove_hosts([(rack, hosts[0])], NOW),
    "zone": lambda tx, _, rack: tx.aggregates.set_zone(rack, "east", NOW),
    "scope": lambda tx, _, rack: tx.aggregates.set_scope([rack], None, NOW),
    "tenant isolation": lambda tx, _, rack: tx.aggregates.set_metadata(rack, {"filter_tenant_id": "web"}, NOW),
    "licences": lambda tx, _, rack: tx.aggregates.set_metadata(rack, {"trait:CUSTOM_OLD": "required"}, NOW),
    "new domain": lambda tx, _, __: tx.aggregates.add([(EAST, "r9", None, None)], NOW),
    "child provider": lambda tx, hosts, _: tx.providers.add("child", "child", _provider(tx, hosts[0]), NOW),
    "placement aggregates": lambda tx, hosts, _: tx.providers.set_aggregates(hosts[0], [EAST]),
}


@pytest.mark.parametrize("change", STRUCTURAL_CHANGES.values(), ids=STRUCTURAL_CHANGES)
def test_structural_change_is_applied_without_a_load(
    store: Store, change: Callable[[Transaction, list[HostId], AggregateId], object]
) -> None:
    with store.write() as tx:
        tx.hosts.add([a_host(name) for name in ("one", "two", "three")], NOW)
        hosts = [host.id for host in tx.hosts.find()]
        tx.scopes.add([Scope(ScopeId(EAST), "rack", True, False, EAST)])
        (rack,) = tx.aggregates.add([(str(uuid4()), "r1", None, ScopeId(EAST))], NOW)
        tx.aggregates.add_hosts([(rack, hosts[0])], NOW)
    live = live_fleet(store)
    look(store, live)
    before = tag(store, live)
    with store.write() as tx:
        tx.claims.take([UsageChange(hosts[0], server_resources(1, 64, 1))])
        tx.changes.add_uses([UsageChange(hosts[0], server_resources(1, 64, 1))])
    with store.write() as tx:
        change(tx, hosts, rack)
    with store.write() as tx:
        tx.claims.take([UsageChange(hosts[1], server_resources(1, 64, 0))])
        tx.changes.add_uses([UsageChange(hosts[1], server_resources(1, 64, 0))])
    look(store, live)
    assert tag(store, live) == before


def test_own_claim_in_flight_survives_a_structural_change_of_its_host(store: Store) -> None:
    with store.write() as tx:
        tx.hosts.add([a_host("one")], NOW)
        (host,) = [found.id for found in tx.hosts.find()]
    live = live_fleet(store)
    with store.read() as tx, live.fresh(tx) as snapshot:
        snapshot.fleet.take(0, Resources({"VCPU": 3}))  # planned, not yet committed
        own = snapshot.tag
    with store.write() as tx:
        tx.hosts.set_inventories([(host, {ResourceClass.VCPU: Inventory(16)})])
    with store.read() as tx, live.fresh(tx) as snapshot:
        assert int(snapshot.fleet.free[0, 0]) == 13
    with store.write() as tx:
        tx.claims.take([UsageChange(host, server_resources(3, 0, 0))])
        tx.changes.add_uses([UsageChange(host, server_resources(3, 0, 0))], own)
    look(store, live)


def _disable(tx: Transaction, host: HostId) -> None:
    found = tx.hosts.by_id(host)
    assert found is not None
    tx.hosts.set_state(replace(found, disabled=True), NOW)


def _provider(tx: Transaction, host: HostId) -> Provider:
    found = tx.hosts.by_id(host)
    assert found is not None
    provider = tx.providers.by_uuid(found.uuid)
    assert provider is not None
    return provider


def a_host(name: str) -> NewHost:
    sizes = {ResourceClass.VCPU: 8, ResourceClass.MEMORY_MB: 8192, ResourceClass.DISK_GB: 100}
    inventories = {str(kind): Inventory(total) for kind, total in sizes.items()}
    return NewHost(str(uuid4()), name, inventories, frozenset({"CUSTOM_OLD"}))


def test_two_processes_see_the_same_fleet(fleet: Store) -> None:
    first, second = live_fleet(fleet), live_fleet(fleet)
    look(fleet, first)
    take(fleet, "host", VCPU=1)
    look(fleet, second)
    take(fleet, "host", VCPU=1)
    assert used(look(fleet, first), "host", "VCPU") == used(look(fleet, second), "host", "VCPU") == 2


def test_host_that_refuses_claims_of_one_look_keeps_the_fleet(fleet: Store) -> None:
    """A concurrent claim may be faster than several moves. The next look reads it."""
    live = live_fleet(fleet)
    host = frozenset({HostId(one(fleet, "host").id)})
    before = tag(fleet, live)
    for _ in range(2):
        with fleet.read() as tx, live.fresh(tx) as seen:
            at = seen.version
        live.refused(at, host)
        live.refused(at, host)
        take(fleet, "host", VCPU=1)  # explains them
        assert tag(fleet, live) == before
    with fleet.read() as tx, live.fresh(tx) as seen:
        first = seen.version
    live.refused(first, host)
    with fleet.read() as tx, live.fresh(tx) as seen:
        second = seen.version
    live.refused(second, host)
    assert tag(fleet, live) != before


@pytest.fixture
def postgresql(postgresql_database: str) -> Iterator[sa.Engine]:
    """A PostgreSQL database without providers."""
    connected = engine.connect(postgresql_database)
    with connected.begin() as connection:
        for table in ("fleet_changes", "resource_providers"):
            connection.execute(sa.text(f"TRUNCATE {table} CASCADE"))
    yield connected
    connected.dispose()


def test_committed_change_is_seen_while_an_older_transaction_is_open(postgresql: sa.Engine) -> None:
    store = Store(postgresql)
    live = live_fleet(store)
    add(store, "host", VCPU=8)
    look(store, live)
    with postgresql.connect() as slow, slow.begin():
        slow.execute(sa.text("SELECT pg_current_xact_id()"))
        take(store, "host", VCPU=3)
        assert used(look(store, live), "host", "VCPU") == 3
        take(store, "host", VCPU=1)
        assert used(look(store, live), "host", "VCPU") == 4
    assert used(look(store, live), "host", "VCPU") == 4
    take(store, "host", VCPU=1)
    assert used(look(store, live), "host", "VCPU") == 5


def test_change_after_a_look_in_the_same_transaction_is_seen(postgresql: sa.Engine) -> None:
    """A write of allocations of group members locks groups, looks at the fleet, and takes room."""
    store = Store(postgresql)
    live = live_fleet(store)
    add(store, "host", VCPU=8)
    add(store, "other", VCPU=8)
    look(store, live)
    group = Group(GroupId(str(uuid4())), "group", ProjectId("web"), UserId("alice"), (), 0, NOW)
    with store.write() as tx:
        tx.groups.add(group)
    with store.write() as tx:
        tx.groups.lock([group.id])
        take(store, "other", VCPU=1)  # by a later transaction, which ends first
        with live.fresh(tx):
            pass
        tx.allocations.take([(one(store, "host").id, "VCPU", 8)])
    seen = look(store, live)
    assert (used(seen, "host", "VCPU"), used(seen, "other", "VCPU")) == (8, 1)
    take(store, "host", VCPU=-8)
    assert used(look(store, live), "host", "VCPU") == 0


def test_fleet_is_read_while_all_connections_of_the_pool_are_taken(store: Store, database: str) -> None:
    """Threads hold a connection each while they wait for the fleet."""
    with store.write() as tx:
        tx.hosts.add([a_host("one")], NOW)
    small = engine.connect(database, pool_size=1, limits=engine.TimeLimits(pool_s=0.2))
    other = Store(small)
    live = live_fleet(other)
    with other.read() as tx, live.fresh(tx) as seen:
        assert len(seen.fleet) == 1
    with store.write() as tx:
        tx.hosts.add([a_host("two")], NOW)
    with other.read() as tx, live.fresh(tx) as seen:
        assert len(seen.fleet) == 2
    small.dispose()
