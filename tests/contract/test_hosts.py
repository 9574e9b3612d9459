"""Hosts: rows in, values out, the same on every database."""

from dataclasses import replace

import pytest

from covey.model.errors import Conflict
from covey.model.fleet_records import HostRecord
from covey.model.hosts import Host, NewHost
from covey.model.ids import HostId
from covey.model.inventory import AllocationUnits, Inventory, ResourceClass
from covey.storage.store import Store
from tests.build import LATER, NOW, a_host


@pytest.fixture
def three(store: Store) -> list[Host]:
    return add(store, a_host("n1"), a_host("n2"), a_host("N3"))


def add(store: Store, *new: NewHost) -> list[Host]:
    with store.write() as tx:
        tx.hosts.add(new, NOW)
    return every(store)


def every(store: Store) -> list[Host]:
    with store.read() as tx:
        return tx.hosts.find()


def test_stored_host_is_read_back_unchanged(store: Store) -> None:
    new = a_host("n1", 8, 1024, 50, "CUSTOM_SSD", "HW_CPU_X86_AVX")
    (found,) = add(store, new)
    assert found == Host(found.id, new.uuid, "n1", None, False, None, False, NOW, new.inventories, new.traits)


def test_host_is_found_by_id_uuid_and_name(store: Store, three: list[Host]) -> None:
    wanted = three[1]
    with store.read() as tx:
        assert tx.hosts.by_id(wanted.id) == tx.hosts.by_uuid(wanted.uuid) == tx.hosts.by_name("n2") == wanted


def test_provider_that_is_no_host_is_not_found(store: Store, three: list[Host]) -> None:
    with store.read() as tx:
        assert tx.hosts.by_id(0) is tx.hosts.by_uuid(three[0].name) is tx.hosts.by_name("n") is None


def test_page_starts_after_a_host_and_ends_at_the_limit(store: Store, three: list[Host]) -> None:
    first, second, third = three
    with store.read() as tx:
        assert tx.hosts.find(limit=2) == [first, second]
        assert tx.hosts.find(after=second.id, limit=2) == [third]
        assert tx.hosts.find(after=third.id) == tx.hosts.find(limit=0) == []


def test_scheduler_reads_the_state_zone_and_aggregates_of_hosts(store: Store, three: list[Host]) -> None:
    first, second, third = three
    with store.write() as tx:
        zoned, plain = tx.aggregates.add([("u1", "zoned", "az-1", None), ("u2", "plain", None, None)], NOW)
        tx.aggregates.add_hosts([(zoned, first.id), (plain, first.id), (plain, second.id)], NOW)
        tx.hosts.set_state(replace(second, disabled=True), NOW)
        tx.hosts.set_state(replace(third, forced_down=True), NOW)
    expected = [
        HostRecord(first.id, "n1", zone="az-1", aggregates=frozenset({zoned, plain})),
        HostRecord(second.id, "n2", enabled=False, aggregates=frozenset({plain})),
        HostRecord(third.id, "N3", up=False),
    ]
    with store.read() as tx:
        assert tx.fleet_records.all().hosts == expected
        assert tx.fleet_records.of([third.id, 0, first.id], []).hosts == [expected[0], expected[2]]
        assert tx.fleet_records.of([], []).hosts == []


NAMES = {
    "a piece in the middle": ("ode-1", ["node-1", "Node-10"]),
    "a piece in another case": ("NODE-1", ["node-1", "Node-10"]),
    "an underscore, which stands for itself": ("_", ["a_b"]),
    "a percent sign, which stands for itself": ("%", []),
    "nothing, which is in every name": ("", ["node-1", "Node-10", "a_b"]),
}


def test_hosts_are_found_by_part_of_their_name(store: Store, subtests: pytest.Subtests) -> None:
    add(store, a_host("node-1"), a_host("Node-10"), a_host("a_b"))
    for claim, (piece, names) in NAMES.items():
        with subtests.test(claim), store.read() as tx:
            assert [host.name for host in tx.hosts.find(name_has=piece)] == names


def test_taken_host_name_is_a_conflict_and_no_host_is_added(store: Store, three: list[Host]) -> None:
    with pytest.raises(Conflict, match="of that name already exists"), store.write() as tx:
        tx.hosts.add([a_host("n9"), a_host("n1")], NOW)
    assert every(store) == three


def test_host_without_inventories_and_empty_add_are_accepted(store: Store) -> None:
    add(store)
    (bare,) = add(store, replace(a_host("n1"), inventories={}))
    assert (bare.inventories, bare.traits) == ({}, frozenset())


def test_hosts_added_in_one_call_keep_their_own_inventories(store: Store) -> None:
    new = [a_host(f"n{n}", n + 1, 1, 1, f"CUSTOM_{n}") for n in range(2500)]
    found = add(store, *new)
    assert [(h.name, h.uuid, h.inventories, h.traits) for h in found] == [
        (h.name, h.uuid, h.inventories, h.traits) for h in new
    ]


def test_inventory_change_keeps_the_usage(store: Store, three: list[Host]) -> None:
    wanted = {"VCPU": Inventory(99, 1, 2.5, used=7)}
    with store.write() as tx:
        tx.hosts.set_inventories([(three[0].id, wanted)])
        tx.hosts.set_inventories([])
    changed, untouched, _ = every(store)
    assert changed.inventories == {**three[0].inventories, ResourceClass.VCPU: Inventory(99, 1, 2.5, used=0)}
    assert untouched == three[1]


def test_inventories_of_any_class_are_added_and_changed_with_their_units(store: Store, three: list[Host]) -> None:
    gpus = Inventory(8, 1, 2.0, units=AllocationUnits(1, 4, 2))
    for wanted in (gpus, replace(gpus, total=16, units=AllocationUnits())):
        with store.write() as tx:
            tx.resource_classes.add("CUSTOM_GPU", NOW)
            tx.hosts.set_inventories((each.id, {"CUSTOM_GPU": wanted}) for each in three[:2])
        first, second, third = every(store)
        assert first.inventories == {**three[0].inventories, "CUSTOM_GPU": wanted}
        assert second.inventories["CUSTOM_GPU"] == wanted
        assert "CUSTOM_GPU" not in third.inventories


def test_traits_are_added_and_removed(store: Store) -> None:
    (host,) = add(store, a_host("n1", 1, 1, 1, "CUSTOM_A", "CUSTOM_B"))
    with store.write() as tx:
        tx.hosts.add_traits([(host.id, "CUSTOM_C")])
        tx.hosts.remove_traits([(host.id, "CUSTOM_A"), (host.id, "CUSTOM_NEVER_THERE")])
        tx.hosts.add_traits([])
        tx.hosts.remove_traits([])
    assert every(store)[0].traits == {"CUSTOM_B", "CUSTOM_C"}


def test_host_state_is_stored_with_its_time(store: Store, three: list[Host]) -> None:
    wanted = replace(three[0], disabled=True, disabled_reason="broken fan", forced_down=True, updated_at=LATER)
    with store.write() as tx:
        tx.hosts.set_state(wanted, LATER)
    assert every(store) == [wanted, *three[1:]]


def test_zone_list_shows_whether_all_hosts_are_disabled(store: Store, three: list[Host]) -> None:
    first, second, _ = three
    with store.write() as tx:
        (zoned,) = tx.aggregates.add([("u", "a", "z", None)], NOW)
        tx.aggregates.add_hosts([(zoned, first.id)], NOW)
        tx.hosts.set_state(replace(first, disabled=True), NOW)
        tx.hosts.set_state(replace(second, disabled=True), NOW)
    with store.read() as tx:
        assert set(tx.hosts.zones()) == {("z", True), (None, False)}


def test_deleted_host_is_removed_from_its_aggregates(store: Store, three: list[Host]) -> None:
    first, second, third = three
    with store.write() as tx:
        (aggregate,) = tx.aggregates.add([("u", "a", None, None)], NOW)
        tx.aggregates.add_hosts([(aggregate, first.id), (aggregate, second.id)], NOW)
        tx.hosts.delete([third.id, first.id, HostId(0)])
        tx.hosts.delete([])
    with store.read() as tx:
        found = tx.aggregates.by_id(aggregate)
        assert found is not None
        assert found.hosts == ("n2",)
    assert every(store) == [second]
