"""Provider rows on both databases: trees, provider aggregates, the change log, and the migration of old rows."""

import uuid
from collections import Counter
from contextlib import suppress
from datetime import datetime
from functools import partial
from types import NoneType

import sqlalchemy as sa
from alembic import command

from covey.model.access import Actor
from covey.model.allocations import AllocationRequest
from covey.model.changes import UsageChange
from covey.model.errors import ConcurrentUpdate, Conflict, Invalid, TransactionConflict
from covey.model.ids import AggregateId, HostId, ProjectId, UserId
from covey.model.providers import InventoryRecord, ProviderFilter
from covey.model.resources import Resources
from covey.scheduler.fleet import Weights
from covey.services.live_fleet import LiveFleet
from covey.services.placement.allocations import Allocations
from covey.storage import engine, schema, tables
from covey.storage.rows import execute
from covey.storage.store import Store, Transaction
from tests.build import NOW, a_host
from tests.contract.concurrency import OpenAccess, conflicts, run_concurrently

AGGREGATE = str(uuid.UUID(int=7))
CONSUMER = str(uuid.UUID(int=8))


ROWS_OF_BEFORE = """
    INSERT INTO resource_providers (id, uuid, name, created_at, updated_at)
        VALUES (1, 'u1', 'node', '2026-01-01 00:00:00.000000', '2026-01-01 00:00:00.000000');
    INSERT INTO hosts (id, name, updated_at) VALUES (1, 'node', '2026-01-01 00:00:00.000000');
    INSERT INTO inventories (provider_id, resource_class, total, reserved, allocation_ratio)
        VALUES (1, 'VCPU', 8, 0, 1);
    INSERT INTO provider_traits VALUES (1, 'CUSTOM_SSD'), (1, 'HW_CPU_X86_VMX');
    INSERT INTO aggregates (id, uuid, name, created_at)
        VALUES (1, '00000000-0000-0000-0000-000000000007', 'rack', '2026-01-01 00:00:00.000000');
    INSERT INTO aggregate_hosts (aggregate_id, host_id) VALUES (1, 1)
"""


def add(tx: Transaction, name: str, parent: str | None = None) -> str:
    key = str(uuid.uuid4())
    tx.providers.add(key, name, tx.providers.by_uuid(parent) if parent else None, NOW)
    return key


def number(tx: Transaction, key: str) -> int:
    found = tx.providers.by_uuid(key)
    assert found is not None
    return found.id


def test_records_hold_all_of_a_provider(store: Store) -> None:
    with store.write() as tx:
        tx.hosts.add([a_host("node", 8, 16384, 100, "CUSTOM_SSD")], NOW)
        (host,) = tx.hosts.find()
        card = add(tx, "card", host.uuid)
        tx.inventories.put({number(tx, card): {"VGPU": InventoryRecord(4, 1, 2, 3, 1, 2.0)}})
        tx.providers.set_aggregates(number(tx, card), [AGGREGATE])
    with store.read() as tx:
        root, below = tx.fleet_records.all().providers
    assert (root.id, root.parent_id, root.root_id, root.traits) == (host.id, None, None, frozenset({"CUSTOM_SSD"}))
    assert (below.uuid, below.parent_id, below.root_id, below.aggregates) == (
        card,
        host.id,
        host.id,
        frozenset({AGGREGATE}),
    )
    assert below.inventories == {"VGPU": InventoryRecord(4, 1, 2, 3, 1, 2.0, 0)}
    with store.read() as tx:
        assert tx.fleet_records.of([below.id, 0], []).providers == [below]
        assert tx.fleet_records.of([], []).providers == []


def test_change_log_holds_amounts_of_custom_classes(store: Store) -> None:
    with store.write() as tx:
        card = number(tx, add(tx, "card"))
        tx.inventories.put({card: {"VGPU": InventoryRecord(4), "VCPU": InventoryRecord(4)}})
    with store.read() as tx:
        cursor = tx.changes.begin()
    with store.write() as tx:
        assert tx.allocations.take([(card, "VCPU", 1), (card, "VGPU", 3)]) == []
    with store.read() as tx:
        changes = tx.changes.since(cursor, "me")
    assert changes.uses == (UsageChange(card, Resources({"VCPU": 1, "VGPU": 3})),)
    assert not changes.structure


def test_take_returns_amounts_beyond_capacity_and_no_releases(store: Store) -> None:
    with store.write() as tx:
        card = number(tx, add(tx, "card"))
        tx.inventories.put({card: {"VGPU": InventoryRecord(4), "FPGA": InventoryRecord(4)}})
        assert tx.allocations.take([(card, "FPGA", 5), (card, "VGPU", 4)]) == [(card, "FPGA", 5)]
        tx.inventories.put({card: {"VGPU": InventoryRecord(1)}})  # now it is over-full
        assert tx.allocations.take([(card, "VGPU", -1)]) == []
        assert tx.allocations.take([(card, "VGPU", 1)]) == [(card, "VGPU", 1)]


def test_concurrent_creation_makes_one_consumer(store: Store) -> None:
    with store.write() as tx:
        key = add(tx, "card")
        tx.inventories.put({number(tx, key): {"VGPU": InventoryRecord(100)}})
    wanted = [AllocationRequest(CONSUMER, {key: {"VGPU": 1}})]

    def write() -> None:
        with store.write() as tx:
            tx.allocations.clear_consumers(wanted, NOW)

    assert conflicts(run_concurrently([write] * 6)) == []
    with store.read() as tx:
        assert tx.allocations.find_consumers([CONSUMER])[CONSUMER].generation == 6


def test_concurrent_rewrites_and_releases_keep_usage_consistent(store: Store) -> None:
    ledger = Allocations(store, OpenAccess(), lambda: NOW, live_fleet(store))
    operator = Actor(UserId("admin"), ProjectId("admin"), frozenset({"admin"}))
    with store.write() as tx:
        keys = [add(tx, name) for name in ("one", "two", "three")]
        tx.inventories.put(
            {number(tx, key): {"VCPU": InventoryRecord(50), "VGPU": InventoryRecord(50)} for key in keys}
        )

    def rewrite(shift: int) -> None:
        held = {key: {"VCPU": 1 + shift, "VGPU": 2} for key in keys[shift:]}
        ledger.replace(operator, AllocationRequest(CONSUMER, held, "web", "alice"))

    def give_back() -> None:
        with suppress(TransactionConflict), store.write() as tx:
            tx.server_allocations.release(CONSUMER)

    for _ in range(25):
        assert (
            conflicts(run_concurrently([partial(rewrite, 0), give_back, partial(rewrite, 2), partial(rewrite, 1)]))
            == []
        )
        with store.read() as tx:
            held = Counter[tuple[int, str]]()
            for each in tx.allocations.of_consumers([CONSUMER]):
                held[each.provider_id, each.resource_class] += each.used
            used = {
                (r.id, kind): has.used for r in tx.fleet_records.all().providers for kind, has in r.inventories.items()
            }
        assert {key: amount for key, amount in used.items() if amount} == held


def test_concurrent_writers_each_get_their_own_result(store: Store) -> None:
    times: list[datetime] = []

    def clock() -> datetime:
        times.append(NOW)
        return NOW

    ledger = Allocations(store, OpenAccess(), clock, live_fleet(store))
    with store.write() as tx:
        key = add(tx, "card")
        tx.inventories.put({number(tx, key): {"VGPU": InventoryRecord(4)}})
    names = [str(uuid.UUID(int=100 + i)) for i in range(7)]

    def one(who: int, amount: int, generation: int | None = None, on: str = key) -> list[AllocationRequest]:
        return [AllocationRequest(names[who], {on: {"VGPU": amount}}, checked=True, generation=generation)]

    assert ledger.write([one(0, 1), one(1, 1)]) == [None, None]
    assert len(times) == 1, "they share a transaction"
    bad = [one(2, 3), one(3, 1, generation=5), one(4, 1, on=AGGREGATE), one(0, 2)]
    answers = ledger.write([one(5, 1), *bad, one(0, 2, generation=1), one(6, 1)])
    assert [type(answer) for answer in answers] == [
        NoneType, Conflict, ConcurrentUpdate, Invalid, ConcurrentUpdate, NoneType, Conflict,
    ]  # fmt: skip
    with store.read() as tx:
        held = {each.consumer.uuid: each.resources[key]["VGPU"] for each in tx.allocations.by_consumer(names)}
        assert held == {names[0]: 2, names[1]: 1, names[5]: 1}
        assert tx.allocations.find_consumers(names).keys() == held.keys()
        (card,) = tx.fleet_records.all().providers
    assert (card.inventories["VGPU"].used, card.generation) == (4, 4)


def live_fleet(store: Store) -> LiveFleet:
    return LiveFleet(store, lambda: str(uuid.uuid4()), Weights(), "nova")


def test_stale_provider_snapshot_is_harmless(store: Store) -> None:
    live = live_fleet(store)
    ledger = Allocations(store, OpenAccess(), lambda: NOW, live)
    with store.write() as tx:
        key = add(tx, "card")
        tx.inventories.put({number(tx, key): {"VGPU": InventoryRecord(4, max_unit=3)}})
    with store.read() as tx, live.fresh(tx):
        pass

    def write(who: int, **amounts: int) -> BaseException | None:
        wanted = AllocationRequest(str(uuid.UUID(int=100 + who)), {key: amounts}, checked=True)
        (answer,) = ledger.write([[wanted]])
        return answer

    assert write(0, VGPU=3) is None
    assert [
        str(write(who, **request)).partition("'")[0] for who, request in enumerate(({"VGPU": 4}, {"VGPU": 2}), 1)
    ] == ["Unable to allocate inventory: Unable to create allocation for "] * 2
    assert "Inventory for 'FPGA' on resource provider" in str(write(3, FPGA=1))
    assert isinstance(write(0, VGPU=1), ConcurrentUpdate)
    with store.write() as tx:
        tx.server_allocations.release(str(uuid.UUID(int=100)))
        tx.providers.delete(number(tx, key))
    assert "does not exist" in str(write(0, VGPU=1))
    with store.write() as tx:
        add(tx, "another")
        tx.providers.add(key, "card", None, NOW)
        tx.inventories.put({number(tx, key): {"VGPU": InventoryRecord(4)}})
    assert write(0, VGPU=4) is None
    with store.read() as tx:
        used = {each.uuid: [has.used for has in each.inventories.values()] for each in tx.fleet_records.all().providers}
    assert used[key] == [4]


def test_longer_list_reuses_the_query_plan(postgresql_database: str) -> None:
    engine_ = engine.connect(postgresql_database)
    with engine_.connect() as connection:
        for i in range(20):
            execute(connection, "SELECT uuid FROM consumers WHERE uuid IN ?", [CONSUMER] * (1 + i % 7)).fetchall()
        plans = (
            "SELECT SUM(custom_plans), SUM(generic_plans) FROM pg_prepared_statements WHERE statement LIKE '%uuid =%'"
        )
        custom, generic = connection.exec_driver_sql(plans.replace("%", "%%")).one()
    engine_.dispose()
    assert custom <= 5 < generic


def test_mirror_puts_providers_into_the_hosts_aggregates(store: Store) -> None:
    with store.write() as tx:
        tx.hosts.add([a_host("one"), a_host("two")], NOW)
        one, two = (host.id for host in tx.hosts.find())
        (aggregate,) = tx.aggregates.add([(AGGREGATE, "rack", None, None)], NOW)
        tx.aggregates.add_hosts([(aggregate, one), (aggregate, two)], NOW)
    assert members(store) == {"one", "two"}
    with store.write() as tx:
        tx.aggregates.remove_hosts([(AggregateId(aggregate), HostId(one))], NOW)
    assert members(store) == {"two"}


def members(store: Store) -> set[str]:
    with store.read() as tx:
        return {each.name for each in tx.providers.find(ProviderFilter(member_of=(frozenset({AGGREGATE}),)))}


def test_concurrent_creation_of_a_name_reports_one_as_new(store: Store) -> None:
    def make() -> bool:
        with store.write() as tx:
            return tx.traits.add_custom(["CUSTOM_SSD"], NOW)

    assert sorted(run_concurrently([make] * 4)) == [False, False, False, True]  # type: ignore[type-var]


def test_migration_to_placement_keeps_the_hosts_data(empty_database: str) -> None:
    made = engine.connect(empty_database)
    _upgrade(made, "0003")
    with made.begin() as connection:
        for statement in ROWS_OF_BEFORE.split(";"):
            connection.exec_driver_sql(statement)
    schema.upgrade(made)
    store = Store(made)
    with store.read() as tx:
        (record,) = tx.fleet_records.all().providers
        assert tx.traits.custom().keys() == {"CUSTOM_SSD"}
    assert record.inventories == {"VCPU": InventoryRecord(8)}
    assert record.traits == {"CUSTOM_SSD", "HW_CPU_X86_VMX"}
    assert record.aggregates == {AGGREGATE}
    with made.connect() as connection:
        assert connection.execute(sa.select(tables.hosts.c.name)).scalars().all() == ["node"]
    made.dispose()


def _upgrade(made: sa.Engine, version: str) -> None:
    with engine.writer(made).begin() as connection:
        config = schema._config()
        config.attributes["connection"] = connection
        command.upgrade(config, version)
