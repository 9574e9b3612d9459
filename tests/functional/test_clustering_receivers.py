"""Receivers and their webhooks: who may start what, and on whose behalf."""

import uuid
from typing import Any
from urllib.parse import urlsplit

import pytest

from covey.services.clustering.engines import Heartbeat
from tests.functional.client import Answer, Client
from tests.functional.cluster_tenants import a_tenant
from tests.functional.clusters import speaker
from tests.functional.fleets import NOBODY, Cloud


@pytest.fixture
def alice(cloud: Cloud) -> Client:
    """A tenant who has a cluster called web, with no nodes."""
    tenant = a_tenant(cloud, cloud.alice)
    tenant.create()
    return tenant.api


def create(client: Client, action: str = "CLUSTER_SCALE_OUT", **more: Any) -> Answer:
    asked = {"name": "hook", "type": "webhook", "cluster_id": "web", "action": action, **more}
    return client.post("/receivers", {"receiver": asked})


def call(cloud: Cloud, receiver: dict[str, Any], body: Any = None, version: str | None = None) -> Answer:
    """What anybody does who was given the address."""
    url = urlsplit(receiver["channel"]["alarm_url"])
    path = url.path.removeprefix("/clustering/v1")
    return speaker(cloud.service, None, version).ask("POST", path, query_string=url.query, json=body)


def outcome(cloud: Cloud, alice: Client, answer: Answer) -> dict[str, Any]:
    """The action that a call started, once it is over."""
    assert answer.status == 202, answer.text
    cloud.settle()
    action: dict[str, Any] = alice.get(f"/actions/{answer.json['action']}").json["action"]
    return action


def nodes(alice: Client) -> int:
    return len(alice.get("/clusters/web").json["cluster"]["nodes"])


def test_a_receiver_from_its_creation_to_its_end(alice: Client) -> None:
    created = create(alice, params={"count": 2, "b": "x y"})
    receiver = created.json["receiver"]
    assert created.status == 201
    assert uuid.UUID(receiver["id"]).version == 4  # by chance alone: whoever can guess it can call it
    assert (receiver["type"], receiver["action"], receiver["user"]) == ("webhook", "CLUSTER_SCALE_OUT", "alice")
    assert receiver["cluster_id"] == alice.get("/clusters/web").json["cluster"]["id"]
    address = f"/clustering/v1/webhooks/{receiver['id']}/trigger?V=2&b=x+y&count=2"
    assert receiver["channel"]["alarm_url"].endswith(address)
    assert alice.get("/receivers", action="CLUSTER_SCALE_OUT", user="alice").json["receivers"] == [receiver]
    assert alice.get("/receivers", action="CLUSTER_SCALE_IN").json["receivers"] == []

    change = {"name": "other", "action": "CLUSTER_SCALE_IN", "params": {"count": "1"}}
    changed = alice.patch("/receivers/hook", {"receiver": change}).json["receiver"]
    assert {key: changed[key] for key in change} == change
    again = alice.patch("/receivers/other", {"receiver": change})
    assert (again.status, again.message) == (400, "No property needs an update.")

    assert alice.delete("/receivers/other").status == 204
    assert alice.get(f"/receivers/{receiver['id']}").status == 404


def test_whoever_knows_the_address_starts_the_action(cloud: Cloud, alice: Client) -> None:
    receiver = create(alice).json["receiver"]
    action = outcome(cloud, alice, call(cloud, receiver))
    assert (action["name"], action["status"]) == (f"webhook_{receiver['id'][:8]}", "SUCCEEDED")
    assert (action["user"], action["project"], action["inputs"]) == ("alice", "web", {})
    assert nodes(alice) == 1


@pytest.mark.parametrize(
    ("body", "version"),
    [({"count": 3}, "1.10"), ({"params": {"count": 3}}, "1.9"), ({"params": {"count": 3}}, None), ({"count": 3}, None)],
    ids=str,
)
def test_a_call_overrides_the_receivers_parameters(
    cloud: Cloud, alice: Client, body: dict[str, Any], version: str | None
) -> None:
    receiver = create(alice, params={"count": 1, "note": "mine"}).json["receiver"]
    action = outcome(cloud, alice, call(cloud, receiver, body, version))
    assert (action["status"], action["inputs"]["note"], nodes(alice)) == ("SUCCEEDED", "mine", 3)


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("CLUSTER_SCALE_OUT", {"count": "many"}),
        ("CLUSTER_SCALE_OUT", {"count": [1]}),
        ("CLUSTER_SCALE_OUT", {"count": 10**400}),
        ("CLUSTER_SCALE_OUT", {"count": True}),
        ("CLUSTER_SCALE_IN", {"count": {}}),
        ("CLUSTER_SCALE_IN", {"count": 1.5}),
        ("CLUSTER_RESIZE", {"adjustment_type": "EXACT_CAPACITY", "number": "lots"}),
        ("CLUSTER_RESIZE", {"adjustment_type": ["EXACT_CAPACITY"], "number": 1}),
        ("CLUSTER_RESIZE", {"min_size": "x"}),
        ("CLUSTER_RESIZE", {"max_size": {}}),
        ("CLUSTER_RESIZE", {"adjustment_type": "CHANGE_IN_PERCENTAGE", "number": 50, "min_step": []}),
        ("CLUSTER_RECOVER", {"operation": ["DANCE"]}),
    ],
    ids=str,
)
def test_what_makes_no_sense_fails_with_a_reason(
    cloud: Cloud, alice: Client, action: str, body: dict[str, Any]
) -> None:
    receiver = create(alice, action).json["receiver"]
    done = outcome(cloud, alice, call(cloud, receiver, body, "1.10"))
    assert done["status"] == "FAILED"
    assert any(word in done["status_reason"].lower() for word in ("number", "integer", "value", "acceptable")), done
    assert nodes(alice) == 0
    assert alice.post("/clusters/web/actions", {"scale_out": {}}).status == 202  # nothing holds the cluster


def test_a_webhook_waits_for_nobody(cloud: Cloud, alice: Client) -> None:
    receiver = create(alice).json["receiver"]
    assert call(cloud, receiver).status == 202
    second = call(cloud, receiver)
    assert (second.status, second.json["error"]["type"]) == (409, "ResourceIsLocked")


def test_a_call_that_is_no_such_call(cloud: Cloud, alice: Client) -> None:
    receiver = create(alice).json["receiver"]
    anybody = speaker(cloud.service, None, None)
    path = f"/webhooks/{receiver['id']}/trigger"
    assert anybody.post(path).status == 400
    assert "V=2" in anybody.post(path).text
    for key in ("hook", receiver["id"][:8], NOBODY, "%27"):  # a name is easily guessed, and so is how an id begins
        assert anybody.ask("POST", f"/webhooks/{key}/trigger", query_string="V=2").status == 404
    for body in ([1], "x", 1):
        assert anybody.ask("POST", path, query_string="V=2", json=body).status == 400
    assert anybody.ask("POST", path, query_string="V=2", json={"params": 1}).status == 400
    assert anybody.ask("POST", path, query_string="V=2", body="{").status == 400
    assert anybody.ask("GET", path, query_string="V=2").status == 404
    assert anybody.ask("GET", "/receivers").status == 401
    assert alice.get("/actions", action="CLUSTER_SCALE_OUT").json["actions"] == []


def test_receivers_are_a_secret_of_those_who_may_act(cloud: Cloud, alice: Client) -> None:
    create(alice)
    bob, reader = speaker(cloud.service, "bob:db"), alice.sending(X_Roles="reader")
    assert bob.get("/receivers").json["receivers"] == []
    for answer in (
        bob.get("/receivers/hook"),
        bob.patch("/receivers/hook", {"receiver": {"name": "his"}}),
        bob.delete("/receivers/hook"),
    ):
        assert (answer.status, answer.message) == (404, "The receiver 'hook' could not be found.")
    refused = create(bob)
    assert (refused.status, refused.message) == (400, "The specified cluster 'web' could not be found.")
    assert [reader.get(path).status for path in ("/receivers", "/receivers/hook")] == [403, 403]
    assert create(reader).status == 403


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": "bogus"}, "Value 'bogus' is not acceptable for field 'type'."),
        ({"type": "message"}, "not offered by this cloud: the type must be 'webhook'"),
        ({"type": None}, "'type' is a required property"),
        ({"name": None}, "'name' is a required property"),
        ({"name": "two words"}, "The value for name must be"),
        ({"cluster_id": None}, "Cluster identity is required for creating webhook receiver."),
        ({"cluster_id": NOBODY}, f"The specified cluster '{NOBODY}' could not be found."),
        ({"action": None}, "Action name is required for creating webhook receiver"),
        ({"action": "CLUSTER_ADD_NODES"}, "Value 'CLUSTER_ADD_NODES' is not acceptable for field 'action'."),
        ({"params": [1]}, "The value for params must be a map: '[1]'."),
        ({"more": 1}, "Additional properties are not allowed ('more' was unexpected)"),
    ],
    ids=str,
)
def test_a_receiver_that_is_written_wrongly(alice: Client, change: dict[str, Any], message: str) -> None:
    answer = create(alice, **change) if "action" not in change else create(alice, change["action"])
    assert answer.status == 400
    assert message in answer.message
    assert alice.get("/receivers").json["receivers"] == []


def test_who_does_the_work_is_for_operators_to_see(cloud: Cloud) -> None:
    assert speaker(cloud.service, "alice:web").get("/services").status == 403

    def states() -> list[tuple[str, str]]:
        services = speaker(cloud.service, "admin:operators").get("/services").json["services"]
        assert {(service["binary"], service["status"]) for service in services} == {("covey-worker", "enabled")}
        return [(service["host"], service["state"]) for service in services]

    first, second = (Heartbeat(cloud.store, cloud.time, str(uuid.uuid4()), host) for host in ("a", "b"))
    first.beat()
    second.beat()
    assert states() == [("a", "up"), ("b", "up")]
    cloud.time.pass_(60)
    first.beat()
    assert states() == [("a", "up"), ("b", "down")]
    cloud.time.pass_(3600)
    first.beat()
    cloud.assembled.maintenance.run_if_due()
    assert states() == [("a", "up")]
