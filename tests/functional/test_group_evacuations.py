"""Evacuating members of a group from hosts that are down."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillWaiting
from contextlib import suppress
from typing import Any

import pytest
import sqlalchemy as sa

from covey.model.errors import Unavailable
from covey.model.ids import ImageId
from covey.model.images import Visibility
from covey.services.destinations import Destinations
from covey.services.group_evacuations import GroupEvacuations
from covey.storage.server_allocations import ServerAllocations
from tests.build import a_host, an_image
from tests.functional.fleets import IMAGE, BuildCloud, Cloud
from tests.functional.scopes import add_scope
from tests.functional.test_forbidden_aggregates import ON, WINDOWS, WINDOWS_IMAGE, aggregate


def lost_group(cloud: Cloud, *policies: str, host: str = "node-1", members: int = 3) -> tuple[str, list[str]]:
    """Return a group whose members are on a host that is down."""
    group = cloud.group(*policies)
    servers = [cloud.boot_on(host, group) for _ in range(members)]
    cloud.set_down(host)
    return group, servers


def test_members_under_affinity_leave_a_lost_host_one_by_one(cloud: Cloud) -> None:
    _, servers = lost_group(cloud, "affinity")
    for server in servers:
        cloud.run_action(cloud.admin, server, "evacuate", {})
    assert len(set(cloud.hosts(servers))) == 1
    assert cloud.host(servers[0]) != "node-1"


def test_members_under_affinity_leave_a_lost_host_together(build_cloud: BuildCloud) -> None:
    small = [a_host(f"small-{n}", vcpus=2, memory_mb=262144, disk_gb=1000) for n in range(1, 4)]  # a single one's first
    cloud = build_cloud([a_host("node-1"), *small, a_host("large", vcpus=4)])
    group, servers = lost_group(cloud, "affinity")
    answer = cloud.admin.post(f"/os-server-groups/{group}/action", {"evacuate": {}})
    assert answer.status == 202
    assert answer.json["evacuations"] == [
        {"instance_id": server, "accepted": True, "reason": None} for server in servers
    ]
    cloud.settle()
    assert cloud.hosts(servers) == ["large"] * 3, "the only host with room for all"


@pytest.fixture
def mixed(build_cloud: BuildCloud) -> tuple[Cloud, str, list[str]]:
    """A group with a small and a big member on a lost host. Host a is preferred, and has no room for both."""
    cloud = build_cloud([a_host("node-1"), a_host("a", vcpus=2, memory_mb=262144, disk_gb=1000), a_host("b", vcpus=3)])
    group = cloud.group("affinity")
    servers = [cloud.boot_on("node-1", group, flavorRef=flavor) for flavor in ("small", "big")]
    cloud.set_down("node-1")
    return cloud, group, servers


def test_members_of_different_sizes_leave_a_lost_host_together(mixed: tuple[Cloud, str, list[str]]) -> None:
    cloud, group, servers = mixed
    answer = cloud.admin.post(f"/os-server-groups/{group}/action", {"evacuate": {}})
    assert [outcome["accepted"] for outcome in answer.json["evacuations"]] == [True, True]
    cloud.settle()
    assert cloud.hosts(servers) == ["b", "b"]


@pytest.mark.parametrize("first", [0, 1], ids=["the small one first", "the big one first"])
def test_members_of_different_sizes_leave_a_lost_host_one_by_one(
    mixed: tuple[Cloud, str, list[str]], first: int
) -> None:
    cloud, _, servers = mixed
    for server in (servers[first], servers[1 - first]):
        cloud.run_action(cloud.admin, server, "evacuate", {})
    assert cloud.hosts(servers) == ["b", "b"]


def test_evacuation_reads_no_server_while_it_locks_the_fleet(mixed: tuple[Cloud, str, list[str]]) -> None:
    cloud, _, servers = mixed
    locked, seen = cloud.assembled.live._lock.locked, list[tuple[bool, str]]()
    sa.event.listen(cloud.connection, "before_cursor_execute", lambda *call: seen.append((locked(), call[2])))
    cloud.admin.post(f"/servers/{servers[0]}/action", {"evacuate": {}})
    reads = {
        within: [each for inside, each in seen if inside == within and "servers" in each] for within in (True, False)
    }
    assert reads[False]
    assert not reads[True]


def test_as_many_members_of_different_sizes_leave_as_fit_in_one_domain(build_cloud: BuildCloud) -> None:
    large = a_host("a", vcpus=2, memory_mb=262144, disk_gb=1000)
    cloud = build_cloud([a_host("node-1"), large, a_host("b", vcpus=3)])
    group = cloud.group("affinity")
    servers = [cloud.boot_on("node-1", group, flavorRef=flavor) for flavor in ("small", "small", "big", "small")]
    cloud.set_down("node-1")
    outcomes = cloud.admin.post(f"/os-server-groups/{group}/action", {"evacuate": {}}).json["evacuations"]
    cloud.settle()
    assert [outcome["accepted"] for outcome in outcomes] == [True, False, True, False]
    assert cloud.hosts(servers) == ["b", "node-1", "b", "node-1"]


@pytest.mark.parametrize("at_once", [True, False])
def test_members_of_different_images_go_to_a_rack_that_takes_both(build_cloud: BuildCloud, *, at_once: bool) -> None:
    hosts = [a_host("a1"), a_host("a2", 8, 16384, 100, WINDOWS), a_host("b1", 8, 262144, 4000), a_host("c1")]
    cloud = build_cloud([*hosts, a_host("c2", 8, 16384, 100, WINDOWS)], ON)
    properties = {f"trait:{WINDOWS}": "required"}
    with cloud.store.write() as tx:
        tx.images.add([an_image(id=ImageId(WINDOWS_IMAGE), visibility=Visibility.PUBLIC, properties=properties)])
    aggregate(cloud, "licensed", ["a2", "c2"], **{WINDOWS: "required"})
    add_scope(cloud, "rack", {"rack-a": ["a1", "a2"], "rack-b": ["b1"], "rack-c": ["c1", "c2"]})
    group = cloud.group("affinity:rack")
    servers = [cloud.boot_on("a1", group), cloud.boot_on("a2", group, imageRef=WINDOWS_IMAGE)]
    for host in ("a1", "a2"):
        cloud.set_down(host)
    if at_once:
        assert cloud.admin.post(f"/os-server-groups/{group}/action", {"evacuate": {}}).status == 202
        cloud.settle()
    else:
        for server in servers:
            cloud.run_action(cloud.admin, server, "evacuate", {})
    assert cloud.hosts(servers) == ["c1", "c2"]


def test_members_that_do_not_fit_are_reported(build_cloud: BuildCloud) -> None:
    cloud = build_cloud([a_host("node-1"), a_host("small", vcpus=2)])
    group, servers = lost_group(cloud, "affinity")
    outcomes = cloud.admin.post(f"/os-server-groups/{group}/action", {"evacuate": {}}).json["evacuations"]
    cloud.settle()
    assert [outcome["accepted"] for outcome in outcomes] == [True, True, False]
    assert "lacks VCPUs" in outcomes[2]["reason"]
    assert cloud.hosts(servers) == ["small", "small", "node-1"]


def test_affinity_by_rack_moves_to_another_rack_when_its_own_is_lost(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(4)
    add_scope(cloud, "rack", {"rack-a": ["node-1"], "rack-b": ["node-2", "node-3"]})
    _, servers = lost_group(cloud, "affinity:rack", members=2)
    for server in servers:
        cloud.run_action(cloud.admin, server, "evacuate", {})
    assert set(cloud.hosts(servers)) <= {"node-2", "node-3"}


def test_evacuated_server_stays_with_members_on_running_hosts(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(4)
    add_scope(cloud, "rack", {"rack-a": ["node-1", "node-2"], "rack-b": ["node-3", "node-4"]})
    group = cloud.group("affinity:rack")
    lost, _ = cloud.boot_on("node-1", group), cloud.boot_on("node-2", group)
    cloud.set_down("node-1")
    cloud.run_action(cloud.admin, lost, "evacuate", {})
    assert cloud.host(lost) == "node-2"


def test_anti_affinity_counts_members_on_lost_hosts(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(3)
    add_scope(cloud, "rack", {"rack-a": ["node-1", "node-2"], "rack-b": ["node-3"]})
    group = cloud.group("anti-affinity:rack")
    first, _ = cloud.boot_on("node-1", group), cloud.boot_on("node-3", group)
    cloud.set_down("node-1")
    cloud.set_down("node-3")
    cloud.run_action(cloud.admin, first, "evacuate", {})
    assert cloud.host(first) == "node-2", "the other member may come back in its rack"


def test_boots_wait_for_a_group_on_a_lost_host(cloud: Cloud) -> None:
    group, _ = lost_group(cloud, "affinity")
    assert cloud.status(cloud.boot(group=group)) == "ERROR"


@pytest.mark.sqlite_only
@pytest.mark.parametrize(("who", "status"), [("alice", 403), ("bob", 404), ("admin", 202)])
def test_operators_evacuate_groups(cloud: Cloud, who: str, status: int) -> None:
    group, _ = lost_group(cloud, "affinity", members=1)
    client = {"alice": cloud.alice, "bob": cloud.bob, "admin": cloud.admin}[who]
    assert client.post(f"/os-server-groups/{group}/action", {"evacuate": {}}).status == status


def test_group_without_members_on_lost_hosts_is_409(cloud: Cloud) -> None:
    group = cloud.group("affinity")
    cloud.boot(group=group)
    answer = cloud.admin.post(f"/os-server-groups/{group}/action", {"evacuate": {}})
    assert (answer.status, answer.message) == (
        409,
        f"No member of the server group {group} is on a host that is down.",
    )


def before_each(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, do: Callable[[int, Any], None]) -> None:
    """Call `do` with the number of the call and its last argument before each call of a method."""
    original, calls = getattr(owner, name), iter(range(1, 1000))

    def patched(*args: Any, **fields: Any) -> Any:
        do(next(calls), args[-1])
        return original(*args, **fields)

    monkeypatch.setattr(owner, name, patched)


def test_boot_during_an_evacuation_takes_no_room_of_its_members(
    build_cloud: BuildCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = build_cloud([a_host("node-1"), a_host("large-1", vcpus=3), a_host("large-2", vcpus=3)])
    other = build_cloud(None)
    group, servers = lost_group(cloud, "affinity")
    operator = other.service.as_("alice:web", "2.1000").sending(X_Roles="admin")

    def boot(host: str) -> None:
        body = {"name": "s", "flavorRef": "small", "imageRef": IMAGE, "networks": "none", "min_count": 2}
        assert operator.post("/servers", {"server": body | {"availability_zone": f"nova:{host}"}}).status == 202

    with ThreadPoolExecutor(1) as pool:

        def boot_beside(call: int, destination: Any) -> None:
            if call == 1:
                with suppress(StillWaiting):  # it may wait for the evacuation
                    pool.submit(boot, destination.host_name).result(timeout=1)

        before_each(monkeypatch, Destinations, "claim", boot_beside)
        answer = cloud.admin.post(f"/os-server-groups/{group}/action", {"evacuate": {}})
    assert [outcome["accepted"] for outcome in answer.json["evacuations"]] == [True] * 3
    cloud.settle()
    assert len(set(cloud.hosts(servers))) == 1
    assert cloud.host(servers[0]) != "node-1"


def test_member_that_is_deleted_during_an_evacuation_is_reported(
    build_cloud: BuildCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud, other = build_cloud(3), build_cloud(None)
    group, servers = lost_group(cloud, "affinity")

    def delete(call: int, _: Any) -> None:
        if call == 1:
            other.set_host("node-1", forced_down=False)
            other.delete(servers[1])
            other.set_host("node-1", forced_down=True)

    before_each(monkeypatch, GroupEvacuations, "_begin", delete)
    answer = cloud.admin.post(f"/os-server-groups/{group}/action", {"evacuate": {}})
    assert answer.status == 202
    assert [(outcome["accepted"], outcome["reason"]) for outcome in answer.json["evacuations"]] == [
        (True, None),
        (False, f"Instance {servers[1]} could not be found."),
        (True, None),
    ]
    cloud.settle()
    assert len(set(cloud.hosts([servers[0], servers[2]]))) == 1


def test_evacuation_that_fails_for_one_member_moves_none(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    group, servers = lost_group(cloud, "affinity")

    def fail(call: int, _: Any) -> None:
        if call == 2:
            raise Unavailable("The database does not answer.")

    with monkeypatch.context() as patch:
        before_each(patch, ServerAllocations, "allocate", fail)
        assert cloud.admin.post(f"/os-server-groups/{group}/action", {"evacuate": {}}).status == 503
    assert not cloud.jobs()
    assert {cloud.status(server) for server in servers} == {"ACTIVE"}
    assert cloud.used() == {"node-1": 3}
    assert cloud.admin.post(f"/os-server-groups/{group}/action", {"evacuate": {}}).status == 202
    cloud.settle()
    assert len(set(cloud.hosts(servers))) == 1


def test_evacuations_of_a_group_count_each_other(build_cloud: BuildCloud) -> None:
    cloud = build_cloud([a_host("node-1"), *(a_host(f"small-{n}", vcpus=1) for n in range(1, 4))])
    group, servers = lost_group(cloud, "soft-affinity")
    answer = cloud.admin.post(f"/os-server-groups/{group}/action", {"evacuate": {}})
    assert [outcome["accepted"] for outcome in answer.json["evacuations"]] == [True] * 3
    cloud.settle()
    assert sorted(map(str, cloud.hosts(servers))) == ["small-1", "small-2", "small-3"]
