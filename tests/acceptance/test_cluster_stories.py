"""The scenarios that affinity policies of clusters were made for, by `openstack cluster ...` and by openstacksdk."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import sqlalchemy as sa

from covey.storage import tables
from tests.acceptance.cluster_people import USERS, Destination, Person, a_place
from tests.acceptance.invariants import violations
from tests.acceptance.processes import Session
from tests.acceptance.storm import wait_until
from tests.acceptance.test_sdk import connect

RACKS = 4
ROOM: dict[str, Any] = {"vcpus": 16, "memory_mb": 65536, "disk_gb": 1000}
# Four racks of two hosts, two racks to a zone; and a host that stands for a whole vSphere cluster, in no rack or zone.
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
LEFT = (  # rows that a cluster brings, and takes along
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
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Destination]:
    """A service of these stories' own."""
    directory = tmp_path_factory.mktemp("clusters")
    with a_place(directory, f"sqlite:///{directory}/covey.sqlite", FLEET) as made:
        yield made


@pytest.fixture(scope="module")
def people(place: Destination) -> Iterator[dict[str, Person]]:
    with ExitStack() as stack:
        yield {n: Person(place, n, stack.enter_context(Session(place.cloud(n)))) for n in USERS}


@pytest.fixture(scope="module")
def admin(people: dict[str, Person]) -> Person:
    """The operator, who has clusters too."""
    return people["admin"]


@pytest.fixture(scope="module")
def acme(people: dict[str, Person]) -> Person:
    """A tenant with profiles and policies."""
    tenant = people["acme"]
    tenant.profile("plain")
    tenant.policy("apart", APART)
    tenant.policy("together", TOGETHER)
    return tenant


@pytest.fixture(autouse=True)
def _everything_is_left_as_it_was(place: Destination) -> Iterator[None]:
    before = counted(place)
    yield
    assert counted(place) == before
    assert violations(place.rows, idle=True) == []


def counted(place: Destination) -> dict[str, int]:
    """How many rows there are of all that clusters bring."""
    with place.rows.connect() as connection:
        return {t.name: connection.scalar(sa.select(sa.func.count()).select_from(t)) or 0 for t in LEFT}


def hosts(admin: Person, servers: list[str]) -> list[str]:
    """Where servers are, which only the operator knows."""
    return [admin.say.json(f"server show {server}")["OS-EXT-SRV-ATTR:host"] for server in servers]


def same(found: object, documented: object) -> bool:
    """Whether data are as a document prints them, to the last quote."""
    return repr(found) == repr(documented)


def test_s1_a_cluster_inherits_the_group_that_its_profile_names(admin: Person, acme: Person) -> None:
    group = acme.say.json("server group create --policy anti-affinity shop")["id"]
    for cluster, hint in (("by-name", "shop"), ("by-id", group)):
        acme.profile(f"hint-{cluster}", scheduler_hints={"group": hint})
        acme.cluster(cluster, f"hint-{cluster}")
        acme.works(f"policy attach --policy apart {cluster}")
        assert same(
            acme.binding(cluster, "apart"),
            {"AffinityPolicy": {"version": 1.0, "data": {"servergroup_id": group, "inherited_group": True}}},
        )
    grown = acme.works("expand --count 2 by-name")
    assert same(
        grown["data"]["placement"], {"count": 2, "placements": [{"servergroup": group}, {"servergroup": group}]}
    )
    acme.works("resize --capacity 1 by-id")
    both = acme.servers("by-name") + acme.servers("by-id")
    assert len(set(hosts(admin, both))) == 3
    assert sorted(acme.say.json(f"server group show {group}")["members"]) == sorted(both)
    mismatch = "Policies specified (affinity) doesn't match that of the existing servergroup (anti-affinity)."
    acme.works("policy detach --policy apart by-id")
    assert acme.fails("policy attach --policy together by-id") == mismatch
    acme.profile("hint-nowhere", scheduler_hints={"group": "nowhere"})
    acme.cluster("lost", "hint-nowhere")
    assert acme.fails("policy attach --policy apart lost") == "The specified servergroup 'nowhere' could not be found."
    assert acme.say.json("cluster policy binding list lost") == []
    acme.works("policy detach --policy apart by-name")
    assert group in acme.groups()  # it was there before the policy, and outlives it
    for cluster in ("by-name", "by-id", "lost"):
        acme.delete(cluster)
    acme.say.run("server group delete shop")


def test_s2_a_policy_brings_a_group_and_takes_it_along(acme: Person) -> None:
    before = acme.groups()
    acme.cluster("web", "plain")
    acme.works("policy attach --policy apart web")
    (group,) = acme.groups() - before
    assert same(
        acme.binding("web", "apart"),
        {"AffinityPolicy": {"version": 1.0, "data": {"servergroup_id": group, "inherited_group": False}}},
    )
    grown = acme.works("expand --count 2 web")
    assert same(
        grown["data"]["placement"], {"count": 2, "placements": [{"servergroup": group}, {"servergroup": group}]}
    )
    assert sorted(acme.say.json(f"server group show {group}")["members"]) == sorted(acme.servers("web"))
    acme.works("policy detach --policy apart web")
    assert acme.groups() == before
    assert len(acme.servers("web")) == 2
    acme.works("policy attach --policy together web")
    acme.delete("web")
    assert acme.groups() == before


def test_s3_nodes_of_an_operators_cluster_go_to_a_vsphere_host(admin: Person, acme: Person) -> None:
    admin.profile("ops")
    admin.policy("drs", TOGETHER | {"enable_drs_extension": True})
    admin.cluster("vms", "ops")
    admin.works("policy attach --policy drs vms")
    group = admin.group_of("vms", "drs")
    placed = {"zone": "nova:vsphere_drs_1", "servergroup": group}
    grown = admin.works("expand --count 2 vms")
    assert same(grown["data"]["placement"], {"count": 2, "placements": [placed, placed]})
    assert hosts(admin, admin.servers("vms")) == ["vsphere_drs_1"] * 2
    admin.say.run("compute service set --disable vsphere_drs_1 nova-compute")
    refused = admin.do("expand vms")
    admin.say.run("compute service set --enable vsphere_drs_1 nova-compute")
    assert same(refused["data"], {"status": "ERROR", "status_reason": "No suitable vSphere host is available."})
    why = "Policy check failure: Failed policy 'drs': No suitable vSphere host is available."
    assert (refused["status"], refused["status_reason"]) == ("FAILED", why)
    admin.delete("vms")

    acme.policy("drs", TOGETHER | {"enable_drs_extension": True})
    acme.cluster("vms", "plain")
    acme.works("policy attach --policy drs vms")
    mine = acme.do("expand vms")
    theirs = admin.do("expand vms")  # the tenant would see where its nodes went
    assert (mine["status"], theirs["status"]) == ("FAILED", "FAILED")
    assert theirs["status_reason"].endswith("only for the administrator who owns the cluster.")
    seen = [acme.ask("/actions"), acme.ask("/nodes"), acme.ask("/events"), acme.ask("/clusters/vms")]
    assert "vsphere_drs_1" not in repr(seen)
    acme.delete("vms")


def test_note_a_zone_counts_without_the_extension(admin: Person, acme: Person) -> None:
    acme.policy("zoned", APART | {"availability_zone": "nova_1"})
    acme.cluster("zonal", "plain")
    acme.works("policy attach --policy zoned zonal")
    placed = {"zone": "nova_1", "servergroup": acme.group_of("zonal", "zoned")}
    grown = acme.works("expand --count 2 zonal")
    assert same(grown["data"]["placement"], {"count": 2, "placements": [placed, placed]})
    assert {host[0] for host in hosts(admin, acme.servers("zonal"))} == {"1"}
    acme.delete("zonal")


def test_s1_and_s2_by_the_sdk(place: Destination, acme: Person) -> None:
    with connect(place.cloud("acme")) as cloud:
        group = cloud.compute.create_server_group(name="sdk", policy="anti-affinity")
        said = {"flavor": "tiny", "image": "linux", "scheduler_hints": {"group": "sdk"}}
        spec = {"type": "os.nova.server", "version": "1.0", "properties": said}
        profile = cloud.clustering.create_profile(name="sdk", spec=spec)
        for name, shape, inherited in (("s1", profile.id, True), ("s2", "plain", False)):
            made = cloud.clustering.create_cluster(name=name, profile_id=shape, desired_capacity=0)
            assert acme.made(name)["status"] == "ACTIVE"
            answer = cloud.clustering.attach_policy_to_cluster(made, "apart")
            assert acme.action(answer["action"])["status"] == "SUCCEEDED"
            kept = cloud.clustering.get_cluster_policy("apart", made.id).data["AffinityPolicy"]["data"]
            assert kept["inherited_group"] is inherited
            assert (kept["servergroup_id"] == group.id) is inherited
            answer = cloud.clustering.scale_out_cluster(made, 2)
            assert acme.action(answer["action"])["status"] == "SUCCEEDED"
            members = cloud.compute.get_server_group(kept["servergroup_id"]).member_ids
            assert sorted(members) == sorted(node.physical_id for node in cloud.clustering.nodes(cluster_id=made.id))
            assert acme.action(cloud.clustering.delete_cluster(made.id).id)["status"] == "SUCCEEDED"
        cloud.compute.delete_server_group(group)


def test_a_cluster_grows_over_the_racks_shrinks_and_heals(admin: Person, acme: Person) -> None:
    acme.policy("racks", {"servergroup": {"policies": ["anti-affinity:rack"]}}, version=1.1)
    acme.cluster("racked", "plain")
    acme.works("policy attach --policy racks racked")
    acme.works(f"expand --count {RACKS} racked")

    def racks() -> Counter[str]:
        return Counter(host[1] for host in hosts(admin, acme.servers("racked")))

    assert racks() == dict.fromkeys("0123", 1)
    before = acme.show("racked"), acme.servers("racked")
    assert acme.fails("expand --count 1 racked").startswith(f"No valid host was found. Of {2 * RACKS + 1} hosts: ")
    after = acme.show("racked")
    assert (after | {"updated_at": 0}, acme.servers("racked")) == (before[0] | {"updated_at": 0}, before[1])

    acme.works("shrink --count 2 racked")
    assert max(racks().values()) == 1
    acme.works("expand --count 2 racked")
    assert racks() == dict.fromkeys("0123", 1)

    lost = acme.servers("racked")[0]
    acme.say.run(f"server delete {lost}")
    wait_until(lambda: lost not in {row["ID"] for row in acme.say.json("server list")}, f"{lost} is gone")
    acme.works("check racked")
    assert acme.show("racked")["status"] == "WARNING"
    acme.works("recover racked")
    assert (racks(), acme.show("racked")["status"]) == (dict.fromkeys("0123", 1), "ACTIVE")
    assert lost not in acme.servers("racked")
    acme.delete("racked")


def test_two_clusters_share_a_named_group(acme: Person) -> None:
    acme.policy("shared", {"servergroup": {"name": "shared", "policies": "anti-affinity"}})
    for cluster in ("first", "second"):
        acme.cluster(cluster, "plain")
        acme.works(f"policy attach --policy shared {cluster}")
    group = acme.group_of("first", "shared")
    assert acme.group_of("second", "shared") == group
    acme.works("policy detach --policy shared first")
    assert group in acme.groups()  # it goes with the last policy that uses it
    acme.works("expand --count 1 second")
    assert acme.say.json(f"server group show {group}")["members"] == acme.servers("second")
    acme.delete("second")
    assert group not in acme.groups()
    acme.delete("first")


def test_policies_for_scaling_deletion_and_zones_work_together(admin: Person, acme: Person) -> None:
    adjustment = {"type": "CHANGE_IN_CAPACITY", "number": 2, "best_effort": True}
    acme.policy("out", {"event": "CLUSTER_SCALE_OUT", "adjustment": adjustment}, "scaling")
    acme.policy("in", {"event": "CLUSTER_SCALE_IN", "adjustment": adjustment}, "scaling")
    acme.policy("oldest", {"criteria": "OLDEST_FIRST"}, "deletion")
    acme.policy("zones", {"zones": [{"name": "nova_1"}, {"name": "nova_2"}]}, "zone_placement")
    acme.cluster("ruled", "plain")
    acme.works("resize --max-size 5 ruled")
    for policy in ("out", "in", "oldest", "zones"):
        acme.works(f"policy attach --policy {policy} ruled")

    def zones() -> list[str]:
        return [host[0] for host in hosts(admin, acme.servers("ruled"))]

    for nodes in (2, 4, 5, 5):  # at its bound it does nothing, and that is no failure
        acme.works("expand ruled")
        assert len(zones()) == nodes
    assert sorted(Counter(zones()).values()) == [2, 3]
    oldest = set(acme.servers("ruled")[:2])  # one in each zone
    acme.works("shrink ruled")
    assert not oldest <= set(acme.servers("ruled"))
    assert sorted(Counter(zones()).values()) == [1, 2]
    acme.delete("ruled")
