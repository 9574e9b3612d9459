"""The in-memory provider snapshot reflects every change, once."""

from datetime import datetime

import pytest
import sqlalchemy as sa

from covey.model.changes import UsageChange
from covey.model.providers import InventoryRecord, Provider
from covey.scheduler.candidates.find import summaries
from covey.scheduler.candidates.flat import can_allocate
from covey.scheduler.fleet import Fleet
from covey.services.placement.live_providers import LiveProviders
from covey.storage import engine
from covey.storage.store import Store

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


def look(store: Store, live: LiveProviders) -> Fleet:
    """The snapshot, which must equal the rows."""
    with store.read() as tx, live.fresh(tx) as seen:
        stored = Fleet(tx.providers.records())
        assert summaries(range(len(seen)), seen) == summaries(range(len(stored)), stored)
        return seen


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
    live = LiveProviders()
    before = look(fleet, live)
    take(fleet, "host", VCPU=3, MEMORY_MB=100)
    take(fleet, "card", SRIOV_NET_VF=2)
    after = look(fleet, live)
    assert after is before
    assert (used(after, "host", "VCPU"), used(after, "host", "MEMORY_MB"), used(after, "card", VF)) == (3, 100, 2)
    take(fleet, "card", SRIOV_NET_VF=-1)
    assert used(look(fleet, live), "card", VF) == 1
    assert used(look(fleet, live), "card", VF) == 1


def test_claim_of_this_process_is_seen_like_any_other(fleet: Store) -> None:
    live = LiveProviders()
    look(fleet, live)
    with fleet.write() as tx:
        tx.changes.add_uses([UsageChange(one(fleet, "host").id, 2, 0, 0)], "the tag of a fleet in memory")
    with fleet.read() as tx, live.fresh(tx) as seen:
        assert used(seen, "host", "VCPU") == 2


def test_new_providers_inventories_traits_and_aggregates_are_seen(fleet: Store) -> None:
    live = LiveProviders()
    look(fleet, live)
    add(fleet, "other", VCPU=1)
    assert len(look(fleet, live)) == 3
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
    assert len(look(fleet, live)) == 2


def test_two_processes_see_the_same_fleet(fleet: Store) -> None:
    first, second = LiveProviders(), LiveProviders()
    look(fleet, first)
    take(fleet, "host", VCPU=1)
    look(fleet, second)
    take(fleet, "host", VCPU=1)
    assert used(look(fleet, first), "host", "VCPU") == used(look(fleet, second), "host", "VCPU") == 2


def test_committed_change_is_seen_while_an_older_transaction_is_open(postgresql_database: str) -> None:
    connected = engine.connect(postgresql_database)
    store, live = Store(connected), LiveProviders()
    with connected.begin() as connection:
        for table in ("fleet_changes", "resource_providers"):
            connection.execute(sa.text(f"TRUNCATE {table} CASCADE"))
    add(store, "host", VCPU=8)
    look(store, live)
    with connected.connect() as slow, slow.begin():
        slow.execute(sa.text("SELECT pg_current_xact_id()"))
        take(store, "host", VCPU=3)
        assert used(look(store, live), "host", "VCPU") == 3
        take(store, "host", VCPU=1)
        assert used(look(store, live), "host", "VCPU") == 4
    assert used(look(store, live), "host", "VCPU") == 4
    take(store, "host", VCPU=1)
    assert used(look(store, live), "host", "VCPU") == 5
    connected.dispose()
