"""Requests about actions and events."""

from dataclasses import replace
from typing import Any

import pytest

from covey.model.clustering.actions import Action, ActionStatus, Cause, Verb
from covey.model.clustering.events import Event, Level, Phase
from covey.model.clustering.owners import Owner
from covey.model.ids import ProjectId, UserId
from covey.model.work import JobKind
from tests.build import NOW
from tests.functional.client import Answer, Client
from tests.functional.clusters import clustering_client
from tests.functional.finished_clusters import a_cluster, a_node, finish_actions, with_profiles
from tests.functional.fleets import UNKNOWN_ID, Cloud

FIELDS = {
    *("id", "name", "action", "target", "cause", "owner", "interval", "start_time", "end_time", "timeout", "status"),
    *("status_reason", "inputs", "outputs", "depends_on", "depended_by", "created_at", "updated_at", "data", "user"),
    "project",
}
CANCEL = {"action": {"status": "CANCELLED"}}
ALICE = Owner(UserId("alice"), ProjectId("web"))


@pytest.fixture
def alice(cloud: Cloud) -> Client:
    return with_profiles(cloud)


def error_of(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.message


def stored(cloud: Cloud, key: str) -> Action:
    with cloud.store.read() as tx:
        found = tx.clustering.actions.one(key, None)
    assert found is not None
    return found


def test_actions_are_listed_and_shown(cloud: Cloud, alice: Client) -> None:
    cluster = a_cluster(cloud, alice)
    node = a_node(cloud, alice)
    create, other = alice.get("/actions").json["actions"]
    assert create.keys() == FIELDS | {"cluster_id"}
    assert (create["action"], create["cluster_id"], create["cause"], create["interval"]) == (
        "CLUSTER_CREATE",
        cluster,
        "RPC Request",
        -1,
    )
    assert (create["name"], other["target"], other["cluster_id"]) == (f"cluster_create_{cluster[:8]}", node, "")
    assert (create["status"], create["start_time"], type(create["end_time"])) == ("SUCCEEDED", None, float)
    for key in (create["id"], create["id"][:9], create["name"]):
        assert alice.get(f"/actions/{key}").json["action"] == create

    def listed(**query: str) -> list[str]:
        return [action["id"] for action in alice.get("/actions", **query).json["actions"]]

    assert listed(sort="action:desc") == [other["id"], create["id"]]
    assert listed(cluster_id=cluster) == listed(action="CLUSTER_CREATE", status="SUCCEEDED") == [create["id"]]
    assert listed(target=node, status="READY") == []
    assert error_of(alice.get("/actions/none")) == (404, "The action 'none' could not be found.")
    assert clustering_client(cloud.service, "bob:db").get(f"/actions/{create['id']}").status == 404
    for query, message in (
        ({"bogus": "x"}, "Invalid parameter bogus"),
        ({"status": "x"}, "Field value x is invalid"),
        ({"sort": "timeout"}, "Unsupported sort key 'timeout' for 'sort'."),
        ({"global_project": "x"}, "Invalid value 'x' specified for 'global_project'"),
    ):
        assert error_of(alice.get("/actions", **query)) == (400, message)
    assert alice.get("/actions", global_project="True").status == 403


def test_cluster_id_of_an_action_is_shown_since_1_14(cloud: Cloud, alice: Client) -> None:
    cluster = a_cluster(cloud, alice)
    old = clustering_client(cloud.service, "alice:web", "1.13")
    assert old.get("/actions").json["actions"][0].keys() == FIELDS
    assert error_of(old.get("/actions", cluster_id=cluster)) == (400, "Invalid parameter cluster_id")


def test_action_is_cancelled(cloud: Cloud, alice: Client) -> None:
    cluster = a_cluster(cloud, alice)
    action = alice.post(f"/clusters/{cluster}/actions", {"scale_out": {}}).json["action"]
    assert clustering_client(cloud.service, "bob:db").patch(f"/actions/{action}", CANCEL).status == 404
    assert alice.sending(X_Roles="reader").patch(f"/actions/{action}", CANCEL).status == 403
    answer = alice.patch(f"/actions/{action}", CANCEL)
    assert (answer.status, answer.json) == (202, None)
    assert "openstack-api-version" not in answer.headers
    assert stored(cloud, action).to_be_cancelled
    assert len([job for job in cloud.jobs() if job.kind is JobKind.CLUSTER_ACTION]) == 1  # a worker ends the action
    finish_actions(cloud)
    over = alice.patch(f"/actions/{action}", CANCEL)
    expected = "INIT, WAITING, READY, RUNNING, WAITING_LIFECYCLE_COMPLETION"
    assert error_of(over) == (
        409,
        f"Action ({action[:8]}) is in status (SUCCEEDED) while expected status must be one of ({expected}).",
    )
    assert over.json["error"]["type"] == "ActionImmutable"


def test_forced_cancellation_releases_the_lock_at_once(cloud: Cloud, alice: Client) -> None:
    cluster = a_cluster(cloud, alice)
    first = alice.post(f"/clusters/{cluster}/actions", {"check": {}}).json["action"]
    assert alice.ask("PATCH", f"/actions/{first}", query_string="force=true", json=CANCEL).status == 202
    second = alice.post(f"/clusters/{cluster}/actions", {"check": {}})
    assert error_of(second) == (
        409,
        f"The CLUSTER_CHECK action for target {cluster} conflicts with the following action(s): {first}",
    )
    assert second.json["error"]["type"] == "ActionConflict"
    finish_actions(cloud)
    assert alice.ask("PATCH", f"/actions/{first}", query_string="force=true", json=CANCEL).status == 202
    assert stored(cloud, first).status is ActionStatus.SUCCEEDED


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "Malformed request data, missing 'action' key in request body."),
        ({"action": {}}, "'status' is a required property"),
        ({"action": {"status": "invalid"}}, f"Unknown status invalid for action {UNKNOWN_ID}."),
        ({"action": {"status": "CANCELLED", "x": 1}}, "Additional properties are not allowed ('x' was unexpected)"),
    ],
)
def test_action_status_can_only_become_cancelled(module_cloud: Cloud, body: Any, message: str) -> None:
    alice = clustering_client(module_cloud.service, "alice:web")
    assert error_of(alice.patch(f"/actions/{UNKNOWN_ID}", body)) == (400, message)
    assert error_of(alice.patch(f"/actions/{UNKNOWN_ID}", CANCEL)) == (
        404,
        f"The action '{UNKNOWN_ID}' could not be found.",
    )
    old = clustering_client(module_cloud.service, "alice:web", "1.11").patch(f"/actions/{UNKNOWN_ID}", CANCEL)
    assert error_of(old) == (400, "API version '1.11' is not supported on this method.")


def test_child_action_cannot_be_cancelled(cloud: Cloud, alice: Client) -> None:
    cluster = a_cluster(cloud, alice)
    parent = stored(cloud, alice.post(f"/clusters/{cluster}/actions", {"scale_out": {}}).json["action"])
    part = replace(parent, id=UNKNOWN_ID, verb=Verb.NODE_CREATE, cause=Cause.DERIVED, parent_id=parent.id)
    with cloud.store.write() as tx:
        tx.clustering.actions.add([part])
    assert alice.get(f"/actions/{parent.id}").json["action"]["depends_on"] == [UNKNOWN_ID]
    assert alice.get(f"/actions/{UNKNOWN_ID}").json["action"]["depended_by"] == [parent.id]
    assert error_of(alice.patch(f"/actions/{UNKNOWN_ID}", CANCEL))[0] == 409


def test_events_are_listed_and_shown(cloud: Cloud, alice: Client) -> None:
    event = Event(
        id="11111111-0000-4000-8000-000000000000",
        timestamp=NOW,
        object_id=UNKNOWN_ID,
        object_name="web",
        object_type="CLUSTER",
        cluster_id=UNKNOWN_ID,
        level=Level.INFO,
        action=Verb.CLUSTER_CREATE,
        phase=Phase.START,
        reason="abcd",
        owner=ALICE,
    )
    later = replace(event, id="22222222-0000-4000-8000-000000000000", phase=Phase.ERROR, level=Level.ERROR)
    theirs = replace(event, id="33333333-0000-4000-8000-000000000000", owner=replace(ALICE, project_id=ProjectId("db")))
    with cloud.store.write() as tx:
        tx.clustering.events.add([later, event, theirs])
    shown = alice.get("/events/11111111").json["event"]
    assert {key: value for key, value in shown.items() if key != "timestamp"} == {
        "id": event.id,
        "oid": UNKNOWN_ID,
        "oname": "web",
        "otype": "CLUSTER",
        "cluster_id": UNKNOWN_ID,
        "level": "INFO",
        "action": "CLUSTER_CREATE",
        "status": "start",
        "status_reason": "abcd",
        "user": "alice",
        "project": "web",
        "meta_data": {},
    }

    def listed(client: Client = alice, **query: str) -> list[str]:
        return [found["id"][0] for found in client.get("/events", **query).json["events"]]

    assert listed(sort="level:desc") == ["2", "1"]
    assert listed(level="ERROR") == listed(level="40") == ["2"]
    assert listed(oid=UNKNOWN_ID, oname="web", otype="CLUSTER", action="CLUSTER_CREATE", cluster_id=UNKNOWN_ID) == [
        "1",
        "2",
    ]
    assert listed(clustering_client(cloud.service, "admin:operators")) == ["1", "2", "3"]
    assert error_of(alice.get(f"/events/{theirs.id}")) == (404, f"The event '{theirs.id}' could not be found.")
    for query, message in (
        ({"level": "['bad-level']"}, "Field value ['bad-level'] is invalid"),
        ({"action": "bad"}, "Field value bad is invalid"),
        ({"status": "start"}, "Invalid parameter status"),
        ({"sort": "bad-sort"}, "Unsupported sort key 'bad-sort' for 'sort'."),
    ):
        assert error_of(alice.get("/events", **query)) == (400, message)
    assert alice.get("/events", global_project="True").status == 403
