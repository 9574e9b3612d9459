"""After a fault of the database, the fleet in memory equals the rows, and claims keep hard policies."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
import sqlalchemy as sa

from covey.model.resources import Resources
from covey.services.maintenance import CHANGES_KEPT, Maintenance
from covey.storage import engine
from tests.build import NOW, a_host
from tests.fleet_in_memory import differences
from tests.functional.fleets import BuildCloud, Cloud, FailingDriver
from tests.functional.racks import HOSTS, Racks, answered, boot, boot_on, racks_on, request_server
from tests.lossy_proxy import LossyProxy
from tests.postgresql_cluster import Cluster
from tests.sessions import terminate, wait_for_waiting_sessions


@pytest.fixture
def racks(cluster: Cluster, tmp_path: Path) -> Iterator[Racks]:
    with cluster.fresh() as database, racks_on(database, tmp_path) as made:
        yield made


def check_policy_after(racks: Racks, fault: Callable[[], None]) -> None:
    """Move a host after the fault, and assert that the process under test knows."""
    group = racks.here.group("anti-affinity:rack")
    boot_on(racks.here, "node-1", group)
    fault()
    answered(lambda: racks.there.admin.get("/flavors"))
    racks.move("node-2", "rack-1")
    second, third = boot(racks.here, group), boot(racks.here, group)
    assert racks.here.hosts([second, third]) == ["node-3", None]
    assert racks.differences() == {}


# PostgreSQL restarts


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_process_follows_changes_after_a_restart(
    racks: Racks, cluster: Cluster, mode: Literal["fast", "immediate"]
) -> None:
    check_policy_after(racks, partial(cluster.restart, mode))


def test_process_follows_changes_after_a_crash_that_makes_transaction_ids_available_again(
    racks: Racks, cluster: Cluster
) -> None:
    def crash() -> None:
        cluster.abort_transactions(300)
        racks.here.check()  # looks at the log, beyond these ids
        cluster.restart("immediate")

    check_policy_after(racks, crash)


@pytest.mark.parametrize("idle_s", [0.0, 60.0], ids=["pinged", "unpinged"])
def test_process_follows_changes_after_a_session_crashes(
    racks: Racks, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, idle_s: float
) -> None:
    monkeypatch.setattr(engine, "_IDLE_S", idle_s)  # after which a connection is pinged before its use

    def crash() -> None:
        cluster.abort_transactions(300)
        racks.here.check()
        cluster.kill_session()

    check_policy_after(racks, crash)


def test_process_follows_changes_after_its_sessions_are_terminated(racks: Racks, cluster: Cluster) -> None:
    check_policy_after(racks, cluster.terminate_sessions)


@pytest.mark.parametrize("promote", [True, False], ids=["promoted", "restored"])
def test_process_follows_changes_after_a_failover_that_loses_transactions(
    racks: Racks, cluster: Cluster, promote: bool
) -> None:
    def fail_over() -> None:
        standby = cluster.backup()
        for _ in range(6):
            boot(racks.here)
        cluster.fail_over(standby, promote=promote)

    check_policy_after(racks, fail_over)


def test_fleet_that_was_read_from_a_standby_is_loaded_after_its_promotion(racks: Racks, cluster: Cluster) -> None:
    """In recovery a snapshot lists no transactions in progress, so the log may lack some of them."""

    def tag() -> str:
        with racks.here.store.read() as tx:
            return racks.here.assembled.live.read(tx).tag

    cluster.become_standby()
    answered(lambda: racks.here.admin.get("/flavors"))
    before = tag()
    assert tag() == before
    cluster.promote()
    assert tag() != before


def test_group_version_that_a_failover_repeats_is_not_taken_for_the_cached_one(racks: Racks, cluster: Cluster) -> None:
    group = racks.here.group("anti-affinity")
    boot_on(racks.here, "node-1", group)
    standby = cluster.backup()
    boot_on(racks.here, "node-2", group)  # lost, but cached
    cluster.fail_over(standby, promote=True)
    boot_on(racks.there, "node-3", group)  # the same number of changes as the lost one
    assert racks.here.host(boot(racks.here, group)) == "node-2"


# Lost answers


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[LossyProxy]:
    with LossyProxy(cluster.socket) as started:
        yield started


@pytest.fixture
def lossy(cluster: Cluster, proxy: LossyProxy, tmp_path: Path) -> Iterator[Racks]:
    """The process under test connects through the proxy."""
    with cluster.fresh() as database:
        name = str(sa.engine.make_url(database).database)
        with racks_on(database, tmp_path, through=proxy.url(name)) as made:
            yield made


def test_claim_whose_commit_is_not_answered_keeps_its_room(lossy: Racks, proxy: LossyProxy) -> None:
    boot(lossy.here)
    for number in range(5):
        client = lossy.here.alice.sending(Idempotency_Key=f"key-{number}")
        proxy.lose_answers(1)
        assert request_server(client).status == 503
        boot(lossy.here, key=f"key-{number}")
        assert lossy.differences() == {}
    assert proxy.lost == 5
    assert len(lossy.there.servers()) == 6, "a repeated request creates no second server"


def test_full_fleet_refuses_after_lost_answers(lossy: Racks, proxy: LossyProxy) -> None:
    lost, slots = 9, 12
    for name in HOSTS:
        lossy.there.set_host(name, status="disabled")
    with lossy.there.store.write() as tx:
        tx.hosts.add([a_host(f"slot-{number}", vcpus=1) for number in range(slots)], NOW)
    for _ in range(lost):
        proxy.lose_answers(1)
        assert request_server(lossy.here.alice).status == 503
    placed = [boot(lossy.here) for _ in range(slots - lost)]
    assert None not in lossy.there.hosts(placed)
    for _ in range(3):
        refused = request_server(lossy.here.alice)
        assert refused.status == 202, refused.text
        assert lossy.here.status(refused.json["server"]["id"]) == "ERROR"


def test_move_whose_commit_is_not_answered_keeps_its_room(lossy: Racks, proxy: LossyProxy) -> None:
    server = boot(lossy.here)
    lossy.there.settle()
    proxy.lose_answers(1)
    live = {"host": None, "block_migration": "auto"}
    assert lossy.here.admin.post(f"/servers/{server}/action", {"os-migrateLive": live}).status == 503
    assert lossy.differences() == {}
    lossy.there.settle()
    assert lossy.differences() == {}


# A view that cannot be brought up to date


def test_change_is_not_forgotten_when_reading_it_fails(racks: Racks) -> None:
    group = racks.here.group("anti-affinity:rack")
    boot_on(racks.here, "node-1", group)
    racks.move("node-2", "rack-1")
    with racks.there.connection.connect() as other, ThreadPoolExecutor(1) as pool:
        other.execute(sa.text("LOCK TABLE aggregates, aggregate_hosts IN ACCESS EXCLUSIVE MODE"))
        failed = pool.submit(request_server, racks.here.alice)
        (session,) = wait_for_waiting_sessions(racks.there.connection)
        terminate(racks.there.connection, session)
        assert failed.result().status == 503
    assert racks.differences() == {}
    second, third = boot(racks.here, group), boot(racks.here, group)
    assert racks.here.hosts([second, third]) == ["node-3", None]


def trim_change_log(cloud: Cloud) -> None:
    """Run the maintenance of another process until its retention of the log is over."""
    times = [NOW + CHANGES_KEPT * n for n in range(3)]
    maintenance = Maintenance(cloud.store, lambda: times[0])
    for _ in range(3):
        maintenance.run_if_due()
        times[0] += CHANGES_KEPT + timedelta(seconds=1)


def test_process_that_slept_through_the_retention_of_the_log_loads_the_fleet(database: str, tmp_path: Path) -> None:
    with racks_on(database, tmp_path) as racks:
        group = racks.here.group("anti-affinity:rack")
        boot_on(racks.here, "node-1", group)
        racks.move("node-2", "rack-1")
        boot(racks.there)
        trim_change_log(racks.there)
        assert racks.differences() == {}
        second, third = boot(racks.here, group), boot(racks.here, group)
        assert racks.here.hosts([second, third]) == ["node-3", None]


def test_process_that_missed_only_usage_loads_the_fleet(database: str, tmp_path: Path) -> None:
    with racks_on(database, tmp_path) as racks:
        boot(racks.here)
        boot(racks.there)
        trim_change_log(racks.there)
        assert racks.differences() == {}


# Claims that memory cannot explain


def full_host_with_phantom_room(racks: Racks) -> None:
    """Fill node-1, which looks the roomiest one in the memory of the process under test."""
    for _ in range(8):
        boot(racks.here, availability_zone="nova:node-1", flavorRef="whole")
    show_phantom_room(racks.here, "node-1")


def show_phantom_room(cloud: Cloud, name: str) -> None:
    """Make a host look the roomiest one in the memory of a process."""
    with cloud.store.read() as tx, cloud.assembled.live.fresh(tx) as snapshot:
        host = snapshot.fleet.ids[snapshot.fleet.row_of_name[name]]
        snapshot.fleet.take_all([(int(host), Resources({"VCPU": -640, "MEMORY_MB": -(2**20), "DISK_GB": -(2**16)}))])


@pytest.fixture
def full_host(build_cloud: BuildCloud) -> Callable[..., Cloud]:
    """Builds a cloud of three hosts: node-1 is full, node-2 the roomiest one."""

    def build(driver: FailingDriver | None = None) -> Cloud:
        sizes = {"node-1": 8, "node-2": 32, "node-3": 16}
        cloud = build_cloud([a_host(name, vcpus, 65536, 1000) for name, vcpus in sizes.items()], driver=driver)
        cloud.boot_on("node-1", flavorRef="whole")
        return cloud

    return build


def is_true(cloud: Cloud, build_cloud: BuildCloud) -> bool:
    """Return whether the memory of a process equals the rows."""
    return not differences(cloud.store, cloud.assembled.live, build_cloud(None).assembled.live)


def test_host_that_refuses_two_claims_without_a_change_has_the_fleet_loaded(database: str, tmp_path: Path) -> None:
    with racks_on(database, tmp_path) as racks:
        full_host_with_phantom_room(racks)
        first = boot(racks.here)
        assert racks.here.host(first) != "node-1"  # the claim was refused, and decided again without the host
        assert len(racks.differences()) == 1
        second = boot(racks.here)
        assert racks.here.host(second) != "node-1"
        assert racks.differences() == {}


def test_refused_claim_that_a_change_explains_keeps_the_fleet(database: str, tmp_path: Path) -> None:
    with racks_on(database, tmp_path) as racks:
        full_host_with_phantom_room(racks)
        for _ in range(2):
            boot(racks.here)
            on_full_host = [each["id"] for each in racks.here.servers() if each["OS-EXT-SRV-ATTR:host"] == "node-1"]
            racks.there.delete(on_full_host[0])
            boot(racks.there, availability_zone="nova:node-1", flavorRef="whole")
        assert racks.differences() != {}  # no claim of a host that did not change since was refused


MOVES: dict[str, Any] = {"migrate": None, "os-migrateLive": {"host": None, "block_migration": "auto"}, "unshelve": None}


@pytest.mark.parametrize("action", MOVES)
def test_move_leaves_a_host_that_refused_it_and_the_second_one_has_the_fleet_loaded(
    full_host: Callable[..., Cloud], build_cloud: BuildCloud, action: str
) -> None:
    cloud = full_host()
    servers = [cloud.boot_on("node-2") for _ in range(2)]
    if action == "unshelve":
        for server in servers:
            cloud.run_action(cloud.admin, server, "shelve")
    show_phantom_room(cloud, "node-1")
    for server, loaded in zip(servers, (False, True), strict=True):
        answer = cloud.admin.post(f"/servers/{server}/action", {action: MOVES[action]})
        assert answer.status == 202, answer.text
        assert is_true(cloud, build_cloud) == loaded
    cloud.settle()
    assert "node-1" not in cloud.hosts(servers)


def test_move_to_a_named_host_that_memory_cannot_explain_is_refused_with_the_reason(
    full_host: Callable[..., Cloud],
) -> None:
    cloud = full_host()
    server = cloud.boot_on("node-2")
    show_phantom_room(cloud, "node-1")
    answer = cloud.admin.post(f"/servers/{server}/action", {"migrate": {"host": "node-1"}})
    assert (answer.status, answer.message) == (
        400,
        "No valid host was found. Of 3 hosts: 1 is excluded by the request, 1 is not the one asked for, 1 lacks VCPUs.",
    )


def test_group_leaves_a_host_that_refused_its_evacuation(
    full_host: Callable[..., Cloud], build_cloud: BuildCloud
) -> None:
    cloud = full_host()
    groups = [cloud.group("affinity") for _ in range(2)]
    servers = [cloud.boot_on("node-2", group) for group in groups]
    cloud.set_down("node-2")
    show_phantom_room(cloud, "node-1")
    for group, loaded in zip(groups, (False, True), strict=True):
        answer = cloud.admin.post(f"/os-server-groups/{group}/action", {"evacuate": {}})
        assert answer.status == 202, answer.text
        assert is_true(cloud, build_cloud) == loaded
    cloud.settle()
    assert cloud.hosts(servers) == ["node-3", "node-3"]


def test_server_is_rescheduled_without_a_host_that_refused_it(
    full_host: Callable[..., Cloud], build_cloud: BuildCloud
) -> None:
    cloud = full_host(FailingDriver({"node-2"}))
    servers = [cloud.request_server(cloud.alice).json["server"]["id"] for _ in range(2)]
    assert cloud.hosts(servers) == ["node-2", "node-2"]
    show_phantom_room(cloud, "node-1")
    cloud.assembled.worker().run_once()
    assert cloud.hosts(servers) == ["node-3", "node-3"]
    assert is_true(cloud, build_cloud)
