"""Groups, the map, health and the status of a cloud whose instances Nova runs."""

import uuid
from dataclasses import replace
from typing import Any

import pytest

from covey.model.nova import NovaHost, NovaServer
from covey.services.overview import get_overview
from tests.build import NOW
from tests.functional.client import Client
from tests.functional.fleets import BuildCloud
from tests.functional.nova_consumers import OWNER, Nova, nova_with_racks
from tests.functional.scopes import scope

GROUP = str(uuid.UUID(int=77))
URL = "http://nova.example.org/v2.1"


@pytest.fixture
def nova(build_cloud: BuildCloud) -> Nova:
    return nova_with_racks(build_cloud(0))


def mirror(nova: Nova, *servers: NovaServer, **hosts: dict[str, Any]) -> None:
    """Write what a sync reads: the computes, some of them in another state, and servers."""
    up = {
        name: NovaHost(key, name, f"{name}.example.org", "az-1", disabled=False, disabled_reason=None, up=True)
        for name, key in nova.computes.items()
    }
    with nova.cloud.store.write() as tx:
        tx.nova_mirror.set_hosts({host.uuid: replace(host, **hosts.get(name, {})) for name, host in up.items()})
        tx.nova_mirror.set_servers({server.id: server for server in servers})
        tx.nova_mirror.set_read(URL, NOW)


def a_server(key: str, name: str, status: str = "ACTIVE") -> NovaServer:
    return NovaServer(key, name, OWNER["project_id"], OWNER["user_id"], status, None)


def crowded(nova: Nova) -> tuple[str, str]:
    """Place two members of a group in one rack, and then forbid that."""
    one, two = (nova.member(GROUP, "soft-anti-affinity") for _ in range(2))
    nova.place(one, "cn1")
    nova.place(two, "cn2")
    body = {"server_group": {"policies": ["anti-affinity:rack", "soft-anti-affinity"]}}
    assert nova.cloud.admin.put(f"/os-server-groups/{GROUP}", body).status == 200
    return one, two


def rack(nova: Nova, name: str) -> str:
    with nova.cloud.store.read() as tx:
        return next(str(each.id) for each in tx.aggregates.all() if each.name == name)


def dashboard(client: Client) -> Client:
    return client.below("/dashboard")


def test_instances_of_nova_are_audited(nova: Nova) -> None:
    one, two = crowded(nova)
    seen = nova.cloud.admin.get(f"/os-server-groups/{GROUP}/audit", violations="true").json["server_group_policy_audit"]
    here = rack(nova, "rack-a")
    assert seen["members"] == [
        {"instance_id": one, "placements": {"rack": here, "host": "cn1"}},
        {"instance_id": two, "placements": {"rack": here, "host": "cn2"}},
    ]
    (violation,) = seen["violations"]
    assert (violation["policy"], violation["domain"], set(violation["members"])) == (
        "anti-affinity:rack",
        here,
        {one, two},
    )


def test_tenants_audit_of_instances_names_no_compute_node(nova: Nova) -> None:
    crowded(nova)
    mirror(nova)
    for answer in (
        nova.cloud.alice.get(f"/os-server-groups/{GROUP}/audit", violations="true"),
        dashboard(nova.cloud.alice).get(f"/data/groups/{GROUP}"),
        dashboard(nova.cloud.alice).get("/data/fleet", scope="host"),
    ):
        assert answer.status == 200
        assert not [secret for pair in nova.computes.items() for secret in pair if secret in answer.text]


@pytest.mark.sqlite_only
def test_change_of_an_instance_of_nova_says_where_to_change_it(nova: Nova) -> None:
    one, _ = crowded(nova)
    mirror(nova, a_server(one, "web-1"))
    for client in (nova.cloud.alice, nova.cloud.admin):
        for answer in (
            client.delete(f"/servers/{one}"),
            client.put(f"/servers/{one}", {"server": {"name": "other"}}),
            client.post(f"/servers/{one}/action", {"reboot": {"type": "SOFT"}}),
        ):
            assert (answer.status, "belongs to Nova: `openstack server` changes it" in answer.message) == (409, True)
            assert (URL in answer.message) is (client.token == nova.cloud.admin.token), (
                "tenants do not see an internal address"
            )
    of_other, of_none = nova.cloud.bob.delete(f"/servers/{one}"), nova.cloud.bob.delete(f"/servers/{uuid.UUID(int=1)}")
    assert (of_other.status, of_other.text.replace(one, str(uuid.UUID(int=1)))) == (404, of_none.text)


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    "action",
    [
        {"migrate": {"host": None}},
        {"os-migrateLive": {"host": None, "block_migration": "auto"}},
        {"evacuate": {}},
        {"resize": {"flavorRef": "small"}},
        {"confirmResize": None},
        {"revertResize": None},
        {"shelve": None},
        {"shelveOffload": None},
        {"unshelve": None},
        {"restore": None},
        {"os-stop": None},
        {"lock": None},
    ],
    ids=lambda action: next(iter(action)),
)
def test_every_action_on_an_instance_of_nova_says_where_to_do_it(nova: Nova, action: dict[str, Any]) -> None:
    one, _ = crowded(nova)
    mirror(nova, a_server(one, "web-1"))
    answer = nova.cloud.admin.post(f"/servers/{one}/action", action)
    assert (answer.status, URL in answer.message) == (409, True), answer.text
    unknown = nova.cloud.admin.post(f"/servers/{uuid.UUID(int=1)}/action", action)
    assert (unknown.status, "Nova" in unknown.message) == (404, False)


@pytest.mark.sqlite_only
def test_one_tag_of_an_instance_of_nova_says_where_to_change_it(nova: Nova) -> None:
    one, _ = crowded(nova)
    mirror(nova, a_server(one, "web-1"))
    for answer in (nova.cloud.alice.put(f"/servers/{one}/tags/a"), nova.cloud.alice.delete(f"/servers/{one}/tags/a")):
        assert (answer.status, "`openstack server` changes it" in answer.message) == (409, True), answer.text


@pytest.mark.sqlite_only
@pytest.mark.parametrize("path", ["", "/metadata", "/tags", "/os-instance-actions", "/migrations"])
def test_instance_of_nova_is_not_found_with_where_it_is(nova: Nova, path: str) -> None:
    one, _ = crowded(nova)
    mirror(nova, a_server(one, "web-1"))
    answer = nova.cloud.admin.get(f"/servers/{one}{path}")
    assert (answer.status, answer.message) == (
        404,
        f"Instance {one} could not be found. The instance web-1 belongs to Nova: `openstack server` shows it at {URL}.",
    )
    assert nova.cloud.bob.get(f"/servers/{one}").message == f"Instance {one} could not be found."


def test_renamed_compute_node_has_its_new_name(nova: Nova) -> None:
    one, _ = crowded(nova)
    key = nova.computes["cn1"]
    assert nova.placement.put(f"/resource_providers/{key}", {"name": "cn1-new"}).status == 200
    seen = nova.cloud.admin.get(f"/os-server-groups/{GROUP}/audit").json["server_group_policy_audit"]["members"]
    assert {each["instance_id"]: each["placements"]["host"] for each in seen}[one] == "cn1-new"


def test_groups_on_the_dashboard_have_instances_with_the_names_of_the_mirror(nova: Nova) -> None:
    one, two = crowded(nova)
    shelved = nova.member(GROUP, "soft-anti-affinity")
    mirror(nova, a_server(one, "web-1"), a_server(shelved, "web-3", "SHELVED_OFFLOADED"))
    (row,) = dashboard(nova.cloud.alice).get("/data/groups").json["groups"]
    assert (row["members"], row["violations"], row["hard_violations"]) == (3, 1, 1)
    seen = dashboard(nova.cloud.admin).get(f"/data/groups/{GROUP}").json
    assert [(each["id"], each["name"], each["status"], each["places"]["host"]) for each in seen["members"]] == [
        (one, "web-1", "ACTIVE", "cn1"),
        (two, two, "UNKNOWN", "cn2"),
        (shelved, "web-3", "SHELVED_OFFLOADED", None),
    ]
    assert seen["domain_names"][seen["members"][0]["places"]["rack"]] == "rack-a"
    assert [set(each["members"]) for each in seen["violations"]] == [{one, two}]


def test_group_of_instances_has_no_violation_after_they_moved(nova: Nova) -> None:
    _, two = crowded(nova)
    assert dashboard(nova.cloud.admin).get("/data/groups").json["groups"][0]["hard_violations"] == 1
    nova.leave(two)
    nova.place(two, "cn3")
    assert dashboard(nova.cloud.admin).get("/data/groups").json["groups"][0]["hard_violations"] == 0


def test_status_counts_violations_and_compute_nodes(nova: Nova) -> None:
    crowded(nova)
    mirror(nova, a_server(str(uuid.uuid4()), "web-1"), cn2={"disabled": True}, cn3={"up": False})
    seen = get_overview(nova.cloud.store, "nova")
    assert (seen.groups, seen.violations) == (1, ((GROUP, "2 members are in one rack; the limit is 1"),))
    assert [(node.name, node.disabled, node.up) for node in seen.nodes] == [
        ("cn1", False, True),
        ("cn2", True, True),
        ("cn3", False, False),
        ("cn4", False, True),
    ]
    assert seen.instances == 1
    assert seen.warnings == ("1 host is in no domain of the scope rack: cn4.",)


def test_status_of_a_healthy_nova_has_no_warnings(nova: Nova) -> None:
    nova.set_aggregates("cn4", *_uuids(nova, "rack-b"))
    mirror(nova)
    assert get_overview(nova.cloud.store, "nova").warnings == ()


def test_compute_node_in_two_racks_is_reported(nova: Nova) -> None:
    nova.set_aggregates("cn4", *_uuids(nova, "rack-a", "rack-b"))
    mirror(nova)
    (warning,) = get_overview(nova.cloud.store, "nova").warnings
    assert warning == (
        "1 host is in more than one domain of the scope rack, so excluded by its policies: cn4 (rack-a, rack-b)."
    )


def test_map_shows_compute_nodes_in_their_racks(nova: Nova) -> None:
    one, _ = crowded(nova)
    lone = str(uuid.uuid4())
    nova.place(lone, "cn3")
    mirror(nova, cn2={"disabled": True}, cn3={"up": False, "disabled": True}, cn4={"zone": None})
    seen = dashboard(nova.cloud.admin).get("/data/fleet", scope="rack").json
    hosts, servers = seen["hosts"], seen["servers"]
    assert hosts["name"] == ["cn1", "cn2", "cn3", "cn4"]
    assert [*hosts["domain"][:2], hosts["domain"][3]] == [0, 0, -1]
    assert [seen["domains"][i] for i in hosts["domain"][:3]] == ["rack-a", "rack-a", "rack-b"]
    assert (hosts["state"], hosts["zone"]) == ([0, 1, 2, 0], ["az-1", "az-1", "az-1", "nova"])
    assert (hosts["vcpus_used"], hosts["vcpus"]) == ([1, 1, 1, 0], [100] * 4)
    placed = dict(zip(servers["id"], zip(servers["host"], servers["group"], strict=True), strict=True))
    assert (placed[one], placed[lone]) == ((0, 0), (2, -1))
    assert seen["groups"] == [{"id": GROUP, "name": "g"}]


def test_moving_instance_is_on_both_its_compute_nodes(nova: Nova) -> None:
    one, _ = crowded(nova)
    migration = nova.leave(one)
    nova.place(one, "cn3")
    seen = dashboard(nova.cloud.admin).get("/data/fleet", scope="rack").json["servers"]
    assert sorted(host for host, key in zip(seen["host"], seen["id"], strict=True) if key == one) == [0, 2]
    assert migration not in seen["id"]


def test_migration_of_an_instance_without_a_group_is_no_instance(nova: Nova) -> None:
    """Nova writes allocations at a version without consumer types."""
    moving, other, unread = (str(uuid.uuid4()) for _ in range(3))
    for instance in (moving, other):
        nova.place(instance, "cn1")
    migration = nova.leave(moving)
    nova.place(moving, "cn2")
    assert shown(nova) == {moving, migration, other}, "before a reading, they can't be told apart"
    mirror(nova, a_server(moving, "a"), a_server(other, "b"))
    nova.cloud.time.advance(1)
    with nova.cloud.store.write() as tx:
        tx.nova_mirror.set_read(URL, nova.cloud.time())
    nova.place(unread, "cn3")
    member = nova.member(GROUP, "soft-anti-affinity")
    nova.place(member, "cn3")
    assert shown(nova) == {moving, other, member, unread}


def shown(nova: Nova) -> set[str]:
    """Return the consumers of compute nodes that the map shows."""
    with nova.cloud.store.read() as tx:
        return {instance for _, instance, _ in tx.compute_nodes.instances(None)}


def test_tenants_map_has_the_instances_of_the_project(nova: Nova) -> None:
    one, two = crowded(nova)
    seen = dashboard(nova.cloud.alice).get("/data/fleet", scope="rack").json
    assert sorted(seen["servers"]["id"]) == sorted([one, two])
    assert (seen["hosts"]["domain"], seen["hosts"]["vcpus"]) == ([0, 0], [])
    assert dashboard(nova.cloud.bob).get("/data/fleet", scope="rack").json["servers"]["id"] == []


def test_page_of_a_compute_node(nova: Nova) -> None:
    one, _ = crowded(nova)
    nova.set_traits("cn1", "HW_CPU_X86_AVX2")
    mirror(nova, a_server(one, "web-1"), cn1={"disabled": True, "disabled_reason": "fan"})
    seen = dashboard(nova.cloud.admin).get("/data/hosts/cn1").json
    assert (seen["uuid"], seen["zone"], seen["disabled"], seen["disabled_reason"], seen["up"]) == (
        nova.computes["cn1"],
        "az-1",
        True,
        "fan",
        True,
    )
    assert (seen["domains"], seen["traits"]) == ({"rack": "rack-a"}, ["HW_CPU_X86_AVX2"])
    assert seen["inventories"]["VCPU"]["used"] == 1
    assert [(held["consumer"], held["name"]) for held in seen["allocations"]] == [(one, "web-1")]
    assert dashboard(nova.cloud.admin).get("/data/hosts/cn1.example.org").json == seen
    hosts = dashboard(nova.cloud.admin).get("/data/fleet").json["hosts"]
    assert hosts["services"] == {f"cn{i}.example.org": i - 1 for i in range(1, 5)}


def test_operator_sees_for_each_compute_node_why_it_takes_no_member(nova: Nova) -> None:
    crowded(nova)
    mirror(nova, cn4={"disabled": True})
    body = {"explain": {"flavorRef": _cpu_flavor(nova), "group": GROUP}}
    seen = nova.cloud.admin.post("/os-placement-explain", body).json["explanation"]
    reasons = {each["host"]: each["reason"] for each in seen["hosts"]}
    here = rack(nova, "rack-a")
    assert reasons == {
        "cn1.example.org": f"the rack {here} holds 2 of the group; the limit is 1",
        "cn2.example.org": f"the rack {here} holds 2 of the group; the limit is 1",
        "cn3.example.org": None,
        "cn4.example.org": reasons["cn4.example.org"],
    }
    assert "disabled" in reasons["cn4.example.org"]
    assert seen["candidates"] == 1


def _cpu_flavor(nova: Nova) -> str:
    """Return a flavor of VCPUs alone, as the computes have no other inventory."""
    specs = {"resources:MEMORY_MB": "0", "resources:DISK_GB": "0"}
    body = {"flavor": {"id": "cpu", "name": "cpu", "vcpus": 1, "ram": 512, "disk": 1}}
    assert nova.cloud.admin.post("/flavors", body).status == 200
    assert nova.cloud.admin.post("/flavors/cpu/os-extra_specs", {"extra_specs": specs}).status == 200
    return "cpu"


def test_health_reports_compute_nodes_and_the_mirror(nova: Nova) -> None:
    mirror(nova, cn2={"disabled": True, "disabled_reason": "fan"}, cn3={"up": False})
    with nova.cloud.store.write() as tx:
        tx.nova_mirror.set_read(URL, NOW, ["The flavor small of Nova (1) is not mirrored."])
        tx.nova_mirror.set_error(URL, "Compute cannot be reached.")
    seen = dashboard(nova.cloud.admin).get("/data/health").json
    assert (seen["hosts"], seen["disabled"]) == (4, [{"name": "cn2", "reason": "fan"}])
    assert seen["nova"] == {
        "url": URL,
        "read_at": f"{NOW:%Y-%m-%dT%H:%M:%SZ}",
        "error": "Compute cannot be reached.",
        "warnings": ["The flavor small of Nova (1) is not mirrored."],
        "down": ["cn3"],
    }
    assert seen["misplaced_hosts"] == [{"scope": "rack", "no_domain": ["cn4"], "ambiguous": []}]


def _uuids(nova: Nova, *racks: str) -> list[str]:
    with nova.cloud.store.read() as tx:
        return [each.uuid for each in tx.aggregates.in_scope(scope(nova.cloud, "rack").id) if each.name in racks]
