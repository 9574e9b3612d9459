"""Aggregates: rows in, values out, the same on every database."""

import uuid

import pytest

from covey.model.aggregates import Aggregate
from covey.model.errors import Conflict
from covey.model.fleet_records import AggregateRecord
from covey.model.ids import AggregateId, HostId, ProjectId, ScopeId
from covey.model.scopes import Scope
from covey.storage.store import Store
from tests.build import LATER, NOW, a_host

RACK = ScopeId("00000000-0000-0000-0000-0000000000aa")


@pytest.fixture
def hosts(store: Store) -> list[HostId]:
    with store.write() as tx:
        tx.hosts.add([a_host("n1"), a_host("n2"), a_host("n3")], NOW)
        tx.scopes.add([Scope(RACK, "rack", False, False, str(uuid.uuid4()))])
        return [host.id for host in tx.hosts.find()]


def add(store: Store, name: str, zone: str | None = None, scope: ScopeId | None = None) -> AggregateId:
    with store.write() as tx:
        (key,) = tx.aggregates.add([(f"uuid of {name}", name, zone, scope)], NOW)
        return key


def get(store: Store, key: int) -> Aggregate:
    with store.read() as tx:
        found = tx.aggregates.by_id(key)
        assert found is not None
        return found


def fill(store: Store, key: AggregateId, *members: HostId) -> None:
    with store.write() as tx:
        tx.aggregates.add_hosts([(key, member) for member in members], LATER)


def zones(store: Store) -> list[str | None]:
    with store.read() as tx:
        return [host.zone for host in tx.hosts.find()]


@pytest.mark.usefixtures("hosts")
def test_stored_aggregate_is_read_back_unchanged(store: Store) -> None:
    key = add(store, "fast", "z", RACK)
    made = Aggregate(key, "uuid of fast", "fast", "z", RACK, NOW, None, {}, (), "rack")
    with store.write() as tx:
        assert tx.aggregates.by_id(key, lock=True) == made
        assert tx.aggregates.by_uuid("uuid of fast", lock=True) == made
        assert tx.aggregates.all() == [made]
        assert tx.aggregates.by_id(key + 1) is None
        assert tx.aggregates.by_uuid("uuid of slow") is None
        assert tx.aggregates.add([], NOW) == []


def test_aggregates_are_listed_oldest_first(store: Store) -> None:
    keys = [add(store, name) for name in ("c", "a", "b")]
    with store.read() as tx:
        assert [aggregate.id for aggregate in tx.aggregates.all()] == keys == sorted(keys)


def test_id_of_a_deleted_aggregate_is_never_reused(store: Store) -> None:
    old = add(store, "old")
    with store.write() as tx:
        tx.aggregates.delete([old])
    assert add(store, "new") > old


def test_taken_name_is_a_conflict_for_add_and_rename(store: Store) -> None:
    add(store, "fast")
    slow = add(store, "slow")
    with pytest.raises(Conflict, match=r"Aggregate fast already exists\."):
        add(store, "fast")
    with pytest.raises(Conflict, match=r"Aggregate fast already exists\."), store.write() as tx:
        tx.aggregates.rename(slow, "fast", LATER)
    assert get(store, slow).name == "slow"


def test_rename_sets_the_name_and_updated_at(store: Store) -> None:
    key = add(store, "fast")
    with store.write() as tx:
        tx.aggregates.rename(key, "faster", LATER)
    assert (get(store, key).name, get(store, key).updated_at) == ("faster", LATER)


def test_metadata_is_merged_and_none_removes_a_key(store: Store) -> None:
    key = add(store, "fast")
    with store.write() as tx:
        tx.aggregates.set_metadata(key, {"a": "1", "b": "2", "gone": "3"}, NOW)
        tx.aggregates.set_metadata(key, {"b": "two", "gone": None, "never": None}, LATER)
        tx.aggregates.set_metadata(key, {}, LATER)
    assert (get(store, key).metadata, get(store, key).updated_at) == ({"a": "1", "b": "two"}, LATER)


def test_adding_and_removing_hosts_updates_their_zone(store: Store, hosts: list[HostId]) -> None:
    key = add(store, "fast", "z")
    fill(store, key, hosts[2], hosts[0])
    assert get(store, key).hosts == ("n1", "n3")
    assert get(store, key).updated_at == LATER
    assert zones(store) == ["z", None, "z"]
    with store.write() as tx:
        assert sorted(tx.aggregates.host_ids(key)) == [hosts[0], hosts[2]]
        tx.aggregates.remove_hosts([(key, hosts[0]), (key, hosts[1])], LATER)
        tx.aggregates.remove_hosts([], LATER)
        tx.aggregates.add_hosts([], LATER)
    assert get(store, key).hosts == ("n3",)
    assert zones(store) == [None, None, "z"]


def test_zone_change_of_an_aggregate_reaches_its_hosts(store: Store, hosts: list[HostId]) -> None:
    key, plain = add(store, "fast", "z"), add(store, "plain")
    fill(store, key, hosts[0], hosts[1])
    fill(store, plain, *hosts)
    for zone in ("other", None, "z"):
        with store.write() as tx:
            tx.aggregates.set_zone(key, zone, LATER)
        assert zones(store) == [zone, zone, None]
        assert (get(store, key).zone, get(store, key).updated_at) == (zone, LATER)


def test_host_keeps_its_zone_while_one_aggregate_gives_it(store: Store, hosts: list[HostId]) -> None:
    first, second = add(store, "a", "z"), add(store, "b", "z")
    fill(store, first, hosts[0])
    fill(store, second, hosts[0])
    with store.write() as tx:
        tx.aggregates.remove_hosts([(first, hosts[0])], LATER)
    assert zones(store) == ["z", None, None]


def test_two_aggregates_of_a_host_change_zone_in_one_transaction(store: Store, hosts: list[HostId]) -> None:
    pair = [add(store, "a", "z"), add(store, "b", "z")]
    for key in pair:
        fill(store, key, hosts[0])
    for zone in ("a", "zz", None, "z"):
        with store.write() as tx:
            for key in pair:
                tx.aggregates.set_zone(key, zone, LATER)
        assert zones(store)[0] == zone


def test_zones_of_hosts_are_returned_by_aggregate(store: Store, hosts: list[HostId]) -> None:
    zoned, plain = add(store, "a", "z"), add(store, "b")
    fill(store, zoned, hosts[0], hosts[1])
    fill(store, plain, hosts[0])
    with store.write() as tx:
        tx.aggregates.lock_hosts(reversed(hosts))
        tx.aggregates.lock_hosts([])
        assert tx.aggregates.zones_of([hosts[0], hosts[2]]) == [(hosts[0], "z", zoned)]
        assert tx.aggregates.zones_of([]) == []


def test_second_zone_for_a_host_is_rejected_at_commit(store: Store, hosts: list[HostId]) -> None:
    first, second = add(store, "a", "z1"), add(store, "b", "z2")
    fill(store, first, hosts[0])
    with pytest.raises(Conflict, match="Another request changed"):
        fill(store, second, hosts[0])
    assert zones(store) == ["z1", None, None]
    assert get(store, second).hosts == ()


def test_adding_a_host_twice_is_a_conflict(store: Store, hosts: list[HostId]) -> None:
    key = add(store, "a")
    fill(store, key, hosts[0])
    with pytest.raises(Conflict, match="already in that aggregate"):
        fill(store, key, hosts[1], hosts[0])
    assert get(store, key).hosts == ("n1",)


def test_second_domain_of_a_scope_for_a_host_is_a_conflict(store: Store, hosts: list[HostId]) -> None:
    first, second = add(store, "r1", scope=RACK), add(store, "r2", scope=RACK)
    fill(store, first, hosts[0])
    with pytest.raises(Conflict, match="another domain of its scope"):
        fill(store, second, hosts[0])
    assert get(store, second).hosts == ()


def test_aggregate_with_a_host_in_another_domain_cannot_join_the_scope(store: Store, hosts: list[HostId]) -> None:
    domain, late = add(store, "r1", scope=RACK), add(store, "late")
    fill(store, domain, hosts[0])
    fill(store, late, hosts[0], hosts[1])
    with pytest.raises(Conflict, match="already in another domain"), store.write() as tx:
        tx.aggregates.set_scope([late], RACK, LATER)
    assert get(store, late).scope is None
    with store.write() as tx:
        tx.aggregates.set_scope([domain], None, LATER)
        tx.aggregates.set_scope([late], RACK, LATER)
    assert (get(store, domain).scope, get(store, late).scope, get(store, late).updated_at) == (None, RACK, LATER)
    with pytest.raises(Conflict), store.write() as tx:
        tx.aggregates.set_scope([domain], RACK, LATER)


def test_in_scope_returns_only_the_domains_of_that_scope(store: Store, hosts: list[HostId]) -> None:
    with store.write() as tx:
        tx.scopes.add([Scope(ScopeId("other"), "other", False, False, "n")])
    first, second = add(store, "r1", scope=RACK), add(store, "r2", scope=RACK)
    add(store, "plain")
    add(store, "elsewhere", scope=ScopeId("other"))
    fill(store, first, hosts[0])
    with store.read() as tx:
        assert tx.aggregates.in_scope(RACK) == [get(store, first), get(store, second)]
        assert tx.aggregates.in_scope(ScopeId("nowhere")) == []


def test_domains_of_returns_the_other_domain_of_each_host(store: Store, hosts: list[HostId]) -> None:
    with store.write() as tx:
        tx.scopes.add([Scope(ScopeId("other"), "other", False, False, "n")])
    first, second = add(store, "r1", scope=RACK), add(store, "r2", scope=RACK)
    fill(store, second, hosts[2])
    fill(store, first, hosts[0], hosts[1])
    fill(store, add(store, "elsewhere", scope=ScopeId("other")), *hosts)
    fill(store, add(store, "plain"), *hosts)
    late = add(store, "late")
    with store.read() as tx:
        found = tx.aggregates.domains_of(list(reversed(hosts)), RACK, excluding=late)
        assert found == [("n1", "r1"), ("n2", "r1"), ("n3", "r2")]
        assert tx.aggregates.domains_of(hosts, RACK, excluding=first) == [("n3", "r2")]
        assert tx.aggregates.domains_of(hosts[:1], RACK, excluding=late) == [("n1", "r1")]
        assert tx.aggregates.domains_of([], RACK, excluding=late) == []


def test_unknown_scope_is_rejected(store: Store) -> None:
    key = add(store, "a")
    with pytest.raises(Conflict), store.write() as tx:
        tx.aggregates.set_scope([key], ScopeId("nowhere"), LATER)


def test_thousands_of_hosts_change_zone_in_one_transaction(store: Store) -> None:
    with store.write() as tx:
        tx.hosts.add([a_host(f"n{n}") for n in range(6000)], NOW)
        hosts = [host.id for host in tx.hosts.find()]
        (key,) = tx.aggregates.add([("u", "a", "z", None)], NOW)
        tx.aggregates.add_hosts([(key, host) for host in reversed(hosts)], NOW)
        assert len(tx.aggregates.zones_of(hosts)) == 6000
        tx.aggregates.set_zone(key, "other", LATER)
        assert tx.hosts.zones() == [("other", False)]


@pytest.mark.usefixtures("hosts")
def test_scheduler_reads_scope_projects_and_traits_of_aggregates(store: Store) -> None:
    rack, closed, plain = add(store, "rack-1", scope=RACK), add(store, "closed"), add(store, "plain")
    metadata = {"filter_tenant_id": "web, shop", "filter_tenant_id2": "hr", "trait:CUSTOM_A": "required", "x": "y"}
    with store.write() as tx:
        tx.aggregates.set_metadata(closed, metadata, LATER)
    projects = frozenset(map(ProjectId, ("web", "shop", "hr")))
    expected = [
        AggregateRecord(rack, "uuid of rack-1", RACK),
        AggregateRecord(closed, "uuid of closed", None, projects, frozenset({"CUSTOM_A"})),
        AggregateRecord(plain, "uuid of plain"),
    ]
    with store.read() as tx:
        assert tx.fleet_records.all().aggregates == expected
        assert tx.fleet_records.of([], [plain, 0, closed]).aggregates == expected[1:]
        assert tx.fleet_records.of([], []).aggregates == []
