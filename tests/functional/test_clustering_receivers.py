"""Requests about receivers, and their webhooks."""

import uuid
from typing import Any
from urllib.parse import urlsplit

import pytest

from covey.api import errors, middleware
from covey.services.clustering.engines import Heartbeat
from covey.services.clustering.receivers import Receivers
from tests.functional.client import Answer, Client
from tests.functional.cluster_tenants import a_tenant
from tests.functional.clusters import clustering_client
from tests.functional.fleets import UNKNOWN_ID, Cloud


@pytest.fixture
def alice(cloud: Cloud) -> Client:
    """Return a tenant with an empty cluster named web."""
    tenant = a_tenant(cloud, cloud.alice)
    tenant.create()
    return tenant.api


def create(client: Client, action: str = "CLUSTER_SCALE_OUT", **more: Any) -> Answer:
    asked = {"name": "hook", "type": "webhook", "cluster_id": "web", "action": action, **more}
    return client.post("/receivers", {"receiver": asked})


def call(cloud: Cloud, receiver: dict[str, Any], body: Any = None, version: str | None = None) -> Answer:
    """Call a webhook without authentication."""
    url = urlsplit(receiver["channel"]["alarm_url"])
    path = url.path.removeprefix("/clustering/v1")
    return clustering_client(cloud.service, None, version).ask("POST", path, query_string=url.query, json=body)


def outcome(cloud: Cloud, alice: Client, answer: Answer) -> dict[str, Any]:
    """Return the finished action that a call started."""
    assert answer.status == 202, answer.text
    cloud.settle()
    action: dict[str, Any] = alice.get(f"/actions/{answer.json['action']}").json["action"]
    return action


def nodes(alice: Client) -> int:
    return len(alice.get("/clusters/web").json["cluster"]["nodes"])


def test_receiver_life_cycle(alice: Client) -> None:
    created = create(alice, params={"count": 2, "b": "x y"})
    receiver = created.json["receiver"]
    assert created.status == 201
    assert uuid.UUID(receiver["id"]).version == 4  # random: the id is the secret of the webhook
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


def test_webhook_needs_no_authentication(cloud: Cloud, alice: Client) -> None:
    receiver = create(alice).json["receiver"]
    action = outcome(cloud, alice, call(cloud, receiver))
    assert (action["name"], action["status"]) == (f"webhook_{receiver['id'][:8]}", "SUCCEEDED")
    assert (action["user"], action["project"], action["inputs"]) == ("alice", "web", {})
    assert nodes(alice) == 1


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("body", "version"),
    [({"count": 3}, "1.10"), ({"params": {"count": 3}}, "1.9"), ({"params": {"count": 3}}, None), ({"count": 3}, None)],
    ids=str,
)
def test_call_overrides_the_receiver_params(
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
def test_invalid_webhook_input_fails_the_action_with_a_reason(
    cloud: Cloud, alice: Client, action: str, body: dict[str, Any]
) -> None:
    receiver = create(alice, action).json["receiver"]
    done = outcome(cloud, alice, call(cloud, receiver, body, "1.10"))
    assert done["status"] == "FAILED"
    assert any(word in done["status_reason"].lower() for word in ("number", "integer", "value", "acceptable")), done
    assert nodes(alice) == 0
    assert alice.post("/clusters/web/actions", {"scale_out": {}}).status == 202  # the cluster is not locked


def test_webhook_on_a_locked_cluster_is_rejected(cloud: Cloud, alice: Client) -> None:
    receiver = create(alice).json["receiver"]
    assert call(cloud, receiver).status == 202
    second = call(cloud, receiver)
    assert (second.status, second.json["error"]["type"]) == (409, "ResourceIsLocked")


@pytest.mark.sqlite_only
def test_malformed_webhook_call_is_rejected(cloud: Cloud, alice: Client) -> None:
    receiver = create(alice).json["receiver"]
    anybody = clustering_client(cloud.service, None, None)
    path = f"/webhooks/{receiver['id']}/trigger"
    assert anybody.post(path).status == 400
    assert "V=2" in anybody.post(path).text
    for key in ("hook", receiver["id"][:8], UNKNOWN_ID, "%27"):  # names and short ids can be guessed
        assert anybody.ask("POST", f"/webhooks/{key}/trigger", query_string="V=2").status == 404
    for body in ([1], "x", 1):
        assert anybody.ask("POST", path, query_string="V=2", json=body).status == 400
    assert anybody.ask("POST", path, query_string="V=2", json={"params": 1}).status == 400
    assert anybody.ask("POST", path, query_string="V=2", body="{").status == 400
    assert anybody.ask("GET", path, query_string="V=2").status == 404
    assert anybody.ask("GET", "/receivers").status == 401
    assert alice.get("/actions", action="CLUSTER_SCALE_OUT").json["actions"] == []


@pytest.mark.sqlite_only
def test_receivers_are_hidden_from_readers(cloud: Cloud, alice: Client) -> None:
    create(alice)
    bob, reader = clustering_client(cloud.service, "bob:db"), alice.sending(X_Roles="reader")
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
        ({"cluster_id": UNKNOWN_ID}, f"The specified cluster '{UNKNOWN_ID}' could not be found."),
        ({"action": None}, "Action name is required for creating webhook receiver"),
        ({"action": "CLUSTER_ADD_NODES"}, "Value 'CLUSTER_ADD_NODES' is not acceptable for field 'action'."),
        ({"params": [1]}, "The value for params must be a map: '[1]'."),
        ({"more": 1}, "Additional properties are not allowed ('more' was unexpected)"),
    ],
    ids=str,
)
def test_invalid_receiver_is_rejected(alice: Client, change: dict[str, Any], message: str) -> None:
    answer = create(alice, **change) if "action" not in change else create(alice, change["action"])
    assert answer.status == 400
    assert message in answer.message
    assert alice.get("/receivers").json["receivers"] == []


@pytest.mark.sqlite_only
def test_services_are_visible_to_operators_only(cloud: Cloud) -> None:
    assert clustering_client(cloud.service, "alice:web").get("/services").status == 403

    def states() -> list[tuple[str, str]]:
        services = clustering_client(cloud.service, "admin:operators").get("/services").json["services"]
        assert {(service["binary"], service["status"]) for service in services} == {("covey-worker", "enabled")}
        return [(service["host"], service["state"]) for service in services]

    first, second = (Heartbeat(cloud.store, cloud.time, str(uuid.uuid4()), host) for host in ("a", "b"))
    first.beat()
    second.beat()
    assert states() == [("a", "up"), ("b", "up")]
    cloud.time.advance(60)
    first.beat()
    assert states() == [("a", "up"), ("b", "down")]
    cloud.time.advance(3600)
    first.beat()
    cloud.assembled.maintenance.run_if_due()
    assert states() == [("a", "up")]


@pytest.mark.sqlite_only
def test_log_does_not_hold_the_address_of_a_webhook(
    cloud: Cloud, alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[dict[str, Any]] = []

    class Recorder:
        def info(self, event: str, **fields: Any) -> None:
            lines.append({"event": event, **fields})

        error = info

    for module in (middleware, errors):
        monkeypatch.setattr(module, "log", Recorder())
    receiver = create(alice).json["receiver"]
    assert call(cloud, receiver).status == 202
    assert alice.get(f"/receivers/{receiver['id']}").status == 200
    with monkeypatch.context() as patch:
        patch.setattr(Receivers, "trigger", lambda *_: 1 / 0)
        assert call(cloud, receiver).status == 500
    assert alice.delete(f"/receivers/{receiver['id']}").status == 204
    assert call(cloud, receiver).status == 404
    assert [line["path"] for line in lines] == [
        "/v1/receivers",
        "/v1/webhooks/***/trigger",
        "/v1/receivers/***",
        *["/v1/webhooks/***/trigger"] * 2,  # the crash, and its request
        "/v1/receivers/***",
        "/v1/webhooks/***/trigger",
    ]
    assert receiver["id"] not in str([line for line in lines if line["event"] == "http.request"])
