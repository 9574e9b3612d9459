"""A fleet after a change of its structure."""

from dataclasses import replace
from time import thread_time

import numpy as np
import pytest

from covey.model.fleet_records import AggregateRecord, FleetChange, HostRecord
from covey.model.ids import HostId
from covey.model.providers import InventoryRecord, ProviderRecord
from covey.model.resources import Resources, server_resources
from covey.scheduler.candidates import CandidateQuery, RequestGroup, find
from covey.scheduler.decide import allowed_hosts, decide
from covey.scheduler.explain import explain
from covey.scheduler.fleet import NO_DOMAIN, Fleet
from tests.unit.scheduler.fleets import RACK, anti_affinity, domain, fleet, host, hosts, hosts_in, requirements, spec

GPU = "CUSTOM_GPU"


def racks() -> Fleet:
    """Four hosts, two in each of two racks."""
    found = fleet(*hosts(4), domain(71, 1, 2), domain(72, 3, 4))
    allowed_hosts(spec(anti_affinity(RACK)), found)  # fills the caches
    return found


def moved(before: Fleet, number: int, **fields: object) -> Fleet:
    changed = replace(before.hosts[number - 1], **fields)  # type: ignore[arg-type]
    return before.changed(FleetChange(hosts={number: changed}))


def provider(number: int, uuid: str | None = None, **inventories: InventoryRecord) -> ProviderRecord:
    name = f"n{number}"
    return ProviderRecord(number, uuid or f"uuid-of-{name}", name, None, None, 0, inventories)


def rack_of(example: Fleet, number: int) -> str | None:
    domains = example.domains(RACK.id)
    found = int(domains.of_host[example.row_of[number]])
    return None if found == NO_DOMAIN else domains.names[found]


def test_host_that_changes_racks_is_in_the_other_domain() -> None:
    before = racks()
    after = moved(before, 2, aggregates=frozenset({72}))
    assert [rack_of(after, number) for number in (1, 2, 3, 4)] == ["71", "72", "72", "72"]
    assert hosts_in(after, allowed_hosts(spec(anti_affinity(RACK), members_by_host={3: 1}), after)) == {1}
    assert [rack_of(before, number) for number in (1, 2, 3, 4)] == ["71", "71", "72", "72"]


def test_host_in_two_racks_is_ambiguous() -> None:
    after = moved(racks(), 2, aggregates=frozenset({71, 72}))
    assert rack_of(after, 2) is None
    assert after.domains(RACK.id).ambiguous.tolist() == [False, True, False, False]


@pytest.mark.parametrize("state", ["enabled", "up"])
def test_unavailable_host_takes_no_server(state: str) -> None:
    after = moved(racks(), 2, **{state: False})
    assert hosts_in(after, allowed_hosts(spec(), after)) == {1, 3, 4}
    assert after.available.tolist() == [True, False, True, True]
    again = moved(after, 2, **{state: True})
    assert hosts_in(again, allowed_hosts(spec(), again)) == {1, 2, 3, 4}


def test_zone_and_name_change() -> None:
    after = moved(moved(racks(), 2, zone="az-1"), 3, name="other")
    assert after.zones == {"nova", "az-1"}
    assert hosts_in(after, allowed_hosts(requirements(zone="az-1"), after)) == {2}
    assert (after.row_of_name.get("other"), after.row_of_name.get("n3")) == (2, None)
    assert after.domains(None).number("other") == 2
    assert after.names[2] == "other"


def test_trait_changes() -> None:
    before = racks()
    record = replace(host(2).provider(), traits=frozenset({"CUSTOM_SSD"}))
    after = before.changed(FleetChange({2: record}))
    requested = requirements(required_traits=frozenset({"CUSTOM_SSD"}))
    assert hosts_in(after, allowed_hosts(requested, after)) == {2}
    assert hosts_in(before, allowed_hosts(requested, before)) == set()


def test_scope_of_an_aggregate_changes() -> None:
    before = racks()
    aggregate = before.aggregates[71]
    after = before.changed(FleetChange(aggregates={71: replace(aggregate, scope=None)}))
    assert [rack_of(after, number) for number in (1, 2, 3, 4)] == [None, None, "72", "72"]
    again = after.changed(FleetChange(aggregates={71: aggregate}))
    assert [rack_of(again, number) for number in (1, 2, 3, 4)] == ["71", "71", "72", "72"]


def test_new_aggregate_isolates_its_hosts() -> None:
    before = racks()
    closed = AggregateRecord(70, "uuid-70", traits=frozenset({"CUSTOM_LICENSED"}))
    after = moved(before.changed(FleetChange(aggregates={70: closed})), 1, aggregates=frozenset({70, 71}))
    assert hosts_in(after, allowed_hosts(spec(), after)) == {2, 3, 4}
    assert list(after.aggregates) == [70, 71, 72]
    gone = after.changed(FleetChange(aggregates={70: None}))
    assert hosts_in(gone, allowed_hosts(spec(), gone)) == {1, 2, 3, 4}


def test_use_of_a_known_inventory_stays_and_that_of_a_new_one_is_read() -> None:
    before = racks()
    before.take_all([(2, server_resources(3, 1024, 10))])
    record = provider(2, VCPU=InventoryRecord(16, used=1), CUSTOM_GPU=InventoryRecord(4, used=1))
    after = before.changed(FleetChange({2: record}))
    assert after.inventories.free_of("VCPU").tolist() == [8, 13, 8, 8]
    assert after.inventories.free_of(GPU).tolist() == [0, 3, 0, 0]
    assert after.inventories.free_of("DISK_GB").tolist() == [100, 0, 100, 100]  # it has no disk any more
    assert before.inventories.free_of("VCPU").tolist() == [8, 5, 8, 8]


def test_other_provider_of_the_same_id_has_its_own_use() -> None:
    before = racks()
    before.take_all([(2, server_resources(3, 1024, 10))])
    after = before.changed(FleetChange({2: provider(2, "another", VCPU=InventoryRecord(8, used=1))}))
    assert after.inventories.free_of("VCPU").tolist() == [8, 7, 8, 8]
    assert (after.row_of_uuid.get("another"), after.row_of_uuid.get("uuid-of-n2")) == (1, None)


def test_amounts_of_a_class_that_a_provider_lacks_do_not_count() -> None:
    example = racks()
    example.take_all([(1, Resources({GPU: -5})), (2, Resources({GPU: 1, "VCPU": 1}))])
    after = example.changed(FleetChange({1: provider(1, CUSTOM_GPU=InventoryRecord(2))}))
    after.take_all([(2, Resources({GPU: -5}))])
    assert after.inventories.free_of(GPU).tolist() == [2, 0, 0, 0]
    assert hosts_in(after, after.fits(Resources({GPU: 1}))) == {1}
    assert not after.fits(Resources({"CUSTOM_FPGA": 1})).any()


def test_host_without_a_requested_class_lacks_it() -> None:
    after = racks().changed(FleetChange({1: replace(host(1).provider(), inventories={GPU: InventoryRecord(2)})}))
    requested = replace(spec(), amounts=Resources({GPU: 3}))
    assert explain(requested, after).sentence() == f"of 4 hosts: 4 lack {GPU}"
    assert decide(replace(requested, amounts=Resources({GPU: 1}), count=3, minimum=1), after, 1).chosen == (1, 1)


def test_host_that_is_gone_leaves_no_trace() -> None:
    before = racks()
    after = before.changed(FleetChange({2: None}, {2: None}))
    assert 2 not in after.row_of
    assert hosts_in(after, allowed_hosts(spec(), after)) == {1, 3, 4}
    assert explain(spec(), after).hosts == 3
    assert after.rows([HostId(2), HostId(3)]).tolist() == [2]
    assert hosts_in(after, allowed_hosts(spec(anti_affinity(RACK), members_by_host={2: 1}), after)) == {1, 3, 4}
    anything = CandidateQuery((RequestGroup("1", required=()),))
    assert [only for one in find(anything, after).candidates for only in one.mappings["1"]] == [
        f"uuid-of-n{number}" for number in (1, 3, 4)
    ]


def test_new_host_is_the_last_row_and_one_with_a_lower_id_is_in_order() -> None:
    def added(example: Fleet, number: int) -> Fleet:
        record = HostRecord(HostId(number), f"n{number}", aggregates=frozenset({72}))
        return example.changed(FleetChange({number: host(number).provider()}, {number: record}))

    later = added(racks(), 9)
    assert later.ids.tolist() == [1, 2, 3, 4, 9]
    both = added(later, 7)
    assert both.ids.tolist() == [1, 2, 3, 4, 7, 9]
    assert [both.row_of[each] for each in (7, 9)] == [4, 5]
    assert [rack_of(both, number) for number in (4, 7, 9)] == ["72", "72", "72"]
    assert hosts_in(both, allowed_hosts(spec(), both)) == {1, 2, 3, 4, 7, 9}


def test_host_that_appears_late_costs_little_more_than_the_last_one() -> None:
    example = fleet(*map(host, range(2, 8_000, 2)))

    def cost_s(number: int) -> float:
        start = thread_time()
        change = FleetChange({number: host(number).provider()}, {number: HostRecord(HostId(number), f"n{number}")})
        assert example.changed(change).row_of[number] == number // 2
        return thread_time() - start

    late = min(cost_s(number) for number in range(3_001, 3_021, 2))
    assert late < 5 * min(cost_s(7_999) for _ in range(10))


def test_host_that_returns_under_its_id_gets_its_row_again() -> None:
    gone = racks().changed(FleetChange({2: None}, {2: None}))
    again = gone.changed(FleetChange({2: host(2).provider()}, {2: HostRecord(HostId(2), "n2")}))
    assert again.ids.tolist() == [1, 2, 3, 4]
    assert hosts_in(again, allowed_hosts(spec(), again)) == {1, 2, 3, 4}


def test_provider_that_is_no_host_takes_no_server_and_does_not_weigh() -> None:
    before = racks()
    pool = provider(
        9, "pool", DISK_GB=InventoryRecord(1_000_000), VCPU=InventoryRecord(1), MEMORY_MB=InventoryRecord(9)
    )
    after = before.changed(FleetChange({9: pool}))
    small = replace(spec(), amounts=server_resources(0, 0, 1))
    assert hosts_in(after, allowed_hosts(small, after)) == {1, 2, 3, 4}
    assert explain(small, after).hosts == 4
    assert np.array_equal(after.weight[:4], before.weight)


def test_columns_that_do_not_change_are_shared() -> None:
    before = racks()
    after = moved(before, 2, enabled=False)
    assert after.enabled is not before.enabled
    for column in (
        "ids",
        "up",
        "is_host",
        "parent",
        "root",
        "present",
        "traits",
        "member_of",
        "zone",
        "in_aggregates",
        "trees",
    ):
        assert getattr(after, column) is getattr(before, column)
    assert after.domains(RACK.id) is before.domains(RACK.id)
    assert after.capacity is before.capacity
