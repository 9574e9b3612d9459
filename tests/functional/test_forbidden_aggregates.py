"""Forbidden aggregates: hosts of aggregates that require traits accept only servers that request them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from covey.model.ids import ImageId
from covey.model.images import Visibility
from covey.services.overview import get_overview
from tests.build import a_host, an_image
from tests.functional.client import Answer
from tests.functional.cluster_tenants import a_tenant
from tests.functional.fleets import IMAGE, BuildCloud, Cloud

WINDOWS, XYZ = "CUSTOM_WINDOWS_LICENSED", "CUSTOM_XYZ"
WINDOWS_IMAGE = "22222222-2222-3333-4444-555555555555"
LINUX = IMAGE
ON = ("scheduler", "enable_forbidden_aggregates_filter", True)
CLOSED = "in an aggregate that requires traits the request does not ask for"


def licensed_cloud(
    build: BuildCloud,
    *traits: str,
    on: bool = True,
    plain: int = 2,
    licensed: int = 2,
    vcpus: int = 128,
    more: Sequence[tuple[str, str, object]] = (),
) -> Cloud:
    """Return a cloud with plain hosts, and with larger licensed hosts in an aggregate that requires their traits."""
    hosts = [a_host(f"plain-{n + 1}", vcpus, 262144, 4000) for n in range(plain)]
    hosts += [a_host(f"licensed-{n + 1}", vcpus, 524288, 8000, *traits) for n in range(licensed)]
    cloud = build(hosts, *([ON] if on else []), *more)
    properties = {f"trait:{WINDOWS}": "required"}
    with cloud.store.write() as tx:
        tx.images.add([an_image(id=ImageId(WINDOWS_IMAGE), visibility=Visibility.PUBLIC, properties=properties)])
    cloud.set_quota(instances=-1, cores=-1, ram=-1)
    aggregate(cloud, "licensed", [f"licensed-{n + 1}" for n in range(licensed)], **dict.fromkeys(traits, "required"))
    return cloud


def aggregate(cloud: Cloud, name: str, hosts: Iterable[str], **traits: str | None) -> str:
    """Create an aggregate and return its path. The uuid is shown from 2.41."""
    made = cloud.admin.post("/os-aggregates", {"aggregate": {"name": name}}).json["aggregate"]
    path = f"/os-aggregates/{made['id']}"
    for host in hosts:
        act(cloud, path, "add_host", {"host": host})
    require(cloud, path, **traits)
    return path


def require(cloud: Cloud, path: str, **traits: str | None) -> None:
    if traits:
        act(cloud, path, "set_metadata", {"metadata": {f"trait:{name}": value for name, value in traits.items()}})


def act(cloud: Cloud, path: str, action: str, body: dict[str, Any]) -> None:
    answer = cloud.admin.post(f"{path}/action", {action: body})
    assert answer.status == 200, answer.text


def licensed_path(cloud: Cloud) -> str:
    (found,) = cloud.admin.get("/os-aggregates").json["aggregates"]
    return f"/os-aggregates/{found['id']}"


def flavor(cloud: Cloud, name: str, **traits: str) -> str:
    made = cloud.admin.post("/flavors", {"flavor": {"id": name, "name": name, "vcpus": 1, "ram": 1024, "disk": 10}})
    assert made.status == 200, made.text
    specs = {f"trait:{trait}": value for trait, value in traits.items()}
    assert cloud.admin.post(f"/flavors/{name}/os-extra_specs", {"extra_specs": specs}).status == 200
    return name


def kinds(cloud: Cloud) -> set[str]:
    """Return the kinds of hosts that have servers."""
    return {str(server["OS-EXT-SRV-ATTR:host"]).rpartition("-")[0] for server in cloud.servers()}


def explain(cloud: Cloud, **asked: Any) -> dict[str, Any]:
    answer = cloud.admin.post("/os-placement-explain", {"explain": {"flavorRef": "small", **asked}})
    assert answer.status == 200, answer.text
    explanation: dict[str, Any] = answer.json["explanation"]
    return explanation


def test_two_hundred_plain_servers_avoid_licensed_hosts(build_cloud: BuildCloud) -> None:
    cloud = licensed_cloud(build_cloud, WINDOWS)
    for _ in range(40):
        cloud.request_server(cloud.alice, imageRef=LINUX)
    for _ in range(16):
        cloud.request_server(cloud.alice, imageRef=LINUX, min_count=10, max_count=10)
    cloud.settle()
    servers = cloud.servers()
    assert len(servers) == 200
    assert {server["status"] for server in servers} == {"ACTIVE"}
    assert kinds(cloud) == {"plain"}


@pytest.mark.sqlite_only
def test_licensed_image_runs_only_on_licensed_hosts(build_cloud: BuildCloud) -> None:
    cloud = licensed_cloud(build_cloud, WINDOWS)
    for _ in range(5):
        cloud.boot(imageRef=WINDOWS_IMAGE)
    assert kinds(cloud) == {"licensed"}


@pytest.mark.sqlite_only
def test_disabled_option_allows_any_image_on_any_host(build_cloud: BuildCloud) -> None:
    cloud = licensed_cloud(build_cloud, WINDOWS, on=False)
    cloud.boot(imageRef=LINUX)
    assert kinds(cloud) == {"licensed"}
    assert "member_of" not in explain(cloud)["query"]


@pytest.mark.sqlite_only
def test_fault_counts_licensed_hosts(build_cloud: BuildCloud) -> None:
    cloud = licensed_cloud(build_cloud, WINDOWS, plain=1, vcpus=2)
    cloud.boot(flavorRef="big", imageRef=LINUX)
    lost = cloud.boot(imageRef=LINUX)
    explanation = f"No valid host was found. Of 3 hosts: 2 are {CLOSED}, 1 lacks VCPUs."
    shown = cloud.show(lost, cloud.alice)
    assert (shown["status"], shown["fault"]["message"]) == ("ERROR", explanation)
    assert kinds(cloud) == {"plain", ""}
    assert cloud.status(cloud.boot(imageRef=WINDOWS_IMAGE)) == "ACTIVE"


def test_batch_fills_only_plain_hosts(build_cloud: BuildCloud) -> None:
    cloud = licensed_cloud(build_cloud, WINDOWS, plain=1, vcpus=4)
    cloud.boot(imageRef=LINUX, min_count=1, max_count=10)
    assert (len(cloud.servers()), kinds(cloud)) == (4, {"plain"})
    cloud.delete(*(server["id"] for server in cloud.servers()))
    cloud.boot(imageRef=LINUX, min_count=5, max_count=10)
    assert {server["status"] for server in cloud.servers()} == {"ERROR"}


@pytest.mark.sqlite_only
def test_request_must_require_every_trait_of_the_aggregate(build_cloud: BuildCloud) -> None:
    cloud = licensed_cloud(build_cloud, WINDOWS, XYZ)
    lost = cloud.boot(imageRef=WINDOWS_IMAGE)
    assert f"2 are {CLOSED}" in cloud.show(lost, cloud.alice)["fault"]["message"]
    both = cloud.boot(imageRef=WINDOWS_IMAGE, flavorRef=flavor(cloud, "xyz", **{XYZ: "required"}))
    assert str(cloud.host(both)).startswith("licensed")


class TestGranularGroups:
    """A trait that a numbered part of the flavor requires opens an aggregate like any other."""

    @staticmethod
    def granular(cloud: Cloud, name: str, trait: str = "required") -> str:
        specs = {"resources:VCPU": "0", "resources1:VCPU": "1", f"trait1:{WINDOWS}": trait}
        made = flavor(cloud, name)
        assert cloud.admin.post(f"/flavors/{made}/os-extra_specs", {"extra_specs": specs}).status == 200
        return made

    def test_trait_of_a_granular_group_opens_the_aggregate(self, build_cloud: BuildCloud) -> None:
        cloud = licensed_cloud(build_cloud, WINDOWS, XYZ)
        win, never = self.granular(cloud, "win"), self.granular(cloud, "never", "forbidden")
        lost = cloud.boot(imageRef=LINUX, flavorRef=win)
        assert f"2 are {CLOSED}" in cloud.show(lost, cloud.alice)["fault"]["message"]
        require(cloud, licensed_path(cloud), **{XYZ: None})
        server = cloud.boot(imageRef=LINUX, flavorRef=win)
        assert str(cloud.host(server)).startswith("licensed")
        assert str(cloud.host(cloud.boot(imageRef=LINUX, flavorRef=never))).startswith("plain")
        assert "member_of" not in explain(cloud, flavorRef=win)["query"]
        cloud.run_action(cloud.admin, server, "migrate")
        cloud.run_action(cloud.admin, server, "confirmResize")
        assert str(cloud.host(server)).startswith("licensed")
        assert get_overview(cloud.store, "nova", isolate_aggregates=True).misplaced_servers == ()

    @pytest.mark.sqlite_only
    def test_traits_of_granular_group_and_image_count_together(self, build_cloud: BuildCloud) -> None:
        cloud = licensed_cloud(build_cloud, WINDOWS, XYZ)
        properties = {f"trait:{XYZ}": "required"}
        image = an_image(id=ImageId("33333333-2222-3333-4444-555555555555"), visibility=Visibility.PUBLIC)
        with cloud.store.write() as tx:
            tx.images.add([replace(image, properties=properties)])
        server = cloud.boot(imageRef=image.id, flavorRef=self.granular(cloud, "win"))
        assert str(cloud.host(server)).startswith("licensed")

    @pytest.mark.sqlite_only
    def test_rebalance_keeps_a_granular_server_on_licensed_hosts(self, build_cloud: BuildCloud) -> None:
        cloud = licensed_cloud(build_cloud, WINDOWS)
        group, win = cloud.group("affinity"), self.granular(cloud, "win")
        cloud.boot_on("licensed-1", group, imageRef=LINUX, flavorRef=win)
        apart = cloud.boot_on("licensed-2", group, imageRef=LINUX, flavorRef=win)
        path = f"/os-server-groups/{group}/action"
        answer = cloud.admin.post(path, {"rebalance": {"dry_run": True}})
        assert answer.status == 200, answer.text
        (move,) = answer.json["rebalance"]["moves"]
        assert str(move["to"]).startswith("licensed"), (move, apart)


@pytest.mark.sqlite_only
def test_forbidden_trait_does_not_count_as_required(build_cloud: BuildCloud) -> None:
    cloud = licensed_cloud(build_cloud, WINDOWS)
    server = cloud.boot(imageRef=LINUX, flavorRef=flavor(cloud, "never", **{WINDOWS: "forbidden"}))
    assert str(cloud.host(server)).startswith("plain")


@pytest.mark.sqlite_only
def test_other_metadata_values_and_keys_do_not_restrict(build_cloud: BuildCloud) -> None:
    cloud = licensed_cloud(build_cloud)
    act(cloud, licensed_path(cloud), "set_metadata", {"metadata": {f"trait:{WINDOWS}": "forbidden", "os": "required"}})
    cloud.boot(imageRef=LINUX)
    assert kinds(cloud) == {"licensed"}


def test_changes_of_metadata_or_hosts_apply_to_the_next_request(build_cloud: BuildCloud) -> None:
    cloud = licensed_cloud(build_cloud, WINDOWS)
    path = licensed_path(cloud)
    require(cloud, path, **{WINDOWS: None})
    assert str(cloud.host(cloud.boot(imageRef=LINUX))).startswith("licensed")
    require(cloud, path, **{WINDOWS: "required"})
    assert str(cloud.host(cloud.boot(imageRef=LINUX))).startswith("plain")
    act(cloud, path, "remove_host", {"host": "licensed-2"})
    assert cloud.host(cloud.boot(imageRef=LINUX)) == "licensed-2"
    act(cloud, path, "add_host", {"host": "licensed-2"})
    assert str(cloud.host(cloud.boot(imageRef=LINUX))).startswith("plain")


@pytest.mark.sqlite_only
def test_image_of_a_boot_volume_counts(build_cloud: BuildCloud) -> None:
    cloud = licensed_cloud(build_cloud, WINDOWS)
    volume = {"boot_index": 0, "source_type": "image", "destination_type": "volume", "volume_size": 10}
    for image in (WINDOWS_IMAGE, LINUX):
        server = cloud.boot(imageRef="", block_device_mapping_v2=[volume | {"uuid": image}])
        assert str(cloud.host(server)).startswith("licensed" if image == WINDOWS_IMAGE else "plain")


@pytest.mark.sqlite_only
def test_forced_and_requested_hosts_respect_the_filter(build_cloud: BuildCloud) -> None:
    cloud = licensed_cloud(build_cloud, WINDOWS)
    server = cloud.boot_on("licensed-1", imageRef=LINUX)
    assert CLOSED in cloud.show(server)["fault"]["message"]
    assert cloud.host(cloud.boot_on("licensed-1", imageRef=WINDOWS_IMAGE)) == "licensed-1"
    operator = cloud.alice.sending(X_Roles="admin")
    assert cloud.status(cloud.boot(operator, host="licensed-1", imageRef=LINUX)) == "ERROR"


@pytest.mark.sqlite_only
def test_forced_move_respects_the_filter(build_cloud: BuildCloud) -> None:
    cloud = licensed_cloud(build_cloud, WINDOWS)
    server = cloud.boot_on("plain-1", imageRef=LINUX)
    body = {"host": "licensed-1", "block_migration": "auto", "force": True}
    answer = cloud.act(cloud.admin.at("2.30"), server, "os-migrateLive", body)
    assert answer.status == 400
    assert CLOSED in answer.message


@pytest.mark.sqlite_only
def test_forced_evacuation_respects_the_filter(build_cloud: BuildCloud) -> None:
    cloud = licensed_cloud(build_cloud, WINDOWS)
    server = cloud.boot_on("plain-1", imageRef=LINUX)
    cloud.set_down("plain-1")
    answer = cloud.act(cloud.admin.at("2.29"), server, "evacuate", {"host": "licensed-1", "force": True})
    assert answer.status == 400
    assert CLOSED in answer.message
    assert cloud.act(cloud.admin.at("2.29"), server, "evacuate", {"host": "plain-2", "force": True}).status == 200
    cloud.settle()
    assert cloud.host(server) == "plain-2"


@pytest.mark.sqlite_only
def test_boot_volume_of_a_cluster_counts(build_cloud: BuildCloud) -> None:
    cloud = licensed_cloud(build_cloud, WINDOWS)
    for image, kind in ((WINDOWS_IMAGE, "licensed"), (LINUX, "plain")):
        volume = {
            "boot_index": 0,
            "uuid": image,
            "source_type": "image",
            "destination_type": "volume",
            "volume_size": 10,
        }
        tenant = a_tenant(cloud, cloud.alice, block_device_mapping_v2=[volume])
        assert tenant.create(2)["status"] == "SUCCEEDED"
        assert {str(host).rpartition("-")[0] for host in tenant.hosts} == {kind}
        tenant.delete()
        assert tenant.api.delete("/profiles/p").status == 204


@pytest.mark.sqlite_only
def test_option_lets_forced_hosts_ignore_the_filter(build_cloud: BuildCloud) -> None:
    cloud = licensed_cloud(build_cloud, WINDOWS, more=[("scheduler", "isolate_forced_hosts", False)])
    assert cloud.host(cloud.boot_on("licensed-1", imageRef=LINUX)) == "licensed-1"
    operator = cloud.alice.sending(X_Roles="admin")
    assert cloud.status(cloud.boot(operator, host="licensed-1", imageRef=LINUX)) == "ERROR"


@pytest.mark.sqlite_only
def test_forced_host_of_other_projects_is_refused(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(2)
    path = aggregate(cloud, "reserved", ["node-1"])
    act(cloud, path, "set_metadata", {"metadata": {"filter_tenant_id": "db"}})
    server = cloud.boot_on("node-1")
    assert "reserved for other projects" in cloud.show(server)["fault"]["message"]


@pytest.mark.sqlite_only
class TestMoves:
    """Each kind of move uses a plain host, and is refused without one."""

    @pytest.fixture(params=[2, 1], ids=["another plain host", "licensed hosts only"])
    def world(self, build_cloud: BuildCloud, request: pytest.FixtureRequest) -> tuple[Cloud, bool]:
        return licensed_cloud(build_cloud, WINDOWS, plain=request.param, vcpus=8), request.param == 2

    @staticmethod
    def moved(cloud: Cloud, server: str, answer: Answer, *, can: bool) -> None:
        cloud.settle()
        if can:
            assert answer.status in {200, 202}, answer.text
            assert cloud.host(server) == "plain-2"
        else:
            assert answer.status in {400, 409}, answer.text
            assert CLOSED in answer.message
            assert cloud.host(server) in {"plain-1", None}

    def test_migrate_avoids_forbidden_aggregates(self, world: tuple[Cloud, bool]) -> None:
        cloud, can = world
        server = cloud.boot_on("plain-1")
        self.moved(cloud, server, cloud.act(cloud.admin, server, "migrate"), can=can)

    def test_live_migrate_avoids_forbidden_aggregates(self, world: tuple[Cloud, bool]) -> None:
        cloud, can = world
        server = cloud.boot_on("plain-1")
        answer = cloud.act(cloud.admin, server, "os-migrateLive", {"host": None, "block_migration": "auto"})
        self.moved(cloud, server, answer, can=can)

    def test_live_migrate_to_a_forbidden_host_is_rejected(self, world: tuple[Cloud, bool]) -> None:
        cloud, _ = world
        server = cloud.boot_on("plain-1")
        request = {"host": "licensed-1", "block_migration": "auto"}
        self.moved(cloud, server, cloud.act(cloud.admin, server, "os-migrateLive", request), can=False)

    def test_resize_avoids_forbidden_aggregates(self, world: tuple[Cloud, bool]) -> None:
        cloud, can = world
        server = cloud.boot_on("plain-1")
        self.moved(cloud, server, cloud.act(cloud.alice, server, "resize", {"flavorRef": "big"}), can=can)

    def test_resize_to_a_flavor_with_the_traits_uses_licensed_hosts(self, world: tuple[Cloud, bool]) -> None:
        cloud, _ = world
        server = cloud.boot_on("plain-1")
        cloud.run_action(cloud.alice, server, "resize", {"flavorRef": flavor(cloud, "win", **{WINDOWS: "required"})})
        assert str(cloud.host(server)).startswith("licensed")

    def test_evacuate_avoids_forbidden_aggregates(self, world: tuple[Cloud, bool]) -> None:
        cloud, can = world
        server = cloud.boot_on("plain-1")
        cloud.set_down("plain-1")
        self.moved(cloud, server, cloud.act(cloud.admin, server, "evacuate", {}), can=can)

    def test_unshelve_avoids_forbidden_aggregates(self, world: tuple[Cloud, bool]) -> None:
        cloud, can = world
        server = cloud.boot_on("plain-1")
        cloud.run_action(cloud.alice, server, "shelve")
        cloud.set_host("plain-1", status="disabled")
        self.moved(cloud, server, cloud.act(cloud.alice, server, "unshelve"), can=can)


@pytest.mark.sqlite_only
def test_preview_avoids_forbidden_aggregates(build_cloud: BuildCloud) -> None:
    cloud = licensed_cloud(build_cloud, WINDOWS, plain=1, vcpus=4)
    group = cloud.group("soft-anti-affinity")

    def fits(image: str) -> int:
        wanted = {"preview": {"flavor": "small", "image": image, "count": 20}}
        answer = cloud.alice.post(f"/os-server-groups/{group}/action", wanted)
        assert answer.status == 200, answer.text
        return int(answer.json["preview"]["fits"])

    assert (fits(LINUX), fits(WINDOWS_IMAGE)) == (4, 8)


class TestExplanations:
    """Explanations for operators."""

    @pytest.mark.sqlite_only
    def test_query_lists_the_forbidden_aggregates(self, build_cloud: BuildCloud) -> None:
        cloud = licensed_cloud(build_cloud, WINDOWS)
        aggregate(cloud, "more", ["plain-2"], **{XYZ: "required", WINDOWS: "required"})
        uuids = {each["name"]: each["uuid"] for each in cloud.admin.get("/os-aggregates").json["aggregates"]}
        resources = "resources=VCPU:1,MEMORY_MB:1024,DISK_GB:10"
        explanation = explain(cloud, imageRef=LINUX)
        assert explanation["query"] == f"{resources}&member_of=!in:{','.join(sorted(uuids.values()))}"
        reasons = {each["host"]: each["reason"] for each in explanation["hosts"]}
        closed = f"it is {CLOSED}"
        assert reasons == {"plain-1": None, "plain-2": closed, "licensed-1": closed, "licensed-2": closed}
        explanation = explain(cloud, imageRef=WINDOWS_IMAGE)
        assert explanation["query"] == f"{resources}&required={WINDOWS}&member_of=!in:{uuids['more']}"
        never = flavor(cloud, "never", HW_CPU_X86_VMX="forbidden")
        assert (
            f"&required={WINDOWS},!HW_CPU_X86_VMX&" in explain(cloud, flavorRef=never, imageRef=WINDOWS_IMAGE)["query"]
        )

    @pytest.mark.parametrize("image", [LINUX, WINDOWS_IMAGE])
    def test_placement_returns_the_same_hosts_for_the_query(self, build_cloud: BuildCloud, image: str) -> None:
        cloud = licensed_cloud(build_cloud, WINDOWS)
        explanation = explain(cloud, imageRef=image)
        placement = cloud.service.as_("admin:operators").below("/placement")
        placement = placement.sending(OpenStack_API_Version="placement 1.39")
        answer = placement.ask("GET", "/allocation_candidates", query_string=explanation["query"])
        assert answer.status == 200, answer.text
        with cloud.store.read() as tx:
            names = {host.uuid: host.name for host in tx.hosts.find()}
        found = {names[uuid] for uuid in answer.json["provider_summaries"]}
        assert found == {each["host"] for each in explanation["hosts"] if each["allowed"]}
        assert len(found) == 2

    @pytest.mark.sqlite_only
    def test_server_placement_includes_the_query(self, build_cloud: BuildCloud) -> None:
        cloud = licensed_cloud(build_cloud, WINDOWS)
        (uuid,) = (each["uuid"] for each in cloud.admin.get("/os-aggregates").json["aggregates"])
        resources = "resources=VCPU:1,MEMORY_MB:1024,DISK_GB:10"

        def query(image: str) -> str:
            return str(cloud.admin.get(f"/servers/{cloud.boot(imageRef=image)}/placement").json["placement"]["query"])

        assert query(LINUX) == f"{resources}&member_of=!in:{uuid}"
        assert query(WINDOWS_IMAGE) == f"{resources}&required={WINDOWS}"

    @pytest.mark.sqlite_only
    def test_explanation_is_forbidden_for_tenants(self, build_cloud: BuildCloud) -> None:
        cloud = licensed_cloud(build_cloud, WINDOWS)
        assert cloud.alice.post("/os-placement-explain", {"explain": {"flavorRef": "small"}}).status == 403
        server = cloud.boot(imageRef=LINUX)
        for path in (f"/servers/{server}", f"/servers/{server}/placement"):
            assert "member_of" not in cloud.alice.get(path).text


def test_overview_lists_misplaced_servers(build_cloud: BuildCloud) -> None:
    cloud = licensed_cloud(build_cloud)
    stays = [cloud.boot_on("licensed-1", imageRef=LINUX) for _ in range(7)]
    cloud.boot_on("licensed-2", imageRef=LINUX, flavorRef=flavor(cloud, "win", **{WINDOWS: "required"}))
    cloud.boot_on("plain-1", imageRef=LINUX)
    assert get_overview(cloud.store, "nova", isolate_aggregates=True).misplaced_servers == ()
    require(cloud, licensed_path(cloud), **{WINDOWS: "required"})
    seen = get_overview(cloud.store, "nova", isolate_aggregates=True)
    assert [stray.server for stray in seen.misplaced_servers] == sorted(stays)
    assert {(stray.host, stray.aggregates, stray.project_id) for stray in seen.misplaced_servers} == {
        ("licensed-1", ("licensed",), "web")
    }
    few = ", ".join(sorted(stays)[:5])
    assert (
        f"7 servers are in an aggregate that requires traits the server does not request: {few} and 2 more."
        in seen.warnings
    )
    assert get_overview(cloud.store, "nova").misplaced_servers == ()
