"""The engine: the effects of actions on clusters, nodes and their servers."""

from typing import Any

import pytest

from covey.drivers.simulated import Simulated
from covey.model.ids import ServerId
from covey.model.work import JobKind
from covey.services.clustering.engine import node_removal
from covey.services.overview import get_overview
from covey.storage import tables
from covey.storage.rows import load
from tests.build import a_host
from tests.functional.cluster_tenants import Tenant, a_tenant
from tests.functional.clusters import policy
from tests.functional.fleets import BuildCloud, Cloud, FailingDriver

SPREAD = policy("affinity", servergroup={"policies": "anti-affinity"})


@pytest.fixture
def driver() -> FailingDriver:
    return FailingDriver()


@pytest.fixture
def cloud(build_cloud: BuildCloud, driver: FailingDriver) -> Cloud:
    return build_cloud(driver=driver)


@pytest.fixture
def alice(cloud: Cloud) -> Tenant:
    return a_tenant(cloud, cloud.alice)


def test_scale_out_respects_affinity_and_is_all_or_nothing(alice: Tenant) -> None:
    assert alice.create()["status"] == "SUCCEEDED"
    alice.attach(SPREAD)
    grown = alice.do("scale_out", count=3)
    assert (grown["status"], alice.sizes, sorted(map(str, alice.hosts))) == (
        "SUCCEEDED",
        (3, 3),
        ["node-1", "node-2", "node-3"],
    )
    assert sorted(grown["outputs"]["nodes_added"]) == sorted(alice.cluster["nodes"])
    assert alice.cloud.members(alice.group()) == {node["physical_id"] for node in alice.nodes}
    before = alice.nodes
    refused = alice.do("scale_out")
    assert refused["status"] == "FAILED"
    assert refused["status_reason"].startswith("No valid host was found. Of 3 hosts: 3 ")
    assert (alice.sizes, alice.nodes, alice.cluster["status"]) == ((3, 3), before, "ACTIVE")
    alice.check()


@pytest.mark.sqlite_only
def test_scaling_beyond_bounds_or_with_bad_count_fails_with_a_reason(alice: Tenant) -> None:
    assert alice.create(1, min_size=1, max_size=2)["status"] == "SUCCEEDED"
    too_many = alice.do("scale_out", count=2)["status_reason"]
    assert too_many == "The target capacity (3) is greater than the cluster's max_size (2)."
    too_few = alice.do("scale_in")["status_reason"]
    assert too_few == "The target capacity (0) is less than the cluster's min_size (1)."
    assert alice.sizes == (1, 1)
    made = {
        "name": "r",
        "type": "webhook",
        "cluster_id": "web",
        "action": "CLUSTER_SCALE_OUT",
        "params": {"count": "x"},
    }
    receiver = alice.api.post("/receivers", {"receiver": made}).json["receiver"]["id"]
    hook = alice.done(alice.api.ask("POST", f"/webhooks/{receiver}/trigger", params={"V": "2"}))
    assert (hook["status"], hook["status_reason"]) == ("FAILED", "The value for count must be an integer: 'x'.")


def test_resize_adds_and_removes_nodes_and_sets_bounds(alice: Tenant) -> None:
    alice.create(1)
    alice.do("resize", adjustment_type="EXACT_CAPACITY", number=4, max_size=5)
    assert (alice.sizes, alice.cluster["max_size"]) == ((4, 4), 5)
    first = [node["id"] for node in alice.nodes[:2]]
    alice.do("resize", adjustment_type="CHANGE_IN_PERCENTAGE", number=-50, min_size=1)
    assert (alice.sizes, alice.cluster["min_size"]) == ((2, 2), 1)
    assert [node["id"] for node in alice.nodes] == first  # the newest nodes are removed first
    alice.do("resize", min_size=2, max_size=9)
    assert (alice.cluster["min_size"], alice.cluster["max_size"], alice.sizes) == (2, 9, (2, 2))
    alice.check()


def test_deleted_cluster_leaves_nothing_behind(alice: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_removal, "_MAX_CONCURRENT_DELETIONS", 2)  # several executions are needed
    alice.create()
    alice.attach(SPREAD)
    alice.do("scale_out", count=3)
    answer = alice.api.delete("/clusters/web")
    seen = set()
    while alice.action(answer)["status"] not in {"SUCCEEDED", "FAILED"}:
        seen.add(alice.action(answer)["status_reason"])
        alice.cloud.time.advance(0.5)
        alice.cloud.step()
    assert alice.action(answer)["status"] == "SUCCEEDED"
    assert {"Deleted 0 of 3 nodes.", "Deleted 2 of 3 nodes."} <= seen
    assert alice.api.get("/clusters/web").status == 404
    left = (tables.nodes, tables.clusters, tables.cluster_policies, tables.cluster_locks, tables.instance_groups)
    assert not any(map(alice.cloud.rows, left))
    assert alice.cloud.is_empty()
    (last, *_) = alice.api.get("/events", sort="timestamp:desc").json["events"]
    assert (last["oname"], last["action"], last["status"]) == ("web", "CLUSTER_DELETE", "end")


def test_failed_build_leaves_a_node_in_error(alice: Tenant, driver: FailingDriver) -> None:
    driver.verbs.add("spawn")
    made = alice.create(2)
    assert made["status"] == "FAILED"
    assert made["status_reason"].startswith("Failed in creating nodes. Failed in creating server: No valid host")
    assert [(node["status"], node["physical_id"]) for node in alice.nodes] == [("ERROR", None)] * 2
    assert (alice.sizes, alice.cluster["status"]) == ((2, 2), "WARNING")
    assert alice.cloud.is_empty()
    driver.verbs.clear()
    assert alice.do("recover")["status"] == "SUCCEEDED"
    assert alice.cluster["status"] == "ACTIVE"
    alice.check()


def test_recover_recreates_lost_servers_within_the_policy(alice: Tenant) -> None:
    alice.create()
    alice.attach(SPREAD)
    alice.do("scale_out", count=3)
    lost, _, stopped = (node["physical_id"] for node in alice.nodes)
    alice.cloud.delete(lost)
    alice.cloud.run_action(alice.cloud.alice, stopped, "os-stop")
    assert alice.do("check")["status"] == "SUCCEEDED"
    assert [node["status"] for node in alice.nodes] == ["ERROR", "ACTIVE", "WARNING"]
    assert alice.cluster["status"] == "WARNING"
    assert alice.do("recover", operation="REBUILD")["status"] == "SUCCEEDED"
    assert [node["status"] for node in alice.nodes] == ["ACTIVE"] * 3
    assert sorted(map(str, alice.hosts)) == ["node-1", "node-2", "node-3"]
    assert alice.cloud.members(alice.group()) == {node["physical_id"] for node in alice.nodes}
    assert {lost, stopped}.isdisjoint(node["physical_id"] for node in alice.nodes)
    alice.check()


def test_recover_reboots_stopped_servers_and_restores_capacity(alice: Tenant) -> None:
    alice.create()
    alice.attach(SPREAD)
    alice.do("scale_out", count=2)
    stopped, spare = alice.nodes
    alice.cloud.run_action(alice.cloud.alice, stopped["physical_id"], "os-stop")
    alice.attach(policy("deletion", "1.1", reduce_desired_capacity=False), "keep")
    alice.do("del_nodes", nodes=[spare["id"]], destroy_after_deletion=True)
    assert alice.sizes == (1, 2)
    assert alice.do("recover", operation="REBOOT", check=True, check_capacity=True)["status"] == "SUCCEEDED"
    assert (alice.sizes, alice.nodes[0]["physical_id"]) == ((2, 2), stopped["physical_id"])
    assert len(set(alice.hosts)) == 2
    assert alice.cluster["status"] == "ACTIVE"
    alice.check()


def test_requested_member_is_placed_by_policy_or_becomes_an_orphan(alice: Tenant) -> None:
    alice.create(max_size=3)
    alice.attach(SPREAD)
    wanted = {"node": {"name": "n", "profile_id": "p", "cluster_id": "web"}}
    answers = [alice.api.post("/nodes", wanted) for _ in range(3)]
    assert [alice.done(answer)["status"] for answer in answers] == ["SUCCEEDED"] * 3
    assert (alice.sizes, len(set(alice.hosts))) == ((3, 3), 3)
    assert alice.cloud.members(alice.group()) == {node["physical_id"] for node in alice.nodes}
    over = alice.done(alice.api.post("/nodes", wanted))
    assert over["status_reason"] == "The target capacity (4) is greater than the cluster's max_size (3)."
    alice.do("resize", max_size=9)
    crowded = alice.done(alice.api.post("/nodes", wanted))
    assert crowded["status_reason"].startswith("No valid host was found. Of 3 hosts: 3 ")
    outside = [node for node in alice.nodes if node["cluster_id"] == ""]
    assert {(node["status"], node["status_reason"]) for node in outside} == {
        ("ERROR", over["status_reason"]),
        ("ERROR", crowded["status_reason"]),
    }
    assert (alice.sizes, alice.cluster["status"]) == ((3, 3), "ACTIVE")
    gone = alice.nodes[-1]["id"]
    assert alice.done(alice.api.delete(f"/nodes/{gone}"))["status"] == "SUCCEEDED"
    assert alice.sizes == (2, 2)


def test_removed_nodes_keep_their_servers_and_can_be_added_again(alice: Tenant) -> None:
    alice.create(2)
    one, two = alice.nodes
    alice.do("del_nodes", nodes=[one["id"]])
    shown = alice.cloud.show(one["physical_id"])["metadata"]
    assert (shown, alice.sizes) == ({"cluster_node_id": one["id"]}, (1, 1))
    alice.do("replace_nodes", nodes={two["id"]: one["id"]})
    assert (alice.cluster["nodes"], alice.sizes) == ([one["id"]], (1, 1))
    assert alice.cloud.show(one["physical_id"])["metadata"]["cluster_node_index"] == "3"
    alice.do("add_nodes", nodes=[two["id"]])
    assert (alice.cluster["nodes"], alice.sizes) == ([one["id"], two["id"]], (2, 2))
    assert alice.cloud.show(two["physical_id"])["metadata"]["cluster_id"] == alice.cluster["id"]
    alice.check()


def test_deletion_policy_keeps_servers_and_has_a_grace_period(alice: Tenant) -> None:
    alice.create(2)
    terms = {"destroy_after_deletion": False, "grace_period": 40, "criteria": "OLDEST_FIRST"}
    alice.attach(policy("deletion", "1.1", **terms), "kind")
    answer = alice.ask("scale_in")
    alice.cloud.settle()
    assert (alice.action(answer)["status"], len(alice.cluster["nodes"])) == ("WAITING", 2)
    alice.cloud.time.advance(41)
    assert alice.done(answer)["status"] == "SUCCEEDED"
    assert (alice.sizes, len(alice.cloud.servers()), len(alice.nodes)) == ((1, 1), 2, 2)


def test_nodes_follow_the_cluster_to_another_profile(alice: Tenant) -> None:
    alice.create(2)
    before = [node["physical_id"] for node in alice.nodes]
    alice.profile("larger", flavor="big", name="big-one", metadata={"tier": "gold"})
    updated = alice.done(alice.api.patch("/clusters/web", {"cluster": {"profile_id": "larger", "name": "web"}}))
    assert updated["status"] == "SUCCEEDED"
    assert [node["physical_id"] for node in alice.nodes] == before
    assert {node["profile_name"] for node in alice.nodes} == {"larger"}
    for server in map(alice.cloud.show, before):
        shown = server["flavor"]["original_name"], server["name"], server["metadata"]["tier"], server["status"]
        assert shown == ("big", "big-one", "gold", "ACTIVE")
    alice.profile("huge", flavor="giant")
    refused = alice.done(alice.api.patch("/clusters/web", {"cluster": {"profile_id": "huge"}}))
    assert refused["status_reason"].startswith("Failed in updating nodes. Failed in resizing server: No valid host")
    assert {node["profile_name"] for node in alice.nodes} == {"larger"}
    assert (alice.cluster["profile_name"], alice.cluster["status"]) == ("huge", "ACTIVE")
    alice.check()


@pytest.mark.sqlite_only
def test_node_update_renames_its_server(alice: Tenant) -> None:
    alice.create(1)
    (node,) = alice.nodes
    change = {"name": "fresh", "role": "boss", "metadata": {"a": "b"}, "tainted": True}
    assert alice.done(alice.api.patch(f"/nodes/{node['id']}", {"node": change}))["status"] == "SUCCEEDED"
    (after,) = alice.nodes
    assert {key: after[key] for key in change} == change
    assert (after["status"], alice.cloud.show(node["physical_id"])["name"]) == ("ACTIVE", "fresh")


def test_cancelled_scale_out_finishes_its_started_children(alice: Tenant) -> None:
    alice.create()
    answer = alice.ask("scale_out", count=2)
    alice.cloud.assembled.executor.execute(
        next(job for job in alice.cloud.jobs() if job.kind is JobKind.CLUSTER_ACTION)
    )
    action = alice.action(answer)
    assert (action["status"], len(action["depends_on"])) == ("WAITING", 2)
    assert alice.api.patch(f"/actions/{action['id']}", {"action": {"status": "CANCELLED"}}).status == 202
    alice.cloud.settle()
    assert alice.action(answer)["status"] == "CANCELLED"
    assert ([node["status"] for node in alice.nodes], alice.sizes) == (["ACTIVE"] * 2, (2, 2))
    alice.check()
    assert alice.do("scale_in")["status"] == "SUCCEEDED"  # the lock is released


def test_deletion_cancels_the_action_in_progress(alice: Tenant) -> None:
    alice.create(2)
    growing = alice.ask("scale_out", count=2)
    alice.cloud.assembled.executor.execute(
        next(job for job in alice.cloud.jobs() if job.kind is JobKind.CLUSTER_ACTION)
    )
    assert alice.delete()["status"] == "SUCCEEDED"
    assert alice.action(growing)["status"] == "CANCELLED"
    assert (alice.nodes, alice.cloud.is_empty()) == ([], True)


def test_locked_server_fails_a_deletion_unless_it_is_forced(alice: Tenant) -> None:
    alice.create(2)
    alice.cloud.run_action(alice.cloud.admin, alice.nodes[0]["physical_id"], "lock")
    refused = alice.delete()
    assert refused["status"] == "FAILED"
    assert refused["status_reason"].endswith("is locked")
    assert ([node["status"] for node in alice.nodes], alice.cluster["status"]) == (["ACTIVE"], "WARNING")
    forced = alice.done(alice.api.ask("DELETE", "/clusters/web", params={"force": "true"}))
    assert (forced["status"], alice.nodes, len(alice.cloud.servers())) == ("SUCCEEDED", [], 1)


def test_timed_out_action_fails_and_a_check_updates_the_nodes(alice: Tenant, driver: FailingDriver) -> None:
    alice.create(timeout=100)
    answer = alice.ask("scale_out")
    alice.cloud.assembled.executor.execute(
        next(job for job in alice.cloud.jobs() if job.kind is JobKind.CLUSTER_ACTION)
    )
    alice.cloud.time.advance(101)
    alice.cloud.assembled.executor.execute(
        next(job for job in alice.cloud.jobs() if job.kind is JobKind.CLUSTER_ACTION)
    )
    assert alice.action(answer)["status_reason"] == "The action timed out after 100 seconds."
    assert [node["status"] for node in alice.nodes] == ["WARNING"]
    alice.cloud.settle()
    assert alice.do("check")["status"] == "SUCCEEDED"
    assert ([node["status"] for node in alice.nodes], alice.cluster["status"]) == (["ACTIVE"], "ACTIVE")
    assert driver.done[0][0] == "spawn"


@pytest.mark.sqlite_only
def test_zone_placement_policy_spreads_nodes_by_weight(alice: Tenant) -> None:
    for number, zone in ((1, "east"), (2, "west")):
        body = {"name": zone, "availability_zone": zone}
        made = alice.cloud.admin.post("/os-aggregates", {"aggregate": body}).json["aggregate"]["id"]
        alice.cloud.admin.post(f"/os-aggregates/{made}/action", {"add_host": {"host": f"node-{number}"}})
    alice.create()
    alice.attach(policy("zone_placement", zones=[{"name": "east", "weight": 100}, {"name": "west", "weight": 50}]), "z")
    assert alice.do("scale_out", count=3)["status"] == "SUCCEEDED"
    assert sorted(map(str, alice.hosts)) == ["node-1", "node-1", "node-2"]
    assert sorted(node["data"]["placement"]["zone"] for node in alice.nodes) == ["east", "east", "west"]


def attach_affinity(tenant: Tenant) -> dict[str, Any]:
    """Attach an affinity policy, and return the action."""
    assert tenant.api.post("/policies", {"policy": {"name": "spread", "spec": policy("affinity")}}).status == 201
    return tenant.do("policy_attach", policy_id="spread")


def test_attached_affinity_takes_in_existing_servers_and_reports_violations(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(1)
    alice = a_tenant(cloud, cloud.alice)
    alice.create(3)
    attached = attach_affinity(alice)
    servers = sorted(str(node["physical_id"]) for node in alice.nodes)
    assert attached["status"] == "SUCCEEDED"
    assert sorted(attached["outputs"]["servers_joined"]) == servers
    assert attached["outputs"]["violations"] == ["3 members are on one host; the limit is 1"]
    assert sorted(cloud.members(alice.group())) == servers
    assert {node["data"]["placement"]["servergroup"] for node in alice.nodes} == {alice.group()}
    assert alice.do("scale_out")["status"] == "FAILED", "the host holds members now"
    detached = alice.do("policy_detach", policy_id="spread")
    assert detached["status"] == "SUCCEEDED"
    assert cloud.alice.get("/os-server-groups").json["server_groups"] == []


def test_attached_affinity_leaves_servers_in_their_groups(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(3)
    alice = a_tenant(cloud, cloud.alice)
    alice.create(2)
    other, server = cloud.group("affinity"), str(alice.nodes[0]["physical_id"])
    joined = cloud.alice.post(f"/os-server-groups/{other}/action", {"add_instance": {"instance_id": server}})
    assert joined.status == 200
    attached = attach_affinity(alice)
    assert attached["outputs"]["servers_joined"] == [alice.nodes[1]["physical_id"]]
    assert attached["outputs"]["servers_left_out"] == [server]
    reasons = [event["status_reason"] for event in alice.api.get("/events").json["events"]]
    assert (
        "Policy attached. 1 existing server joined the server group. 1 server stays in another server group."
    ) in reasons
    assert cloud.members(other) == {server}


def test_attached_affinity_takes_in_shelved_servers_and_reports_deleted_ones(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(2)
    alice = a_tenant(cloud, cloud.alice)
    alice.create(3)
    shelved, deleted, running = (str(node["physical_id"]) for node in alice.nodes)
    cloud.run_action(cloud.alice, shelved, "shelve")
    assert cloud.status(shelved) == "SHELVED_OFFLOADED"
    assert cloud.admin.delete(f"/servers/{deleted}").status == 204  # a worker destroys it after the attachment
    with cloud.store.write() as tx:
        tx.work.drop_waiting(ServerId(deleted))
    attached = attach_affinity(alice)
    assert set(attached["outputs"]["servers_joined"]) == {shelved, running}
    assert attached["outputs"]["servers_left_out"] == [deleted]
    reasons = [event["status_reason"] for event in alice.api.get("/events").json["events"]]
    assert (
        "Policy attached. 2 existing servers joined the server group. "
        "1 server can't join: being deleted, or without a host."
    ) in reasons
    assert cloud.members(alice.group()) == {shelved, running}


def test_attached_affinity_emits_one_notification_for_each_server(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(3, ("notifications", "driver", "log"))
    alice = a_tenant(cloud, cloud.alice)
    alice.create(3)
    attach_affinity(alice)
    emitted = [row for row in cloud.rows(tables.outbox) if row.event == "server_group.add_member"]
    members = [load(row.payload, dict[str, Any])["nova_object.data"]["members"] for row in emitted]
    assert [len(each) for each in members] == [1, 2, 3]


def test_attached_affinity_respects_the_quota_of_members(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(3)
    cloud.set_quota(server_group_members=1)
    alice = a_tenant(cloud, cloud.alice)
    alice.create(2)
    attached = attach_affinity(alice)
    assert attached["status"] == "FAILED"
    assert "too many servers in group" in attached["status_reason"]


@pytest.mark.sqlite_only
def test_drs_is_for_operators_and_needs_a_vsphere_host(build_cloud: BuildCloud) -> None:
    cloud = build_cloud([a_host("node-1"), a_host("vsphere_drs_1")])
    drs = policy("affinity", enable_drs_extension=True)
    for caller, ends in ((cloud.admin, "SUCCEEDED"), (cloud.alice, "FAILED")):
        tenant = a_tenant(cloud, caller)
        tenant.create()
        tenant.attach(drs)
        grown = tenant.do("scale_out", count=2)
        assert grown["status"] == ends, grown["status_reason"]
        assert "vsphere" not in grown["status_reason"]
        if ends == "SUCCEEDED":
            place = {"zone": "nova:vsphere_drs_1", "servergroup": tenant.group()}
            assert grown["data"]["placement"] == {"count": 2, "placements": [place, place]}
            assert set(tenant.hosts) == {"vsphere_drs_1"}
            query = {"violations": "true"}
            audit = cloud.admin.get(f"/os-server-groups/{tenant.group()}/audit", **query).json
            assert audit["server_group_policy_audit"]["violations"] == [], "a vSphere cluster is many machines"
            assert_nothing_to_repair(cloud, tenant.group())
            cloud.set_host("vsphere_drs_1", status="disabled")
            lost = tenant.do("scale_out")
            assert lost["data"] == {"status": "ERROR", "status_reason": "No suitable vSphere host is available."}
            reason = "Policy check failure: Failed policy 'spread': No suitable vSphere host is available."
            assert lost["status_reason"] == reason
            assert tenant.sizes == (2, 2)


@pytest.mark.sqlite_only
@pytest.mark.parametrize("policies", ["affinity", "anti-affinity", "soft-anti-affinity"])
def test_drs_host_hides_no_violation_of_other_hosts(build_cloud: BuildCloud, policies: str) -> None:
    cloud = build_cloud([a_host("node-1"), a_host("node-2"), a_host("vsphere_drs_1")])
    tenant = a_tenant(cloud, cloud.admin)
    tenant.create()
    tenant.attach(policy("affinity", enable_drs_extension=True, servergroup={"policies": policies}))
    assert tenant.do("scale_out", count=3)["status"] == "SUCCEEDED"
    group = tenant.group()
    operator = cloud.service.as_("admin:operators", "2.1000")
    for _ in range(2):
        cloud.boot(operator, group=group, availability_zone="nova:node-1")
    violations = cloud.admin.get(f"/os-server-groups/{group}/audit", violations="true").json
    (violation,) = violations["server_group_policy_audit"]["violations"]
    assert violation["domain"] == ("vsphere_drs_1" if policies == "affinity" else "node-1")
    assert len(violation["members"]) == 2
    plan = cloud.admin.post(f"/os-server-groups/{group}/action", {"rebalance": {"dry_run": True}}).json["rebalance"]
    ends = ["vsphere_drs_1"] * 2 if policies == "affinity" else ["node-2"]
    assert ([move["to"] for move in plan["moves"]], plan["left"]) == (ends, [])
    known = get_overview(cloud.store, "nova").violations
    assert len(known) == (policies != "soft-anti-affinity")


def test_recovered_node_joins_the_group_of_a_policy_that_was_attached_since(build_cloud: BuildCloud) -> None:
    driver = FailingDriver()
    cloud = build_cloud(4, driver=driver)
    tenant = a_tenant(cloud, cloud.alice)
    assert tenant.create(1, max_size=2)["status"] == "SUCCEEDED"
    driver.verbs, driver.hosts = {"spawn"}, {f"node-{n}" for n in range(1, 5)}
    assert tenant.do("scale_out", count=1)["status"] == "FAILED"
    driver.verbs, driver.hosts = set(), set()
    tenant.attach(policy("affinity", servergroup={"policies": "anti-affinity"}))
    assert len(cloud.members(tenant.group())) == 1
    assert tenant.do("recover", operation="RECREATE")["status"] == "SUCCEEDED"
    assert {node["status"] for node in tenant.nodes} == {"ACTIVE"}
    assert sorted(cloud.members(tenant.group())) == sorted(node["physical_id"] for node in tenant.nodes)
    assert len(set(tenant.hosts)) == 2


@pytest.mark.sqlite_only
def test_recovery_replaces_a_vsphere_host_that_is_down(build_cloud: BuildCloud) -> None:
    cloud = build_cloud([a_host("node-1"), a_host("vsphere_drs_1"), a_host("vsphere_drs_2")])
    tenant = a_tenant(cloud, cloud.admin)
    tenant.create()
    tenant.attach(policy("affinity", enable_drs_extension=True))
    tenant.do("scale_out", count=2)
    assert set(tenant.hosts) == {"vsphere_drs_1"}
    cloud.set_down("vsphere_drs_1")
    for node in tenant.nodes:
        cloud.act(cloud.admin, node["physical_id"], "os-resetState", {"state": "error"})
    recovered = tenant.do("recover", operation="RECREATE", check=True)
    assert recovered["status"] == "SUCCEEDED", recovered["status_reason"]
    assert tenant.hosts == ["vsphere_drs_2"] * 2
    place = {"zone": "nova:vsphere_drs_2", "servergroup": tenant.group()}
    assert [node["data"]["placement"] for node in tenant.nodes] == [place] * 2


@pytest.mark.sqlite_only
def test_recovery_without_a_host_for_a_policy_leaves_nodes_in_error(build_cloud: BuildCloud) -> None:
    cloud = build_cloud([a_host("node-1"), a_host("vsphere_drs_1")])
    tenant = a_tenant(cloud, cloud.admin)
    tenant.create()
    tenant.attach(policy("affinity", enable_drs_extension=True))
    tenant.do("scale_out", count=1)
    cloud.set_down("vsphere_drs_1")
    cloud.act(cloud.admin, tenant.nodes[0]["physical_id"], "os-resetState", {"state": "error"})
    recovered = tenant.do("recover", operation="RECREATE", check=True)
    assert recovered["status"] == "FAILED"
    assert "No suitable vSphere host is available." in recovered["status_reason"]
    assert [node["status"] for node in tenant.nodes] == ["ERROR"]


def assert_nothing_to_repair(cloud: Cloud, group: str) -> None:
    """Assert that neither a rebalance nor the dashboard finds a violation in a group."""
    path = f"/os-server-groups/{group}"
    plan = cloud.admin.post(f"{path}/action", {"rebalance": {"dry_run": True}}).json["rebalance"]
    assert (plan["moves"], plan["violations_before"], plan["left"]) == ([], [], [])
    begun = cloud.admin.post(f"{path}/action", {"rebalance": {}}).json["rebalance"]
    assert (begun["status"], begun["moves"]) == ("done", [])
    proposed = {"policies": ["anti-affinity"], "rules": {}}
    shown = cloud.admin.below("/dashboard").post(f"/data/groups/{group}/preview-policies", proposed)
    assert shown.json["violations"] == []


def test_slow_build_does_not_delay_other_servers(build_cloud: BuildCloud) -> None:
    driver = Simulated()
    cloud = build_cloud(driver=driver)
    driver.clock = cloud.time
    alice = a_tenant(cloud, cloud.alice, metadata={"simulated_wait_time": 10})
    answer = alice.api.post("/clusters", {"cluster": {"name": "web", "profile_id": "p", "desired_capacity": 1}})
    cloud.step()
    other = cloud.request_server(cloud.alice).json["server"]["id"]
    cloud.step()
    assert (cloud.status(other), alice.nodes[0]["status"]) == ("ACTIVE", "CREATING")
    began = cloud.time()
    assert alice.done(answer)["status"] == "SUCCEEDED"
    assert (cloud.time() - began).total_seconds() > 9
