"""How much of the Clustering API a project may store, and how long its history is kept."""

import uuid
from datetime import datetime, timedelta

import pytest
from sqlalchemy import func, select, update

from covey.model.clustering.actions import Verb
from covey.model.clustering.events import Event, Level, Phase
from covey.model.clustering.owners import Owner
from covey.model.ids import ProjectId, UserId
from covey.services.maintenance import Maintenance
from covey.storage import tables
from tests.functional.client import Answer, Client
from tests.functional.clusters import SERVER, policy
from tests.functional.finished_clusters import a_cluster, a_node, with_profiles
from tests.functional.fleets import BuildCloud, Cloud

LONG = timedelta(days=31)


@pytest.fixture
def cloud(build_cloud: BuildCloud) -> Cloud:
    kinds = ("profiles", "policies", "receivers", "orphan_nodes")
    return build_cloud(1, *(("clustering", f"max_{kind}_per_project", 3) for kind in kinds))


@pytest.fixture
def alice(cloud: Cloud) -> Client:
    return with_profiles(cloud)


def create(client: Client, kind: str, cluster: str) -> Answer:
    bodies = {
        "profile": {"name": "p", "spec": SERVER},
        "policy": {"name": "p", "spec": policy("deletion")},
        "receiver": {"name": "r", "type": "webhook", "action": "CLUSTER_SCALE_OUT", "cluster_id": cluster},
        "node": {"name": "n", "profile_id": "server"},
    }
    path = "policies" if kind == "policy" else f"{kind}s"
    return client.post(f"/{path}", {kind: bodies[kind]})


@pytest.mark.parametrize(
    ("kind", "name"),
    [("profile", "profiles"), ("policy", "policies"), ("receiver", "receivers"), ("node", "nodes outside of clusters")],
)
def test_project_has_a_limited_number_of_each(cloud: Cloud, alice: Client, kind: str, name: str) -> None:
    bob = with_profiles(cloud, "bob:db")
    cluster, bobs_cluster = a_cluster(cloud, alice), a_cluster(cloud, bob)
    answers = [create(alice, kind, cluster) for _ in range(4)]
    number = 1 if kind == "profile" else 3  # it has two profiles
    assert {answer.status for answer in answers[:number]} <= {201, 202}, answers[0].text
    for refused in answers[number:]:
        assert refused.status == 403
        assert refused.message == f"Quota exceeded, too many {name}: the limit of a project is 3."
    assert create(bob, kind, bobs_cluster).status in {201, 202}


def history(cloud: Cloud) -> tuple[int, int]:
    """Return the numbers of stored actions and events."""
    with cloud.store.read() as tx:
        connection = tx._connection
        of = (tables.cluster_actions, tables.cluster_events)
        actions, events = (connection.execute(select(func.count()).select_from(table)).scalar_one() for table in of)
        return actions, events


def maintain(cloud: Cloud, now: datetime, most: int = 1000) -> None:
    Maintenance(cloud.store, lambda: now, max_history=most).run_if_due()


def add_event(cloud: Cloud, alice: Client, ident: str, age: timedelta) -> None:
    action = alice.get("/actions").json["actions"][0]
    owner = Owner(UserId("alice"), ProjectId("web"))
    at = cloud.time() - age
    event = Event(ident, at, action["target"], "n", "NODE", None, Level.INFO, Verb.NODE_CREATE, Phase.END, "", owner)
    with cloud.store.write() as tx:
        tx.clustering.events.add([event])


def age_actions(cloud: Cloud, age: timedelta) -> None:
    with cloud.store.write() as tx:
        created = {"created_at": cloud.time() - age}
        tx._connection.execute(update(tables.cluster_actions).values(created))


def test_actions_and_events_are_deleted_after_a_time(cloud: Cloud, alice: Client) -> None:
    a_node(cloud, alice)
    assert create(alice, "node", "").status == 202  # nothing has executed its action yet
    age_actions(cloud, LONG)
    for number, age in enumerate((LONG, timedelta(0))):
        add_event(cloud, alice, str(uuid.UUID(int=number)), age)
    maintain(cloud, cloud.time())
    assert history(cloud) == (1, 1), "an action that has not ended stays"
    assert alice.get("/actions").json["actions"][0]["status"] != "SUCCEEDED"


def test_oldest_actions_and_events_of_a_full_project_are_deleted(cloud: Cloud, alice: Client) -> None:
    a_cluster(cloud, alice)
    age_actions(cloud, timedelta(hours=2))
    node = a_node(cloud, alice)
    a_cluster(cloud, with_profiles(cloud, "bob:db"))
    for number in range(3):
        add_event(cloud, alice, str(uuid.UUID(int=number)), timedelta(hours=number))
    assert history(cloud) == (3, 3)
    maintain(cloud, cloud.time(), most=1)
    assert history(cloud) == (2, 1)
    assert [each["target"] for each in alice.get("/actions").json["actions"]] == [node]
    assert [each["id"] for each in alice.get("/events").json["events"]] == [str(uuid.UUID(int=0))]


def test_list_without_a_limit_is_a_page(build_cloud: BuildCloud) -> None:
    alice = with_profiles(build_cloud(1, ("api", "max_limit", 2)))
    for _ in range(3):
        assert create(alice, "node", "").status == 202
    every = [each["id"] for each in alice.get("/nodes", limit="2").json["nodes"]]
    assert [each["id"] for each in alice.get("/nodes").json["nodes"]] == every
    assert len(every) == len(alice.get("/nodes", limit="100").json["nodes"]) == 2
    (last,) = alice.get("/nodes", marker=every[-1]).json["nodes"]
    assert last["id"] not in every
    assert alice.get("/nodes", marker=last["id"]).json["nodes"] == []


def test_documents_of_callers_are_small(cloud: Cloud, alice: Client) -> None:
    cluster = a_cluster(cloud, alice)
    large, most = {"k": "x" * 8185}, {"k": "x" * 8184}
    receiver = create(alice, "receiver", cluster).json["receiver"]
    trigger = f"/webhooks/{receiver['id']}/trigger"
    node = {"name": "n", "profile_id": "server"}
    for method, path, body in (
        ("POST", f"/clusters/{cluster}/actions", lambda it: {"check": it}),
        ("POST", f"/clusters/{cluster}/ops", lambda it: {"reboot": {"params": it}}),
        ("POST", f"{trigger}?V=2", lambda it: it),
        ("PATCH", f"/receivers/{receiver['id']}", lambda it: {"receiver": {"params": it}}),
        ("PATCH", f"/clusters/{cluster}", lambda it: {"cluster": {"metadata": it}}),
        ("POST", "/nodes", lambda it: {"node": node | {"metadata": it}}),
    ):
        refused = alice.ask(method, path, json=body(large))
        assert refused.status == 400, path
        assert refused.message.endswith("has 8193 bytes as JSON; the limit is 8192."), path
        assert "limit is 8192" not in alice.ask(method, path, json=body(most)).text, path
