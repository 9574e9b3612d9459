"""Claims on several hosts lock in one order, so two claims cannot deadlock."""

from functools import partial

import pytest

from covey.model.changes import UsageChange
from covey.model.claims import NewServer, Plan
from covey.model.errors import CoveyError, StaleClaim
from covey.model.ids import HostId, ProjectId, ServerId, UserId
from covey.model.providers import InventoryRecord
from covey.model.resources import server_resources
from covey.model.servers import Power, Server, VmState
from covey.storage.store import Store
from tests.build import NOW, a_flavor, a_host
from tests.contract.concurrency import run_concurrently

ROUNDS = 60
FLAVOR = a_flavor("tiny", vcpus=1, memory_mb=512, disk_gb=1)
SIZE = (1, 512, 1)
AMOUNTS = server_resources(*SIZE)


def a_server(name: str, host: HostId) -> NewServer:
    server = Server(
        id=ServerId(name),
        name=name,
        project_id=ProjectId("web"),
        user_id=UserId("alice"),
        flavor=FLAVOR,
        vm_state=VmState.ACTIVE,
        task=None,
        power=Power.RUNNING,
        created_at=NOW,
        updated_at=NOW,
        host_id=host,
    )
    return NewServer(server, "req-1", {host: AMOUNTS})


def hosts(store: Store) -> tuple[HostId, HostId]:
    with store.write() as tx:
        tx.hosts.add([a_host("one"), a_host("two")], NOW)
        one, two = tx.hosts.find()
    return one.id, two.id


def test_two_servers_that_swap_hosts_do_not_deadlock(store: Store) -> None:
    one, two = hosts(store)
    with store.write() as tx:
        tx.claims.commit(Plan(placed=[a_server("a", one), a_server("b", two)]), "", 0, None)

    def relocate(server: str, host: HostId) -> CoveyError | None:
        with store.write() as tx:
            tx.server_allocations.relocate(server, {host: AMOUNTS})
        return None

    for number in range(ROUNDS):
        here, there = (two, one) if number % 2 else (one, two)
        results = run_concurrently([partial(relocate, "a", there), partial(relocate, "b", here)])
        assert results == [None, None]


def test_each_server_takes_an_amount_that_its_inventory_allows(store: Store) -> None:
    one, two = hosts(store)
    with store.write() as tx:
        tx.inventories.put({one: {"VCPU": InventoryRecord(8, step_size=2)}})
    with pytest.raises(StaleClaim) as stale, store.write() as tx:  # both together take two
        tx.claims.commit(Plan(placed=[a_server("a", one), a_server("b", one), a_server("c", two)]), "", 0, None)
    assert stale.value.hosts == {one}
    with store.write() as tx:
        tx.claims.commit(Plan(placed=[a_server("c", two)]), "", 0, None)
    with pytest.raises(StaleClaim), store.write() as tx:
        tx.server_allocations.relocate("c", {one: AMOUNTS})
    with store.write() as tx:
        tx.server_allocations.relocate("c", {one: server_resources(2, 512, 1)})
        tx.inventories.put({one: {"VCPU": InventoryRecord(8, step_size=4)}})
        released = tx.server_allocations.release("c")  # always allowed
        assert released == [UsageChange(one, server_resources(-2, -512, -1))]


def test_release_and_claim_on_two_hosts_do_not_deadlock(store: Store) -> None:
    one, two = hosts(store)
    for number in range(ROUNDS):
        name = f"s{number}"
        with store.write() as tx:
            tx.claims.commit(Plan(placed=[a_server(name, one)]), "", 0, None)
            tx.server_allocations.give_to_migration(ServerId(name), f"move-of-{name}")
            tx.claims.take([UsageChange(two, AMOUNTS)])
            tx.server_allocations.allocate(name, {two: AMOUNTS})

        def release_first(name: str = name) -> CoveyError | None:
            with store.write() as tx:
                # The server is on the second host, its migration on the first.
                tx.server_allocations.release(name, f"move-of-{name}")
            return None

        def take(name: str = name) -> CoveyError | None:
            with store.write() as tx:
                tx.claims.commit(Plan(placed=[a_server(f"{name}-1", one), a_server(f"{name}-2", two)]), "", 0, None)
                tx.server_allocations.release(f"{name}-2", f"{name}-1")
            return None

        assert run_concurrently([release_first, take]) == [None, None]


def test_limits_are_found_for_any_project_name(store: Store) -> None:
    names = ["web", "a,b", '{"c"}', "d\\", "", "NULL", "é \n"]
    with store.write() as tx:
        for number, name in enumerate(names):
            tx.quotas.set_for_project(ProjectId(name), {"cores": number})
    with store.write() as tx:
        _, limits = tx.claims.lock_groups([], map(ProjectId, [*names[1:], "b"]))
    assert limits == {name: {"cores": number} for number, name in enumerate(names) if name != "web"}
