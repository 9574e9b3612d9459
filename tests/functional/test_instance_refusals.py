"""Why the policies of a group refused an instance of Nova: Nova's own fault says only that there is no valid host."""

import uuid
from datetime import timedelta

import pytest

from covey.model.ids import GroupId
from covey.model.nova import NovaServer
from covey.services.maintenance import REFUSALS_KEPT, Maintenance
from tests.functional.client import Client
from tests.functional.fleets import BuildCloud, Cloud
from tests.functional.nova_consumers import OWNER, Nova, nova_with_racks, violation

GROUP = str(uuid.UUID(int=77))
RANKING = "The policies of its server group admit no host: of 2 hosts: 2 already hold 1 of the group."
CLAIM = (
    "The policies of its server group refused the hosts that Nova claimed: of 2 hosts: 2 already hold 1 of the group."
)


@pytest.fixture
def nova(build_cloud: BuildCloud) -> Nova:
    return nova_with_racks(build_cloud(0))


def full(nova: Nova) -> None:
    """Place a member of the group on cn1, and one on cn2."""
    for host in ("cn1", "cn2"):
        nova.place(nova.member(GROUP), host)


def refused_by_ranking(nova: Nova) -> str:
    full(nova)
    instance = str(uuid.uuid4())
    assert not nova.rank(GROUP, "anti-affinity", instance, ["cn1", "cn2"])["hosts"]
    return instance


def placement(client: Client, instance: str) -> dict[str, object]:
    found: dict[str, object] = client.get(f"/servers/{instance}/placement").json["placement"]
    return found


def stored(nova: Nova) -> set[str]:
    """Return the instances that have a refusal and no host."""
    with nova.cloud.store.read() as tx:
        return {each.instance for each in tx.instance_refusals.unplaced(None, 100)}


def dashboard(client: Client) -> Client:
    return client.below("/dashboard")


def test_ranking_without_a_host_is_explained_to_the_tenant_and_the_operator(nova: Nova) -> None:
    instance = refused_by_ranking(nova)
    for client in (nova.cloud.alice, nova.cloud.admin):
        seen = placement(client, instance)
        assert seen == {
            "server_id": instance,
            "group": GROUP,
            "placed": False,
            "refused": RANKING,
            "refused_at": seen["refused_at"],
            "reasons": [{"reason": "already hold 1 of the group", "hosts": 2}],
        }


def test_ranking_that_admits_a_host_leaves_no_refusal(nova: Nova) -> None:
    instance = nova.member(GROUP)
    assert placement(nova.cloud.alice, instance)["refused"] is None


def test_refused_claims_of_one_request_are_counted_together(nova: Nova) -> None:
    instance = nova.member(GROUP)
    full(nova)
    for host in ("cn1", "cn2"):
        violation(nova.claim(instance, host))
    seen = placement(nova.cloud.alice, instance)
    assert (seen["refused"], seen["placed"]) == (CLAIM, False)


def test_refused_claims_of_an_earlier_request_do_not_count(nova: Nova) -> None:
    instance = nova.member(GROUP)
    full(nova)
    violation(nova.claim(instance, "cn1"))
    nova.cloud.time.advance(3600)
    violation(nova.claim(instance, "cn2"))
    assert placement(nova.cloud.alice, instance)["reasons"] == [{"reason": "already holds 1 of the group", "hosts": 1}]


def test_refused_move_of_a_placed_instance_is_explained(nova: Nova) -> None:
    instance = nova.member(GROUP)
    nova.place(instance, "cn3")
    full(nova)
    assert not nova.rank(GROUP, "anti-affinity", instance, ["cn1", "cn2"])["hosts"]
    assert placement(nova.cloud.admin, instance)["hosts"] == ["cn3"]
    mine = placement(nova.cloud.alice, instance)
    assert (mine["placed"], mine["refused"], "hosts" in mine) == (True, RANKING, False)


def test_instance_of_another_project_is_not_found(nova: Nova) -> None:
    instance = refused_by_ranking(nova)
    unknown = nova.cloud.bob.get(f"/servers/{uuid.UUID(int=5)}/placement")
    other = nova.cloud.bob.get(f"/servers/{instance}/placement")
    assert (other.status, unknown.status) == (404, 404)
    assert other.message == f"Instance {instance} could not be found."
    assert dashboard(nova.cloud.bob).get(f"/data/servers/{instance}/why").status == 404
    assert dashboard(nova.cloud.bob).get("/data/refusals").json == {"refusals": []}


@pytest.mark.parametrize(
    ("detail", "message", "reasons"),
    [
        (
            "reasons",
            "The policies of its server group admit no host: hosts already hold 1 of the group.",
            [{"reason": "already hold 1 of the group", "hosts": None}],
        ),
        ("none", "The policies of its server group admit no host.", []),
    ],
)
def test_operator_hides_numbers_from_tenants(
    build_cloud: BuildCloud, detail: str, message: str, reasons: list[object]
) -> None:
    nova = nova_with_racks(build_cloud(0, ("api", "explain_to_tenants", detail)))
    instance = refused_by_ranking(nova)
    mine = placement(nova.cloud.alice, instance)
    assert (mine["refused"], mine["reasons"]) == (message, reasons)
    assert placement(nova.cloud.admin, instance)["refused"] == RANKING


def test_refusals_on_the_dashboard_are_those_without_a_host(nova: Nova) -> None:
    instance, placed = refused_by_ranking(nova), nova.member(GROUP)
    violation(nova.claim(placed, "cn1"))
    nova.place(placed, "cn3")
    mirrored = NovaServer(instance, "web-9", OWNER["project_id"], OWNER["user_id"], "ERROR", None)
    with nova.cloud.store.write() as tx:
        tx.nova_mirror.set_servers({instance: mirrored})
    for client in (nova.cloud.alice, nova.cloud.admin):
        (seen,) = dashboard(client).get("/data/refusals").json["refusals"]
        assert (seen["id"], seen["name"], seen["status"], seen["fault"]) == (instance, "web-9", "ERROR", RANKING)
    why = dashboard(nova.cloud.alice).get(f"/data/servers/{instance}/why").json
    assert (why["refused"], why["placed"], why["hosts"], why["group_id"]) == (True, False, 2, GROUP)
    assert why["reasons"] == [{"reason": "already hold 1 of the group", "hosts": 2}]
    assert why["compute_nodes"] == []
    assert dashboard(nova.cloud.admin).get(f"/data/servers/{placed}/why").json["compute_nodes"] == ["cn3"]


def test_instances_on_the_dashboard_are_those_of_the_mirror(nova: Nova) -> None:
    member, other = nova.member(GROUP), str(uuid.uuid4())
    servers = [
        NovaServer(member, "web-1", "web", "alice", "ACTIVE", "cn1"),
        NovaServer(other, "db-1", "ops", "bob", "SHUTOFF", "cn2"),
    ]
    with nova.cloud.store.write() as tx:
        tx.nova_mirror.set_servers({each.id: each for each in servers})
    mine = {"id": member, "name": "web-1", "status": "ACTIVE", "project_id": "web", "group_id": GROUP}
    assert dashboard(nova.cloud.alice).get("/data/instances").json == {"instances": [mine], "more": False}
    all_of_them = dashboard(nova.cloud.admin).get("/data/instances", limit="1").json
    assert ([each["name"] for each in all_of_them["instances"]], all_of_them["more"]) == (["db-1"], True)


def test_refusals_end_with_their_group(nova: Nova) -> None:
    refused_by_ranking(nova)
    with nova.cloud.store.write() as tx:  # as a sync does that finds the group deleted in Nova
        tx.groups.delete_all([GroupId(GROUP)])
    assert stored(nova) == set()


def test_maintenance_deletes_old_refusals(nova: Nova) -> None:
    refused_by_ranking(nova)
    _maintain(nova.cloud, REFUSALS_KEPT - timedelta(minutes=1))
    assert len(stored(nova)) == 1
    _maintain(nova.cloud, REFUSALS_KEPT + timedelta(minutes=1))
    assert stored(nova) == set()


def test_number_of_refusals_is_bounded(nova: Nova) -> None:
    full(nova)
    instances = [str(uuid.uuid4()) for _ in range(3)]
    for instance in instances:
        nova.cloud.time.advance(1)
        nova.rank(GROUP, "anti-affinity", instance, ["cn1"])
    with nova.cloud.store.write() as tx:
        tx.instance_refusals.trim(nova.cloud.time() - timedelta(days=1), 2)
    assert stored(nova) == set(instances[1:])


def _maintain(cloud: Cloud, later: timedelta) -> None:
    Maintenance(cloud.store, lambda: cloud.time() + later).run_if_due()
