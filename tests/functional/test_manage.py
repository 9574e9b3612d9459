"""`covey manage` repairs a database that was modified outside Covey."""

from collections.abc import Mapping
from dataclasses import replace
from uuid import uuid4

import pytest

from covey import clock_and_ids
from covey.model.changes import UsageChange
from covey.model.errors import NotFound
from covey.model.ids import HostId
from covey.model.providers import InventoryRecord
from covey.model.resources import Resources, resource_request, server_resources
from covey.services.manage import (
    Progress,
    StartProgress,
    aggregate_sync,
    allocation_healing,
    orphaned_allocations,
    trait_sync,
)
from covey.services.manage.aggregate_sync import AggregateLink
from covey.services.manage.allocation_healing import AllocationMismatch, HealResult
from covey.services.manage.trait_sync import HostTrait, SyncResult
from covey.storage import tables
from tests.build import a_flavor, a_host
from tests.functional.fleets import BuildCloud, Cloud
from tests.functional.test_forbidden_aggregates import ON, WINDOWS, XYZ, aggregate

SMALL = {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10}
BIG = {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 20}


def without_progress(_: int) -> Progress:
    return lambda _: None


class Counted:
    """Records the calls that a progress bar gets."""

    def __init__(self) -> None:
        self.length, self.done = 0, 0

    def __call__(self, length: int) -> Progress:
        self.length = length
        return self.add

    def add(self, number: int) -> None:
        self.done += number


def host_id(cloud: Cloud, name: str) -> HostId:
    with cloud.store.read() as tx:
        found = tx.hosts.by_name(name)
    assert found is not None
    return found.id


def allocate(cloud: Cloud, host: str, kind: str = "INSTANCE") -> str:
    """Allocate the resources of a small server to a consumer that is no server."""
    consumer = str(uuid4())
    with cloud.store.write() as tx:
        tx.server_allocations.add_consumer(consumer, "web", "alice", kind)
        flavor = a_flavor(vcpus=1, memory_mb=1024, disk_gb=10)
        use = UsageChange(host_id(cloud, host), resource_request(flavor).total)
        tx.claims.take([use])
        tx.server_allocations.allocate(consumer, {use.provider: resource_request(flavor).total})
        tx.changes.add_uses([use])
    return consumer


def remove_allocations(cloud: Cloud, consumer: str) -> None:
    """Delete all allocations of a consumer."""
    with cloud.store.write() as tx:
        tx.changes.add_uses(tx.server_allocations.release(consumer))


def add_allocation(cloud: Cloud, consumer: str, host: str, amounts: tuple[int, int, int]) -> None:
    """Add an allocation to an existing consumer."""
    here = host_id(cloud, host)
    with cloud.store.write() as tx:
        tx.claims.take([UsageChange(here, server_resources(*amounts))])
        tx.server_allocations.allocate(consumer, {here: server_resources(*amounts)})
        tx.changes.add_uses([UsageChange(here, server_resources(*amounts))])


def allocations_of(cloud: Cloud, consumer: str) -> Mapping[str, Mapping[str, int]]:
    """Return a consumer's allocations by provider name."""
    with cloud.store.read() as tx:
        names = {host.uuid: host.name for host in tx.hosts.find()}
        found = tx.allocations.by_consumer([consumer])
    return {names[uuid]: dict(amounts) for each in found for uuid, amounts in each.resources.items()}


def heal(cloud: Cloud, only: str | None = None, begin: StartProgress = without_progress) -> HealResult:
    return allocation_healing.heal(
        cloud.store, clock_and_ids.now, allocation_healing.find_mismatches(cloud.store, only), begin
    )


class TestLinks:
    """covey manage placement sync_aggregates."""

    def test_sync_adds_missing_links_and_removes_none(self, cloud: Cloud) -> None:
        aggregate(cloud, "fast", ["node-1", "node-2"])
        aggregate(cloud, "slow", ["node-1"])
        uuids = {each["name"]: each["uuid"] for each in cloud.admin.get("/os-aggregates").json["aggregates"]}
        first, foreign = host_id(cloud, "node-1"), str(uuid4())
        with cloud.store.write() as tx:
            tx.providers.set_aggregates(first, [foreign])
            before = tx.hosts.by_name("node-1")
            assert before is not None
            generation = tx.providers.by_uuid(before.uuid).generation  # type: ignore[union-attr]
        bar = Counted()
        done = aggregate_sync.sync(cloud.store, bar)
        assert set(done.added) == {AggregateLink(name, uuids[name], "node-1") for name in ("fast", "slow")}
        assert (done.total, done.failed, bar.length, bar.done) == (3, (), 2, 2)
        with cloud.store.read() as tx:
            assert set(tx.providers.aggregates(first)) == {foreign, *uuids.values()}
            assert tx.providers.by_uuid(before.uuid).generation > generation  # type: ignore[union-attr]
        assert aggregate_sync.sync(cloud.store, without_progress).added == ()

    def test_empty_cloud_has_no_links(self, build_cloud: BuildCloud) -> None:
        assert aggregate_sync.sync(build_cloud(0).store, without_progress) == aggregate_sync.SyncResult((), 0)


class TestTraits:
    """covey manage placement sync_traits."""

    def test_sync_adds_required_traits_to_hosts(self, build_cloud: BuildCloud) -> None:
        cloud = build_cloud([a_host("a", 8, 16384, 100, WINDOWS), a_host("b"), a_host("c")], ON)
        aggregate(cloud, "windows", ["a", "b"], **{WINDOWS: "required", "CUSTOM_NO": "forbidden"})
        aggregate(cloud, "both", ["b"], **{WINDOWS: "required", XYZ: "required", "HW_CPU_X86_VMX": "required"})
        aggregate(cloud, "wrong", ["c"], CUSTOM_small="required", HW_NO_SUCH="required")
        wanted = SyncResult(
            added=(
                HostTrait("windows", "b", WINDOWS),
                HostTrait("both", "b", XYZ),
                HostTrait("both", "b", "HW_CPU_X86_VMX"),
            ),
            created=(XYZ,),
            unknown=(("wrong", "CUSTOM_small"), ("wrong", "HW_NO_SUCH")),
        )
        dry = trait_sync.sync(cloud.store, cloud.time, without_progress, dry_run=True)
        assert {*dry.added} == {*wanted.added}
        assert (dry.created, dry.unknown) == (wanted.created, wanted.unknown)
        with cloud.store.read() as tx:
            assert tx.traits.of(host_id(cloud, "b")) == frozenset()
            assert XYZ not in tx.traits.custom()
        done = trait_sync.sync(cloud.store, cloud.time, without_progress)
        assert {*done.added} == {*wanted.added}
        assert (done.created, done.unknown) == (wanted.created, wanted.unknown)
        with cloud.store.read() as tx:
            traits = {host.name: set(host.traits) for host in tx.hosts.find()}
            assert tx.traits.custom()[XYZ] is not None
        assert traits == {"a": {WINDOWS}, "b": {WINDOWS, XYZ, "HW_CPU_X86_VMX"}, "c": set()}
        again = trait_sync.sync(cloud.store, cloud.time, without_progress)
        assert (again.added, again.created, again.unknown) == ((), (), wanted.unknown)

    def test_new_servers_match_synced_hosts(self, cloud: Cloud) -> None:
        aggregate(cloud, "windows", ["node-2"], **{WINDOWS: "required"})
        specs = {"extra_specs": {f"trait:{WINDOWS}": "required"}}
        assert cloud.admin.post("/flavors/big/os-extra_specs", specs).status == 200
        assert cloud.status(cloud.boot(flavorRef="big")) == "ERROR"
        trait_sync.sync(cloud.store, cloud.time, without_progress)
        assert cloud.host(cloud.boot(flavorRef="big")) == "node-2"


class TestOrphans:
    """covey manage placement audit."""

    def test_consumers_of_servers_and_migrations_are_not_orphaned(self, cloud: Cloud) -> None:
        cloud.boot()
        moving = cloud.boot_on("node-1")
        cloud.act(cloud.admin, moving, "migrate")  # not yet run by a worker
        assert orphaned_allocations.find(cloud.store) == []
        cloud.settle()
        assert cloud.status(moving) == "VERIFY_RESIZE"
        assert orphaned_allocations.find(cloud.store) == []

    def test_orphaned_allocations_are_found_and_deleted(self, cloud: Cloud) -> None:
        server = cloud.boot_on("node-1")
        lost = allocate(cloud, "node-1")
        move = allocate(cloud, "node-2", "MIGRATION")
        found = orphaned_allocations.find(cloud.store)
        assert {
            each.consumer.uuid: (each.allocations[0].provider, each.allocations[0].resources) for each in found
        } == {
            lost: ("node-1", SMALL),
            move: ("node-2", SMALL),
        }
        bar = Counted()
        assert orphaned_allocations.delete(cloud.store, found, bar) == found
        assert (bar.length, bar.done) == (2, 2)
        cloud.check()
        assert cloud.used() == {"node-1": 1}
        assert allocations_of(cloud, server) == {"node-1": SMALL}
        assert orphaned_allocations.find(cloud.store) == []

    def test_finished_migration_is_orphaned(self, cloud: Cloud) -> None:
        server = cloud.boot_on("node-1")
        cloud.run_action(cloud.admin, server, "migrate", {"host": "node-2"})
        cloud.run_action(cloud.alice, server, "confirmResize")
        (move,) = cloud.rows(tables.migrations)
        with cloud.store.write() as tx:
            tx.server_allocations.add_consumer(move.uuid, "web", "alice", "MIGRATION")
        add_allocation(cloud, move.uuid, "node-1", (1, 1024, 10))
        found = orphaned_allocations.find(cloud.store)
        assert [each.consumer.uuid for each in found] == [move.uuid]
        orphaned_allocations.delete(cloud.store, found, without_progress)
        cloud.check()

    def test_other_consumer_types_are_left_alone(self, cloud: Cloud) -> None:
        theirs = allocate(cloud, "node-1", "VOLUME")
        assert orphaned_allocations.find(cloud.store) == []
        assert allocations_of(cloud, theirs) == {"node-1": SMALL}

    def test_consumer_that_got_a_server_is_not_deleted(self, cloud: Cloud) -> None:
        server = cloud.boot_on("node-1")
        lost = allocate(cloud, "node-1")
        (found,) = orphaned_allocations.find(cloud.store)
        known = replace(found, consumer=replace(found.consumer, uuid=server))
        assert orphaned_allocations.delete(cloud.store, [known, found], without_progress) == [found]
        assert allocations_of(cloud, server) == {"node-1": SMALL}
        assert allocations_of(cloud, lost) == {}
        cloud.check()


class TestHealing:
    """covey manage placement heal_allocations."""

    def test_correct_allocations_need_no_healing(self, cloud: Cloud) -> None:
        cloud.boot(flavorRef="giant")  # in error, without a host
        moving, shelved = cloud.boot_on("node-1"), cloud.boot()
        cloud.run_action(cloud.alice, shelved, "shelve")
        cloud.act(cloud.admin, moving, "migrate")
        assert allocation_healing.find_mismatches(cloud.store) == []
        cloud.settle()
        assert allocation_healing.find_mismatches(cloud.store) == []

    def test_lost_allocations_are_restored(self, cloud: Cloud) -> None:
        server, other = cloud.boot_on("node-1"), cloud.boot_on("node-2")
        remove_allocations(cloud, server)
        assert allocation_healing.find_mismatches(cloud.store) == [AllocationMismatch(server, "s", {"node-1": SMALL})]  # type: ignore[arg-type]
        bar = Counted()
        assert [wound.server for wound in heal(cloud, begin=bar).healed] == [server]
        assert (bar.length, bar.done) == (1, 1)
        cloud.check()
        assert allocations_of(cloud, server) == {"node-1": SMALL}
        assert allocations_of(cloud, other) == {"node-2": SMALL}
        assert allocation_healing.find_mismatches(cloud.store) == []

    def test_wrong_amounts_and_hosts_are_corrected(self, cloud: Cloud) -> None:
        small, astray = cloud.boot_on("node-1"), cloud.boot_on("node-1", flavorRef="big")
        for server, host, amounts in ((small, "node-1", (3, 512, 7)), (astray, "node-3", (2, 2048, 20))):
            remove_allocations(cloud, server)
            with cloud.store.write() as tx:
                tx.server_allocations.add_consumer(server, "web", "alice", "INSTANCE")
            add_allocation(cloud, server, host, amounts)
        assert len(heal(cloud).healed) == 2
        cloud.check()
        assert (allocations_of(cloud, small), allocations_of(cloud, astray)) == ({"node-1": SMALL}, {"node-1": BIG})

    def test_healing_can_be_limited_to_one_server(self, cloud: Cloud) -> None:
        first, second = cloud.boot_on("node-1"), cloud.boot_on("node-2")
        remove_allocations(cloud, first)
        remove_allocations(cloud, second)
        assert [wound.server for wound in heal(cloud, second).healed] == [second]
        assert [wound.server for wound in allocation_healing.find_mismatches(cloud.store)] == [first]
        with pytest.raises(NotFound, match="could not be found"):
            allocation_healing.find_mismatches(cloud.store, str(uuid4()))

    def test_server_without_capacity_fails_and_others_are_healed(self, cloud: Cloud) -> None:
        crowded, other = cloud.boot_on("node-1", flavorRef="whole"), cloud.boot_on("node-2")
        remove_allocations(cloud, crowded)
        remove_allocations(cloud, other)
        lost = allocate(cloud, "node-1")
        done = heal(cloud)
        assert [wound.server for wound in done.healed] == [other]
        ((wound, reason),) = done.failed
        assert wound.server == crowded
        assert "exceed the capacity" in reason
        assert allocations_of(cloud, crowded) == {}
        orphaned_allocations.delete(cloud.store, orphaned_allocations.find(cloud.store), without_progress)
        assert allocations_of(cloud, lost) == {}
        assert len(heal(cloud).healed) == 1
        cloud.check()

    def test_server_whose_flavor_cannot_be_followed_fails_and_others_are_healed(self, cloud: Cloud) -> None:
        older, other = cloud.boot_on("node-1"), cloud.boot_on("node-2")
        remove_allocations(cloud, other)
        with cloud.store.write() as tx:
            found = tx.servers.by_id(older)
            assert found is not None
            flavor = replace(found.flavor, extra_specs={"hw:cpu_policy": "dedicated"})
            tx.servers.update(replace(found, flavor=flavor))
        mismatches = allocation_healing.find_mismatches(cloud.store)
        done = heal(cloud)
        assert [wound.server for wound in done.healed] == [other]
        ((wound, reason),) = done.failed
        assert (wound.server, wound.expected) == (older, {})
        assert "hw:cpu_policy=dedicated asks for a placement that this service does not support" in reason
        assert allocations_of(cloud, older) == {"node-1": SMALL}, "they stay as they are"
        assert allocation_healing.plan(mismatches) == done
        (wound,) = allocation_healing.find_mismatches(cloud.store)
        assert wound.server == older

    @pytest.mark.parametrize("arrived", [False, True], ids=["in progress", "finished"])
    def test_moving_server_has_allocations_on_both_hosts(self, cloud: Cloud, *, arrived: bool) -> None:
        server = cloud.boot_on("node-1")
        cloud.run_action(cloud.alice, server, "resize", {"flavorRef": "big"}) if arrived else cloud.act(
            cloud.alice, server, "resize", {"flavorRef": "big"}
        )
        (move,) = cloud.rows(tables.migrations)
        before = allocations_of(cloud, server), allocations_of(cloud, move.uuid)
        assert before[1] == {"node-1": SMALL}
        assert BIG in before[0].values()
        remove_allocations(cloud, server)
        remove_allocations(cloud, move.uuid)
        assert len(heal(cloud).healed) == 1
        cloud.check()
        assert (allocations_of(cloud, server), allocations_of(cloud, move.uuid)) == before
        cloud.settle()
        cloud.run_action(cloud.alice, server, "revertResize")
        assert allocations_of(cloud, server) == {"node-1": SMALL}

    def test_server_without_a_host_has_no_allocations(self, cloud: Cloud) -> None:
        server = cloud.boot()
        cloud.run_action(cloud.alice, server, "shelve")
        with cloud.store.write() as tx:
            tx.server_allocations.add_consumer(server, "web", "alice", "INSTANCE")
        add_allocation(cloud, server, "node-1", (1, 1024, 10))
        assert [wound.expected for wound in heal(cloud).healed] == [{}]
        cloud.check()
        assert cloud.used() == {}

    def test_other_allocations_of_a_server_are_kept(self, cloud: Cloud) -> None:
        server, here = cloud.boot_on("node-1"), host_id(cloud, "node-1")
        with cloud.store.write() as tx:
            tx.resource_classes.add("CUSTOM_GPU", clock_and_ids.now())
            tx.inventories.put({here: {"CUSTOM_GPU": InventoryRecord(4)}})
            tx.changes.add_uses(tx.server_allocations.release(server))
            tx.server_allocations.add_consumer(server, "web", "alice", "INSTANCE")
            tx.claims.take([UsageChange(here, Resources({"CUSTOM_GPU": 1}))])
        with cloud.connection.begin() as connection:
            row = {"consumer_uuid": server, "provider_id": here, "resource_class": "CUSTOM_GPU", "used": 1}
            connection.execute(tables.allocations.insert(), row)
        assert len(heal(cloud).healed) == 1
        assert allocations_of(cloud, server) == {"node-1": {**SMALL, "CUSTOM_GPU": 1}}
        assert allocation_healing.find_mismatches(cloud.store) == []

    def test_consumer_with_a_wrong_project_is_corrected(self, cloud: Cloud) -> None:
        server = cloud.boot_on("node-1")
        with cloud.connection.begin() as connection:
            connection.execute(tables.consumers.update().values(project_id="db", consumer_type="VOLUME"))
        assert len(heal(cloud).healed) == 1
        with cloud.store.read() as tx:
            found = tx.allocations.find_consumers([server])[server]
        assert (found.project_id, found.user_id, found.kind) == ("web", "alice", "INSTANCE")
        cloud.check()
