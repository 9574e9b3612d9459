"""Requests about nodes. No worker runs."""

from dataclasses import replace
from typing import Any

import pytest

from covey.model.clustering.clusters import NodeStatus
from tests.functional.client import Answer, Client
from tests.functional.clusters import SERVER, clustering_client
from tests.functional.finished_clusters import a_cluster, a_node, finish_actions, set_server, with_profiles
from tests.functional.fleets import UNKNOWN_ID, Cloud

FIELDS = {
    *("id", "name", "cluster_id", "physical_id", "profile_id", "profile_name", "user", "project", "domain", "index"),
    *("role", "init_at", "created_at", "updated_at", "status", "status_reason", "data", "metadata", "dependents"),
}


@pytest.fixture
def alice(cloud: Cloud) -> Client:
    return with_profiles(cloud)


def create(client: Client, **fields: Any) -> Answer:
    return client.post("/nodes", {"node": {"name": "n", "profile_id": "server"} | fields})


def started(client: Client, answer: Answer) -> dict[str, Any]:
    """Return the action at the location of a response."""
    assert answer.status == 202, answer.text
    action = answer.headers["location"].rpartition("/v1/actions/")[2]
    shown: dict[str, Any] = client.get(f"/actions/{action}").json["action"]
    return shown


def error_of(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.message


def test_orphan_node_is_created_and_shown(alice: Client) -> None:
    answer = create(alice, role="db", metadata={"k": "v"}, cluster_id=None)
    node, action = answer.json["node"], started(alice, answer)
    assert node.keys() == FIELDS | {"tainted"}
    assert (node["name"], node["cluster_id"], node["index"], node["role"], node["status"]) == (
        "n",
        "",
        -1,
        "db",
        "INIT",
    )
    assert (action["action"], action["target"], action["cluster_id"], action["timeout"]) == (
        "NODE_CREATE",
        node["id"],
        "",
        3600,
    )
    for key in (node["id"], node["id"][:9], "n"):
        assert alice.get(f"/nodes/{key}").json["node"] == node


def test_cluster_names_and_numbers_its_members(cloud: Cloud, alice: Client) -> None:
    cluster = a_cluster(cloud, alice, config={"node.name.format": "web-$3I-$4r"}, timeout=77)
    first, second = (
        create(alice, cluster_id="web"),
        create(alice, cluster_id=cluster),
    )  # node creations do not lock the cluster
    assert [(got.json["node"]["index"], got.json["node"]["name"][:8]) for got in (first, second)] == [
        (1, "web-001-"),
        (2, "web-002-"),
    ]
    assert (first.json["node"]["cluster_id"], started(alice, first)["timeout"]) == (cluster, 77)
    nodes = [first.json["node"]["id"], second.json["node"]["id"]]
    assert alice.get("/clusters/web").json["cluster"]["nodes"] == nodes
    locked = alice.post("/clusters/web/actions", {"check": {}})
    assert error_of(locked)[0] == 409
    finish_actions(cloud)
    plain = create(alice, cluster_id=a_cluster(cloud, alice, "plain")).json["node"]["name"]
    assert (plain[:5], len(plain)) == ("node-", 13)


@pytest.mark.sqlite_only
def test_invalid_node_is_rejected(cloud: Cloud, alice: Client) -> None:
    a_cluster(cloud, alice)
    a_cluster(cloud, with_profiles(cloud, "bob:db"), "theirs")
    for fields, message in (
        ({"profile_id": UNKNOWN_ID}, f"The specified profile '{UNKNOWN_ID}' could not be found."),
        ({"cluster_id": "theirs"}, "The specified cluster 'theirs' could not be found."),
        (
            {"cluster_id": "web", "profile_id": "stack"},
            "Node and cluster have different profile type, operation aborted.",
        ),
        ({"boo": 1}, "Additional properties are not allowed ('boo' was unexpected)"),
        ({"name": None}, "'name' is a required property"),
        ({"metadata": "x"}, "The value for metadata must be a map: 'x'."),
    ):
        assert error_of(create(alice, **fields)) == (400, message)
    assert error_of(alice.post("/nodes", {})) == (400, "Request body missing 'node' key.")
    assert alice.get("/nodes").json["nodes"] == []


def test_nodes_are_listed_and_filtered(cloud: Cloud, alice: Client) -> None:
    a_cluster(cloud, alice, nodes=2)
    orphan = a_node(cloud, alice, "orphan")
    members = alice.get("/clusters/web").json["cluster"]["nodes"]

    def listed(client: Client = alice, **query: str) -> list[str]:
        return [node["id"] for node in client.get("/nodes", **query).json["nodes"]]

    assert listed() == [*members, orphan]
    assert listed(cluster_id="web", sort="index:desc") == members[::-1]
    assert listed(name="orphan", status="ACTIVE") == [orphan]
    assert listed(limit="1", marker=members[0]) == [members[1]]
    assert listed(clustering_client(cloud.service, "bob:db")) == []
    assert len(listed(clustering_client(cloud.service, "admin:operators"))) == 3
    for query, message in (
        ({"bogus": "x"}, "Invalid parameter bogus"),
        ({"cluster_id": "fake"}, "Cannot find the given cluster: fake."),
        ({"status": "['bad-status']"}, "Field value ['bad-status'] is invalid"),
        ({"sort": "cluster_id"}, "Unsupported sort key 'cluster_id' for 'sort'."),
    ):
        assert error_of(alice.get("/nodes", **query)) == (400, message)
    assert alice.get("/nodes", global_project="true").status == 403


@pytest.mark.sqlite_only
def test_tainted_is_available_since_1_13(cloud: Cloud, alice: Client) -> None:
    a_node(cloud, alice)
    old = clustering_client(cloud.service, "alice:web", "1.12")
    assert old.get("/nodes/n").json["node"].keys() == old.get("/nodes").json["nodes"][0].keys() == FIELDS
    assert error_of(old.patch("/nodes/n", {"node": {"tainted": True}})) == (400, "No property needs an update.")
    answer = alice.patch("/nodes/n", {"node": {"tainted": "true"}})
    assert (answer.json["node"]["tainted"], started(alice, answer)["inputs"]) == (False, {"tainted": True})


def test_node_updates(cloud: Cloud, alice: Client) -> None:
    node = a_node(cloud, alice, metadata={"k": "v"})
    new = alice.post("/profiles", {"profile": {"name": "new", "spec": SERVER}}).json["profile"]["id"]
    body = {"name": "new-name", "role": "x", "metadata": {}, "profile_id": "new"}
    answer = alice.patch("/nodes/n", {"node": body})
    assert answer.json["node"]["name"] == "n"
    assert started(alice, answer)["inputs"] == body | {"profile_id": new}
    assert error_of(alice.patch("/nodes/n", {"node": {"role": "y"}})) == (
        409,
        f"NODE_UPDATE for node '{node}' cannot be completed because it is already locked.",
    )
    finish_actions(cloud)
    for fields, message in (
        ({"profile_id": "stack"}, "Cannot update a node to a different profile type, operation aborted."),
        ({"profile_id": "nope"}, "The specified profile 'nope' could not be found."),
        ({"name": "n", "role": None}, "No property needs an update."),
    ):
        assert error_of(alice.patch("/nodes/n", {"node": fields})) == (400, message)
    assert error_of(alice.patch("/nodes/none", {"node": {"name": "x"}})) == (404, "The node 'none' could not be found.")


def test_node_deletions(cloud: Cloud, alice: Client) -> None:
    node = a_node(cloud, alice)
    with cloud.store.write() as tx:
        found = tx.clustering.nodes.by_ids([node])
        tx.clustering.nodes.update([replace(found[0], status=NodeStatus.RECOVERING)])
    assert error_of(alice.delete("/nodes/n")) == (409, "The node 'n' is in status RECOVERING.")
    assert (
        alice.ask("DELETE", "/nodes/n", query_string="force=true").status == 409
    )  # only clusters have it in the query
    gone = alice.ask("DELETE", "/nodes/n", json={"force": True})
    assert (gone.text, started(alice, gone)["inputs"]) == ("null", {"force": True})
    finish_actions(cloud)
    assert started(alice, alice.delete("/nodes/n"))["inputs"] == {}
    assert clustering_client(cloud.service, "bob:db").delete(f"/nodes/{node}").status == 404


def test_node_actions_and_operations(cloud: Cloud, alice: Client) -> None:
    a_node(cloud, alice)

    def act(body: Any, path: str = "actions", key: str = "n") -> Answer:
        return alice.post(f"/nodes/{key}/{path}", body)

    for body, message in (
        ({}, "No action specified."),
        ({"check": {}, "recover": {}}, "Multiple actions specified."),
        ({"bogus": {}}, "Unrecognized action 'bogus' specified"),
        ({"check": []}, "The params provided is not a map."),
        (
            {"recover": {"operation": "x"}},
            "Operation value 'x' has to be one of the following: REBOOT, REBUILD, RECREATE.",
        ),
        ({"recover": {"odd": "x"}}, "Action parameter ['odd'] is not recognizable."),
    ):
        assert error_of(act(body)) == (400, message)
    for body, message in (
        ({}, "No operation specified."),
        ({"a": {}, "b": {}}, "Multiple operations specified."),
        ({"dance": {}}, "The requested operation 'dance' is not supported by the profile type 'os.nova.server-1.0'."),
        ({"reboot": {"type": "Unknown"}}, "'Unknown' must be one of the allowed values: SOFT, HARD."),
    ):
        assert error_of(act(body, "ops")) == (400, message)
    assert error_of(act({"check": {}}, key="none")) == (404, "The node 'none' could not be found.")
    assert error_of(clustering_client(cloud.service, "alice:web", "1.3").post("/nodes/n/ops", {"reboot": {}})) == (
        400,
        "API version '1.3' is not supported on this method.",
    )

    assert started(alice, act({"check": {}}))["action"] == "NODE_CHECK"
    finish_actions(cloud)
    recovery = {"operation": "recreate", "delete_timeout": "5", "force_recreate": "no", "check": None}
    inputs = started(alice, act({"recover": recovery}))["inputs"]
    assert inputs == {"operation": "RECREATE", "delete_timeout": 5, "force_recreate": False}
    # An operation waits for the lock.
    assert started(alice, act({"reboot": {"type": "HARD"}}, "ops"))["inputs"] == {
        "operation": "reboot",
        "params": {"type": "HARD"},
    }


def test_details_match_the_compute_api_for_the_caller(cloud: Cloud, alice: Client) -> None:
    node = a_node(cloud, alice)
    assert alice.get("/nodes/n", show_details="True").json["node"]["details"] == {}
    server = cloud.boot(cloud.alice, "s1")
    set_server(cloud, node, server)
    shown = alice.get("/nodes/n", show_details="true").json["node"]
    assert (shown["physical_id"], shown["details"]["id"], shown["details"]["flavor"]) == (server, server, "small")
    assert (shown["details"]["status"], shown["details"]["security_groups"]) == ("ACTIVE", "default")
    assert not any("host" in key for key in shown["details"] if key != "hostId")
    assert "node-" not in str(shown["details"])
    operator = clustering_client(cloud.service, "admin:operators").get(f"/nodes/{node}", show_details="1").json["node"]
    assert operator["details"]["OS-EXT-SRV-ATTR:host"] == cloud.host(server)
    assert "details" not in alice.get("/nodes/n", show_details="no").json["node"]
    assert error_of(alice.get("/nodes/n", show_details="x")) == (400, "Invalid value 'x' specified for 'show_details'")
