"""Building servers: unsuitable hosts, failing hosts, and jobs that run twice."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from covey.drivers.simulated import Simulated
from covey.model.ids import ServerId
from covey.model.servers import Server, VmState
from covey.model.work import Job
from covey.storage import tables
from covey.worker import Batch
from tests.build import a_host, an_image
from tests.functional.fleets import BuildCloud, Cloud, FailingDriver

LIVE = {"host": None, "block_migration": "auto"}


def attempts(driver: FailingDriver, server: str) -> list[str]:
    return [host for verb, which, host in driver.done if verb == "spawn" and which == server]


# Unsuitable hosts


def test_disabled_or_down_host_takes_no_server(cloud: Cloud) -> None:
    cloud.set_host("node-1", status="disabled")
    cloud.set_down("node-2")
    assert cloud.hosts([cloud.boot() for _ in range(3)]) == ["node-3"] * 3
    cloud.set_host("node-3", status="disabled")
    lost = cloud.boot()
    assert cloud.show(lost)["fault"]["message"] == "No valid host was found. Of 3 hosts: 2 are disabled, 1 is down."
    cloud.set_host("node-1", status="enabled")
    assert cloud.host(cloud.boot()) == "node-1"


def test_flavor_and_image_require_traits(build_cloud: BuildCloud) -> None:
    hosts = [
        a_host("node-1"),
        a_host("node-2", 8, 16384, 100, "CUSTOM_SSD"),
        a_host("node-3", 8, 16384, 100, "CUSTOM_OLD"),
    ]
    cloud = build_cloud(hosts)
    for name, specs in (
        ("fast", {"trait:CUSTOM_SSD": "required"}),
        ("new", {"trait:CUSTOM_OLD": "forbidden", "trait:CUSTOM_SSD": "forbidden"}),
        ("rare", {"trait:CUSTOM_GOLD": "required"}),
    ):
        size = {"name": name, "id": name, "ram": 512, "vcpus": 1, "disk": 1}
        cloud.admin.post("/flavors", {"flavor": size})
        made = cloud.admin.post(f"/flavors/{name}/os-extra_specs", {"extra_specs": specs})
        assert made.status == 200, made.text
    assert cloud.host(cloud.boot(flavorRef="fast")) == "node-2"
    assert cloud.host(cloud.boot(flavorRef="new")) == "node-1"
    lost = cloud.boot(flavorRef="rare")
    assert cloud.show(lost)["fault"]["message"] == "No valid host was found. Of 3 hosts: 3 lack a required trait."
    old = an_image("old", properties={"trait:CUSTOM_OLD": "required"})
    with cloud.store.write() as tx:
        tx.images.add([old])
    server = cloud.boot(imageRef=old.id)
    assert cloud.host(server) == "node-3"
    stuck = cloud.act(cloud.admin, server, "migrate")
    assert (stuck.status, "2 lack a required trait" in stuck.message) == (400, True), "a move asks for them too"


def test_aggregate_isolates_its_hosts_for_its_tenants(cloud: Cloud) -> None:
    made = cloud.admin.post("/os-aggregates", {"aggregate": {"name": "bobs"}}).json["aggregate"]["id"]
    for host in ("node-1", "node-2"):
        cloud.admin.post(f"/os-aggregates/{made}/action", {"add_host": {"host": host}})
    metadata = {"metadata": {"filter_tenant_id": "db"}}
    cloud.admin.post(f"/os-aggregates/{made}/action", {"set_metadata": metadata})
    assert set(cloud.hosts([cloud.boot() for _ in range(3)])) == {"node-3"}
    assert set(cloud.hosts([cloud.boot(cloud.bob) for _ in range(3)])) <= {"node-1", "node-2", "node-3"}
    lost = cloud.boot(flavorRef="whole")
    assert cloud.show(lost)["fault"]["message"] == (
        "No valid host was found. Of 3 hosts: 2 are reserved for other projects, 1 lacks VCPUs."
    )


def test_host_takes_what_fits(build_cloud: BuildCloud) -> None:
    cloud = build_cloud([a_host("node-1", 2, 1536, 100), a_host("node-2", 2, 16384, 15)])
    servers = [cloud.boot() for _ in range(3)]
    assert [cloud.status(server) for server in servers] == ["ACTIVE", "ACTIVE", "ERROR"]
    assert cloud.show(servers[2])["fault"]["message"] == (
        "No valid host was found. Of 2 hosts: 1 lacks memory, 1 lacks disk."
    )
    cloud.delete(servers[0])
    assert cloud.status(cloud.boot()) == "ACTIVE"


# Failing hosts


def test_failed_build_is_retried_on_another_host(build_cloud: BuildCloud) -> None:
    driver = FailingDriver(verbs={"spawn"})
    cloud = build_cloud(driver=driver)
    server = cloud.request_server(cloud.alice).json["server"]["id"]
    first = cloud.host(server)
    assert cloud.step() == 1
    second = cloud.host(server)
    assert cloud.status(server) == "BUILD"
    assert second not in {None, first}
    assert cloud.used() == {second: 1}, "the place that failed is given back"
    driver.verbs.clear()
    cloud.settle()
    assert (cloud.status(server), cloud.host(server)) == ("ACTIVE", second)
    placement = cloud.alice.get(f"/servers/{server}/placement").json["placement"]
    assert placement["decision"]["attempts"] == 2
    assert cloud.log(server) == [("create", None)]
    cloud.delete(server)
    assert cloud.is_empty()


def test_build_fails_after_three_attempts(build_cloud: BuildCloud) -> None:
    driver = FailingDriver(verbs={"spawn"})
    cloud = build_cloud(5, driver=driver)
    group = cloud.group("anti-affinity")
    server = cloud.boot(group=group)
    tried = attempts(driver, server)
    assert len(tried) == len(set(tried)) == 3
    shown = cloud.show(server, cloud.alice)
    assert (shown["status"], shown["hostId"], shown["server_groups"]) == ("ERROR", "", [])
    assert shown["fault"]["message"] == "No valid host was found. Of 5 hosts: 3 failed to start it."
    assert "node-" not in str(shown), "a tenant does not learn which"
    assert "node-" in cloud.show(server)["fault"]["details"], "an operator does"
    assert not cloud.used()
    assert cloud.members(group) == set()
    assert cloud.log(server) == [("create", "Error")]
    driver.verbs.clear()
    for _ in range(5):
        assert cloud.status(cloud.boot(group=group)) == "ACTIVE", "it holds no member slot"
    assert cloud.use()[0] == 6, "but it counts until it is deleted"


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("telling", "message"),
    [
        ("counts", "Of 5 hosts: 1 failed to start it."),
        ("reasons", "Hosts failed to start it."),
        ("none", "There are not enough hosts available."),
    ],
)
def test_failure_message_follows_explain_to_tenants(build_cloud: BuildCloud, telling: str, message: str) -> None:
    options = ("scheduler", "max_attempts", 1), ("api", "explain_to_tenants", telling)
    cloud = build_cloud(5, *options, driver=FailingDriver(verbs={"spawn"}))
    fault = cloud.show(cloud.boot())["fault"]
    assert fault["message"] == f"No valid host was found. {message}"
    assert "would not spawn" in fault["details"]


@pytest.mark.sqlite_only
def test_build_attempts_follow_max_attempts(build_cloud: BuildCloud) -> None:
    driver = FailingDriver(verbs={"spawn"})
    cloud = build_cloud(5, ("scheduler", "max_attempts", 1), driver=driver)
    server = cloud.boot()
    assert len(attempts(driver, server)) == 1
    assert cloud.status(server) == "ERROR"


def test_build_fails_when_every_host_failed(build_cloud: BuildCloud) -> None:
    driver = FailingDriver(verbs={"spawn"})
    cloud = build_cloud(2, driver=driver)
    server = cloud.boot()
    assert sorted(attempts(driver, server)) == ["node-1", "node-2"]
    assert cloud.status(server) == "ERROR"
    assert cloud.show(server)["fault"]["message"].startswith("No valid host was found. ")
    cloud.delete(server)
    assert cloud.is_empty()


@pytest.mark.parametrize("fields", [{"availability_zone": "nova:node-1"}, {"host": "node-1"}], ids=["forced", "asked"])
def test_build_on_a_named_host_is_tried_there_only(build_cloud: BuildCloud, fields: dict[str, Any]) -> None:
    driver = FailingDriver(hosts={"node-1"})
    cloud = build_cloud(driver=driver)
    server = cloud.boot(cloud.admin, **fields)
    assert attempts(driver, server) == ["node-1"]
    assert cloud.status(server) == "ERROR"
    assert not cloud.used()


def test_retried_build_respects_policies(build_cloud: BuildCloud) -> None:
    driver = FailingDriver()
    cloud = build_cloud(driver=driver)
    apart, together = cloud.group("anti-affinity"), cloud.group("affinity")
    cloud.boot_on("node-1", apart)
    cloud.boot_on("node-1", together)
    driver.hosts = {"node-1", "node-2"}
    assert cloud.host(cloud.boot(group=apart)) == "node-3"
    lost = cloud.boot(group=together)
    assert attempts(driver, lost) == ["node-1"]
    assert "2 are not the group's host" in cloud.show(lost)["fault"]["message"]
    assert cloud.members(together) != {lost}


def test_failed_server_of_a_batch_is_rescheduled_alone(build_cloud: BuildCloud) -> None:
    driver = FailingDriver(hosts={"node-2"})
    cloud = build_cloud(4, driver=driver)
    group = cloud.group("anti-affinity")
    cloud.boot(group=group, min_count=3)
    hosts = [server["OS-EXT-SRV-ATTR:host"] for server in cloud.servers()]
    assert len(set(hosts)) == 3
    assert "node-2" not in hosts
    assert {server["status"] for server in cloud.servers()} == {"ACTIVE"}


def test_failing_driver_leaves_usage_correct(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(6, driver=Simulated(failure_rate=0.5, seed=7))
    cloud.set_quota(instances=-1, cores=-1, ram=-1, server_group_members=-1)
    group = cloud.group("anti-affinity", max_server_per_host=4)
    cloud.boot(group=group, min_count=16)
    running = [server for server in cloud.servers() if server["status"] == "ACTIVE"]
    failed = [server for server in cloud.servers() if server["status"] == "ERROR"]
    assert len(running) + len(failed) == 16
    assert running
    assert cloud.members(group) == {server["id"] for server in running}
    assert sum(cloud.used().values()) == len(running)
    for server in running:
        cloud.run_action(cloud.admin, server["id"], "os-migrateLive", LIVE)
        assert cloud.status(server["id"]) == "ACTIVE"
    cloud.delete(*(server["id"] for server in (*running, *failed)))
    assert cloud.is_empty()


# Repeated and late jobs


def do(cloud: Cloud, jobs: Sequence[Job]) -> None:
    """Run claimed jobs like a worker."""
    for job in jobs:
        handler = cloud.assembled.worker().handlers[job.kind]
        if isinstance(handler, Batch):
            handler.run([job])
        else:
            handler(job)
        cloud.check()


def seen(cloud: Cloud, server: str) -> tuple[Any, ...]:
    shown = cloud.show(server)
    return shown["status"], shown["OS-EXT-SRV-ATTR:host"], shown["flavor"]["original_name"], cloud.used(), cloud.use()


@pytest.mark.parametrize(
    ("steps", "action", "body"),
    [
        ([], "migrate", None),
        ([], "os-migrateLive", LIVE),
        ([], "resize", {"flavorRef": "big"}),
        ([("migrate", None)], "revertResize", None),
        ([("resize", {"flavorRef": "big"})], "revertResize", None),
        ([], "shelve", None),
        ([("shelve", None)], "unshelve", None),
        ([], "os-stop", None),
        ([("os-stop", None)], "os-start", None),
        ([], "reboot", {"type": "HARD"}),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_job_can_run_twice(cloud: Cloud, steps: list[tuple[str, Any]], action: str, body: Any) -> None:
    server = cloud.boot()
    for before, its_body in steps:
        cloud.run_action(cloud.admin, server, before, its_body)
    cloud.act(cloud.admin, server, action, body)
    jobs = cloud.jobs()
    assert len(jobs) == 1
    do(cloud, jobs)
    once, log = seen(cloud, server), cloud.last_event(server)
    do(cloud, jobs)
    assert (seen(cloud, server), cloud.last_event(server)) == (once, log)
    assert cloud.rows(tables.work) == []


def test_build_and_delete_can_run_twice(cloud: Cloud) -> None:
    server = cloud.request_server(cloud.alice).json["server"]["id"]
    building = cloud.jobs()
    do(cloud, building)
    once = seen(cloud, server)
    do(cloud, building)
    assert seen(cloud, server) == once
    cloud.alice.delete(f"/servers/{server}")
    deleting = cloud.jobs()
    do(cloud, deleting)
    do(cloud, [*deleting, *building, *deleting])
    assert cloud.is_empty()


def test_repeated_failure_counts_once(build_cloud: BuildCloud) -> None:
    driver = FailingDriver(verbs={"spawn"})
    cloud = build_cloud(driver=driver)
    server = cloud.request_server(cloud.alice).json["server"]["id"]
    jobs = cloud.jobs()
    do(cloud, jobs)
    again = cloud.jobs()
    do(cloud, jobs)  # a late duplicate tries the new host, which is one more attempt
    do(cloud, [*again, *cloud.jobs()])
    cloud.settle()
    assert cloud.status(server) == "ERROR"
    assert not cloud.used()
    cloud.delete(server)
    assert cloud.is_empty()


@pytest.mark.parametrize("action", ["migrate", "os-migrateLive", "shelve", "os-stop"])
def test_job_of_a_deleted_server_does_nothing(cloud: Cloud, action: str) -> None:
    server = cloud.boot()
    cloud.act(cloud.admin, server, action, LIVE if action == "os-migrateLive" else None)
    late = cloud.jobs()
    cloud.alice.delete(f"/servers/{server}")
    do(cloud, late)
    assert cloud.show(server)["OS-EXT-STS:task_state"] == "deleting"
    cloud.settle()
    do(cloud, late)
    assert cloud.is_empty()


def test_job_of_a_dead_worker_is_taken_by_another(cloud: Cloud) -> None:
    server = cloud.request_server(cloud.alice).json["server"]["id"]

    class Crash(Simulated):
        def spawn(self, server: Server, host: str, epoch: int) -> None:  # noqa: ARG002
            raise KeyboardInterrupt

    object.__setattr__(cloud.assembled.builds, "driver", Crash())
    with pytest.raises(KeyboardInterrupt):
        cloud.step()
    object.__setattr__(cloud.assembled.builds, "driver", Simulated())
    assert cloud.step() == 0, "it is still leased to the one that died"
    cloud.time.advance(cloud.assembled.leases.lease_s + 1)
    assert cloud.step() == 1
    assert cloud.status(server) == "ACTIVE"


# Servers that leave their host while they are spawned


@dataclass
class InterruptedDriver(FailingDriver):
    """A driver that lets something else happen at the end of its first spawn."""

    happens: Callable[[], object] = lambda: None

    def spawn(self, server: Server, host: str, epoch: int) -> None:
        super().spawn(server, host, epoch)
        happens, self.happens = self.happens, lambda: None
        happens()


def test_server_that_left_its_host_during_its_spawn_is_destroyed_there_only(build_cloud: BuildCloud) -> None:
    driver = InterruptedDriver()
    cloud = build_cloud(2, driver=driver)
    server = ServerId(cloud.request_server(cloud.alice).json["server"]["id"])

    def reschedule() -> None:
        with cloud.store.write() as tx:
            found = tx.servers.by_id(server)
            assert found is not None
            other = tx.hosts.by_name("node-2" if found.host_name == "node-1" else "node-1")
            assert other is not None
            tx.servers.update(replace(found, host_id=other.id))

    driver.happens = reschedule
    (job,) = cloud.jobs()
    handler = cloud.assembled.worker().handlers[job.kind]
    assert isinstance(handler, Batch)
    handler.run([job])
    (_, _, left), *others = driver.done
    assert others == [("destroy", server, left)]
    with cloud.store.read() as tx:
        found = tx.servers.by_id(server)
    assert found is not None
    assert (found.host_name != left, found.vm_state) == (True, VmState.BUILDING)


def test_server_deleted_during_its_spawn_is_destroyed_by_its_deletion(build_cloud: BuildCloud) -> None:
    driver = InterruptedDriver()
    cloud = build_cloud(2, driver=driver)
    server = cloud.request_server(cloud.alice).json["server"]["id"]
    driver.happens = lambda: cloud.alice.delete(f"/servers/{server}")
    do(cloud, cloud.jobs())
    assert [verb for verb, _, _ in driver.done] == ["spawn"]
    cloud.settle()
    assert [verb for verb, _, _ in driver.done] == ["spawn", "destroy"]
    assert cloud.is_empty()
