"""The scenarios of the affinity policy's specification, by `openstack cluster ...` and by openstacksdk."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import sqlalchemy as sa

from covey.storage import tables
from tests.acceptance.cluster_users import USERS, CliUser, Deployment, running_deployment
from tests.acceptance.invariants import violations
from tests.acceptance.processes import Session
from tests.acceptance.storm import wait_until
from tests.acceptance.test_sdk import connect

RACKS = 4
ROOM: dict[str, Any] = {"vcpus": 16, "memory_mb": 65536, "disk_gb": 1000}
# Four racks of two hosts, two racks in each zone, and a host that is a vSphere cluster, without rack and zone.
FLEET = {
    "hosts": [
        ROOM | {"name": f"{zone[-1]}{rack}{host}", "zone": zone, "domains": {"rack": f"rack-{rack}"}}
        for rack, zone in enumerate(("nova_1", "nova_1", "nova_2", "nova_2"))
        for host in "ab"
    ]
    + [ROOM | {"name": "vsphere_drs_1"}],
    "scopes": [{"name": "rack"}],
    "flavors": [{"name": "tiny", "vcpus": 1, "memory_mb": 512, "disk_gb": 1}],
    "images": [{"name": "linux"}],
}
CLUSTER_TABLES = (  # a deleted cluster leaves no row in them
    tables.clusters,
    tables.nodes,
    tables.cluster_policies,
    tables.cluster_locks,
    tables.servers,
    tables.instance_groups,
    tables.instance_group_members,
    tables.allocations,
    tables.consumers,
    tables.work,
)
APART = {"servergroup": {"policies": "anti-affinity"}}
TOGETHER = {"servergroup": {"policies": "affinity"}}

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Run a service for these tests."""
    directory = tmp_path_factory.mktemp("clusters")
    with running_deployment(directory, f"sqlite:///{directory}/covey.sqlite", FLEET) as running:
        yield running


@pytest.fixture(scope="module")
def users(deployment: Deployment) -> Iterator[dict[str, CliUser]]:
    with ExitStack() as stack:
        yield {n: CliUser(deployment, n, stack.enter_context(Session(deployment.cloud(n)))) for n in USERS}


@pytest.fixture(scope="module")
def admin(users: dict[str, CliUser]) -> CliUser:
    """Return the operator."""
    return users["admin"]


@pytest.fixture(scope="module")
def acme(users: dict[str, CliUser]) -> CliUser:
    """Return a tenant with profiles and policies."""
    tenant = users["acme"]
    tenant.profile("plain")
    tenant.policy("apart", APART)
    tenant.policy("together", TOGETHER)
    return tenant


@pytest.fixture(autouse=True)
def _assert_no_rows_left(deployment: Deployment) -> Iterator[None]:
    before = row_counts(deployment)
    yield
    assert row_counts(deployment) == before
    assert violations(deployment.rows, idle=True) == []


def row_counts(deployment: Deployment) -> dict[str, int]:
    """Return the number of rows in each table."""
    with deployment.rows.connect() as connection:
        return {t.name: connection.scalar(sa.select(sa.func.count()).select_from(t)) or 0 for t in CLUSTER_TABLES}


def hosts(admin: CliUser, servers: list[str]) -> list[str]:
    """Return the hosts of servers, which only the operator sees."""
    return [admin.cli.json(f"server show {server}")["OS-EXT-SRV-ATTR:host"] for server in servers]


def same(actual: object, documented: object) -> bool:
    """Return whether data are exactly as the specification prints them."""
    return repr(actual) == repr(documented)


def test_s1_cluster_inherits_the_group_of_its_profile(admin: CliUser, acme: CliUser) -> None:
    group = acme.cli.json("server group create --policy anti-affinity shop")["id"]
    for cluster, hint in (("by-name", "shop"), ("by-id", group)):
        acme.profile(f"hint-{cluster}", scheduler_hints={"group": hint})
        acme.cluster(cluster, f"hint-{cluster}")
        acme.succeeds(f"policy attach --policy apart {cluster}")
        assert same(
            acme.binding(cluster, "apart"),
            {"AffinityPolicy": {"version": 1.0, "data": {"servergroup_id": group, "inherited_group": True}}},
        )
    grown = acme.succeeds("expand --count 2 by-name")
    assert same(
        grown["data"]["placement"], {"count": 2, "placements": [{"servergroup": group}, {"servergroup": group}]}
    )
    acme.succeeds("resize --capacity 1 by-id")
    both = acme.servers("by-name") + acme.servers("by-id")
    assert len(set(hosts(admin, both))) == 3
    assert sorted(acme.cli.json(f"server group show {group}")["members"]) == sorted(both)
    mismatch = "Policies specified (affinity) doesn't match that of the existing servergroup (anti-affinity)."
    acme.succeeds("policy detach --policy apart by-id")
    assert acme.fails("policy attach --policy together by-id") == mismatch
    acme.profile("hint-nowhere", scheduler_hints={"group": "nowhere"})
    acme.cluster("lost", "hint-nowhere")
    assert acme.fails("policy attach --policy apart lost") == "The specified servergroup 'nowhere' could not be found."
    assert acme.cli.json("cluster policy binding list lost") == []
    acme.succeeds("policy detach --policy apart by-name")
    assert group in acme.groups()  # an inherited group outlives the binding
    for cluster in ("by-name", "by-id", "lost"):
        acme.delete(cluster)
    acme.cli.run("server group delete shop")


def test_s2_policy_creates_a_group_and_deletes_it(acme: CliUser) -> None:
    before = acme.groups()
    acme.cluster("web", "plain")
    acme.succeeds("policy attach --policy apart web")
    (group,) = acme.groups() - before
    assert same(
        acme.binding("web", "apart"),
        {"AffinityPolicy": {"version": 1.0, "data": {"servergroup_id": group, "inherited_group": False}}},
    )
    grown = acme.succeeds("expand --count 2 web")
    assert same(
        grown["data"]["placement"], {"count": 2, "placements": [{"servergroup": group}, {"servergroup": group}]}
    )
    assert sorted(acme.cli.json(f"server group show {group}")["members"]) == sorted(acme.servers("web"))
    acme.succeeds("policy detach --policy apart web")
    assert acme.groups() == before
    assert len(acme.servers("web")) == 2
    acme.succeeds("policy attach --policy together web")
    acme.delete("web")
    assert acme.groups() == before


def test_s3_drs_places_an_operators_nodes_on_a_vsphere_host(admin: CliUser, acme: CliUser) -> None:
    admin.profile("ops")
    admin.policy("drs", TOGETHER | {"enable_drs_extension": True})
    admin.cluster("vms", "ops")
    admin.succeeds("policy attach --policy drs vms")
    group = admin.group_of("vms", "drs")
    placed = {"zone": "nova:vsphere_drs_1", "servergroup": group}
    grown = admin.succeeds("expand --count 2 vms")
    assert same(grown["data"]["placement"], {"count": 2, "placements": [placed, placed]})
    assert hosts(admin, admin.servers("vms")) == ["vsphere_drs_1"] * 2
    admin.cli.run("compute service set --disable vsphere_drs_1 nova-compute")
    rejected = admin.do("expand vms")
    admin.cli.run("compute service set --enable vsphere_drs_1 nova-compute")
    assert same(rejected["data"], {"status": "ERROR", "status_reason": "No suitable vSphere host is available."})
    reason = "Policy check failure: Failed policy 'drs': No suitable vSphere host is available."
    assert (rejected["status"], rejected["status_reason"]) == ("FAILED", reason)
    admin.delete("vms")

    acme.policy("drs", TOGETHER | {"enable_drs_extension": True})
    acme.cluster("vms", "plain")
    acme.succeeds("policy attach --policy drs vms")
    by_tenant = acme.do("expand vms")
    by_operator = admin.do("expand vms")  # the tenant would see the host of its nodes
    assert (by_tenant["status"], by_operator["status"]) == ("FAILED", "FAILED")
    assert by_operator["status_reason"].endswith("only for the administrator who owns the cluster.")
    visible = [acme.get("/actions"), acme.get("/nodes"), acme.get("/events"), acme.get("/clusters/vms")]
    assert "vsphere_drs_1" not in repr(visible)
    acme.delete("vms")


def test_note_zone_applies_without_the_extension(admin: CliUser, acme: CliUser) -> None:
    acme.policy("zoned", APART | {"availability_zone": "nova_1"})
    acme.cluster("zonal", "plain")
    acme.succeeds("policy attach --policy zoned zonal")
    placed = {"zone": "nova_1", "servergroup": acme.group_of("zonal", "zoned")}
    grown = acme.succeeds("expand --count 2 zonal")
    assert same(grown["data"]["placement"], {"count": 2, "placements": [placed, placed]})
    assert {host[0] for host in hosts(admin, acme.servers("zonal"))} == {"1"}
    acme.delete("zonal")


def test_s1_and_s2_by_the_sdk(deployment: Deployment, acme: CliUser) -> None:
    with connect(deployment.cloud("acme")) as cloud:
        group = cloud.compute.create_server_group(name="sdk", policy="anti-affinity")
        properties = {"flavor": "tiny", "image": "linux", "scheduler_hints": {"group": "sdk"}}
        spec = {"type": "os.nova.server", "version": "1.0", "properties": properties}
        profile = cloud.clustering.create_profile(name="sdk", spec=spec)
        for name, profile_id, inherited in (("s1", profile.id, True), ("s2", "plain", False)):
            cluster = cloud.clustering.create_cluster(name=name, profile_id=profile_id, desired_capacity=0)
            assert acme.wait_created(name)["status"] == "ACTIVE"
            answer = cloud.clustering.attach_policy_to_cluster(cluster, "apart")
            assert acme.action(answer["action"])["status"] == "SUCCEEDED"
            data = cloud.clustering.get_cluster_policy("apart", cluster.id).data["AffinityPolicy"]["data"]
            assert data["inherited_group"] is inherited
            assert (data["servergroup_id"] == group.id) is inherited
            answer = cloud.clustering.scale_out_cluster(cluster, 2)
            assert acme.action(answer["action"])["status"] == "SUCCEEDED"
            members = cloud.compute.get_server_group(data["servergroup_id"]).member_ids
            assert sorted(members) == sorted(node.physical_id for node in cloud.clustering.nodes(cluster_id=cluster.id))
            assert acme.action(cloud.clustering.delete_cluster(cluster.id).id)["status"] == "SUCCEEDED"
        cloud.compute.delete_server_group(group)


def test_cluster_spreads_over_racks_and_recovers(admin: CliUser, acme: CliUser) -> None:
    acme.policy("racks", {"servergroup": {"policies": ["anti-affinity:rack"]}}, version=1.1)
    acme.cluster("racked", "plain")
    acme.succeeds("policy attach --policy racks racked")
    acme.succeeds(f"expand --count {RACKS} racked")

    def racks() -> Counter[str]:
        return Counter(host[1] for host in hosts(admin, acme.servers("racked")))

    assert racks() == dict.fromkeys("0123", 1)
    before = acme.show("racked"), acme.servers("racked")
    assert acme.fails("expand --count 1 racked").startswith(f"No valid host was found. Of {2 * RACKS + 1} hosts: ")
    after = acme.show("racked")
    assert (after | {"updated_at": 0}, acme.servers("racked")) == (before[0] | {"updated_at": 0}, before[1])

    acme.succeeds("shrink --count 2 racked")
    assert max(racks().values()) == 1
    acme.succeeds("expand --count 2 racked")
    assert racks() == dict.fromkeys("0123", 1)

    lost = acme.servers("racked")[0]
    acme.cli.run(f"server delete {lost}")
    wait_until(lambda: lost not in {row["ID"] for row in acme.cli.json("server list")}, f"{lost} is deleted")
    acme.succeeds("check racked")
    assert acme.show("racked")["status"] == "WARNING"
    acme.succeeds("recover racked")
    assert (racks(), acme.show("racked")["status"]) == (dict.fromkeys("0123", 1), "ACTIVE")
    assert lost not in acme.servers("racked")
    acme.delete("racked")


def test_two_clusters_share_a_named_group(acme: CliUser) -> None:
    acme.policy("shared", {"servergroup": {"name": "shared", "policies": "anti-affinity"}})
    for cluster in ("first", "second"):
        acme.cluster(cluster, "plain")
        acme.succeeds(f"policy attach --policy shared {cluster}")
    group = acme.group_of("first", "shared")
    assert acme.group_of("second", "shared") == group
    acme.succeeds("policy detach --policy shared first")
    assert group in acme.groups()  # the last binding deletes it
    acme.succeeds("expand --count 1 second")
    assert acme.cli.json(f"server group show {group}")["members"] == acme.servers("second")
    acme.delete("second")
    assert group not in acme.groups()
    acme.delete("first")


def test_scaling_deletion_and_zone_policies_combine(admin: CliUser, acme: CliUser) -> None:
    adjustment = {"type": "CHANGE_IN_CAPACITY", "number": 2, "best_effort": True}
    acme.policy("out", {"event": "CLUSTER_SCALE_OUT", "adjustment": adjustment}, "scaling")
    acme.policy("in", {"event": "CLUSTER_SCALE_IN", "adjustment": adjustment}, "scaling")
    acme.policy("oldest", {"criteria": "OLDEST_FIRST"}, "deletion")
    acme.policy("zones", {"zones": [{"name": "nova_1"}, {"name": "nova_2"}]}, "zone_placement")
    acme.cluster("ruled", "plain")
    acme.succeeds("resize --max-size 5 ruled")
    for policy in ("out", "in", "oldest", "zones"):
        acme.succeeds(f"policy attach --policy {policy} ruled")

    def zones() -> list[str]:
        return [host[0] for host in hosts(admin, acme.servers("ruled"))]

    for nodes in (2, 4, 5, 5):  # at max_size a best-effort policy adds no node
        acme.succeeds("expand ruled")
        assert len(zones()) == nodes
    assert sorted(Counter(zones()).values()) == [2, 3]
    oldest = set(acme.servers("ruled")[:2])  # one in each zone
    acme.succeeds("shrink ruled")
    assert not oldest <= set(acme.servers("ruled"))
    assert sorted(Counter(zones()).values()) == [1, 2]
    acme.delete("ruled")
