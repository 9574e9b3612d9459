"""Requests about clusters: responses and rejections. No worker runs."""

from dataclasses import replace
from typing import Any

import pytest

from covey.model.clustering.clusters import ClusterStatus
from tests.functional.client import Answer, Client
from tests.functional.clusters import SCALING, SERVER, clustering_client
from tests.functional.finished_clusters import a_cluster, a_node, bind, finish_actions, set_server, with_profiles
from tests.functional.fleets import UNKNOWN_ID, BuildCloud, Cloud

FIELDS = {
    *("id", "name", "profile_id", "profile_name", "user", "project", "domain", "init_at", "created_at", "updated_at"),
    *("min_size", "max_size", "desired_capacity", "timeout", "status", "status_reason", "metadata", "data"),
    *("dependents", "config", "nodes", "policies"),
}
BOOLEANS = "acceptable values are: '0', '1', 'f', 'false', 'n', 'no', 'off', 'on', 't', 'true', 'y', 'yes'"


@pytest.fixture
def alice(cloud: Cloud) -> Client:
    return with_profiles(cloud)


@pytest.fixture(scope="module")
def rejected_client(module_cloud: Cloud) -> Client:
    """Return a client whose requests are all rejected."""
    return with_profiles(module_cloud)


def act(client: Client, cluster: str, name: str, data: Any = None) -> Answer:
    return client.post(f"/clusters/{cluster}/actions", {name: {} if data is None else data})


def started(client: Client, answer: Answer) -> dict[str, Any]:
    """Return the action at the location of a response."""
    assert answer.status == 202, answer.text
    location = answer.headers["location"]
    assert "/clustering/v1/actions/" in location
    action: dict[str, Any] = client.get(f"/actions/{location.rpartition('/')[2]}").json["action"]
    return action


def error_of(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.message


def test_create_returns_the_cluster_and_an_action_for_its_nodes(cloud: Cloud, alice: Client) -> None:
    body = {"name": "web", "profile_id": "server", "desired_capacity": "2", "min_size": 1, "max_size": 3}
    answer = alice.post("/clusters", {"cluster": body | {"timeout": None, "metadata": {"k": "v"}, "config": None}})
    cluster, action = answer.json["cluster"], started(alice, answer)
    assert cluster.keys() == FIELDS
    shown = {key: cluster[key] for key in ("desired_capacity", "min_size", "max_size", "timeout", "metadata", "status")}
    assert shown == {
        "desired_capacity": 2,
        "min_size": 1,
        "max_size": 3,
        "timeout": 3600,
        "metadata": {"k": "v"},
        "status": "INIT",
    }
    assert (cluster["profile_name"], cluster["project"], cluster["created_at"]) == ("server", "web", None)
    assert (action["action"], action["target"], action["status"], action["inputs"]) == (
        "CLUSTER_CREATE",
        cluster["id"],
        "READY",
        {},
    )
    for key in (cluster["id"], cluster["id"][:9], "web"):
        assert alice.get(f"/clusters/{key}").json["cluster"] == cluster
    finish_actions(cloud)
    assert alice.get("/clusters", status="ACTIVE", name="web").json["clusters"][0]["created_at"] is not None


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"profile_id": None}, "'profile_id' is a required property"),
        ({"profile_id": UNKNOWN_ID}, f"The specified profile '{UNKNOWN_ID}' could not be found."),
        (
            {"desired_capacity": 2, "min_size": 5, "max_size": 3},
            "The target capacity (2) is less than the specified min_size (5).",
        ),
        ({"desired_capacity": 4, "max_size": 3}, "The target capacity (4) is greater than the specified max_size (3)."),
        ({"max_size": -2}, "The value for the max_size field must be greater than or equal to -1."),
        ({"min_size": 1001}, "The value for the min_size field must be less than or equal to 1000."),
        ({"desired_capacity": "many"}, "The value for desired_capacity must be an integer: 'many'."),
        ({"size": 1}, "Additional properties are not allowed ('size' was unexpected)"),
        ({"name": "a b"}, "The value for name must be 1 to 255 letters, digits, '.', '_', '~' and '-': 'a b'."),
        ({"config": {"node.name.format": "$99999R"}}, None),
        ({"config": {"node.name.format": "with space"}}, None),
        ({"config": {"node.name.format": "$99R$99R$99R"}}, None),
        ({"timeout": 0}, "The value for the timeout field must be greater than or equal to 1."),
    ],
)
def test_invalid_cluster_is_rejected(rejected_client: Client, fields: dict[str, Any], message: str | None) -> None:
    answer = rejected_client.post("/clusters", {"cluster": {"name": "web", "profile_id": "server"} | fields})
    assert answer.status == 400
    assert message in {None, answer.message}
    assert rejected_client.get("/clusters").json["clusters"] == []
    assert rejected_client.get("/actions").json["actions"] == []


def test_cluster_quota_of_a_project(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(1, ("clustering", "max_clusters_per_project", 1), ("clustering", "max_nodes_per_cluster", 1))
    alice = with_profiles(cloud)
    cluster = a_cluster(cloud, alice, nodes=1)
    second = alice.post("/clusters", {"cluster": {"name": "second", "profile_id": "server"}})
    assert error_of(second) == (403, "Quota exceeded, too many clusters: the limit of a project is 1.")
    too_many = "The target capacity (2) is greater than the maximum number of nodes allowed per cluster (1)."
    node = alice.post("/nodes", {"node": {"name": "n", "profile_id": "server", "cluster_id": cluster}})
    assert error_of(node) == error_of(act(alice, cluster, "scale_out", {"count": 1})) == (400, too_many)
    a_cluster(cloud, with_profiles(cloud, "bob:db"))


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"bogus": "foo"}, "Invalid parameter 'bogus'"),
        ({"status": "['bad']"}, "Field value ['bad'] is invalid"),
        ({"sort": "profile_id"}, "Unsupported sort key 'profile_id' for 'sort'."),
        ({"marker": "x"}, "The value for marker is not a valid UUID: 'x'."),
        ({"limit": "-1"}, "Value must be >= 0 for field 'limit'."),
    ],
)
def test_invalid_list_query_is_rejected(rejected_client: Client, query: dict[str, str], message: str) -> None:
    assert error_of(rejected_client.get("/clusters", **query)) == (400, message)


def test_lists_are_sorted_paged_and_filtered(cloud: Cloud, alice: Client) -> None:
    first, second = a_cluster(cloud, alice, "b"), a_cluster(cloud, alice, "a")
    other = a_cluster(cloud, with_profiles(cloud, "bob:db"), "theirs")

    def listed(client: Client, **query: str) -> list[str]:
        return [cluster["id"] for cluster in client.get("/clusters", **query).json["clusters"]]

    assert listed(alice) == [first, second]
    assert listed(alice, sort="name") == [second, first]
    assert listed(alice, sort="name:desc", limit="1") == [first]
    assert listed(alice, sort="name:desc", marker=first, limit="5") == [second]
    assert error_of(alice.get("/clusters", global_project="True")) == (
        403,
        "You are not authorized to complete this operation.",
    )
    admin = clustering_client(cloud.service, "admin:operators")
    assert set(listed(admin)) == set(listed(admin, global_project="true")) == {first, second, other}
    assert error_of(alice.get(f"/clusters/{other}")) == (404, f"The cluster '{other}' could not be found.")
    assert error_of(act(alice, other, "check")) == (404, f"The cluster '{other}' could not be found.")
    assert alice.delete(f"/clusters/{other}").status == 404
    action = started(admin, act(admin, other, "check"))
    assert (action["project"], action["user"]) == ("db", "admin")


def test_ambiguous_name_is_rejected(cloud: Cloud, alice: Client) -> None:
    a_cluster(cloud, alice, "twin")
    a_cluster(cloud, alice, "twin")
    message = "Multiple results found matching the query criteria 'twin'. Please be more specific."
    answers = [alice.get("/clusters/twin"), alice.delete("/clusters/twin"), act(alice, "twin", "check")]
    assert {error_of(answer) for answer in answers} == {(400, message)}
    assert answers[0].json["error"]["type"] == "MultipleChoices"


@pytest.mark.sqlite_only
def test_reader_role_cannot_change_clusters(cloud: Cloud, alice: Client) -> None:
    cluster = a_cluster(cloud, alice, nodes=1)
    reader = alice.sending(X_Roles="reader")
    looks = (f"/clusters/{cluster}", f"/clusters/{cluster}/attrs/name", f"/clusters/{cluster}/policies", "/nodes")
    assert {reader.get(path).status for path in looks} == {200}
    touches = [
        reader.post("/clusters", {"cluster": {"name": "web", "profile_id": "server"}}),
        reader.patch(f"/clusters/{cluster}", {"cluster": {"name": "new"}}),
        reader.delete(f"/clusters/{cluster}"),
        act(reader, cluster, "scale_out"),
        reader.post(f"/clusters/{cluster}/ops", {"reboot": {}}),
    ]
    assert {answer.status for answer in touches} == {403}


def test_update_starts_an_action_and_returns_the_old_values(cloud: Cloud, alice: Client) -> None:
    cluster = a_cluster(cloud, alice)
    new = alice.post("/profiles", {"profile": {"name": "new", "spec": SERVER}}).json["profile"]["id"]
    body = {"name": "new-name", "profile_id": "new", "timeout": "240", "metadata": None, "config": {"a": 1}}
    answer = alice.patch(f"/clusters/{cluster}", {"cluster": body | {"profile_only": "true"}})
    assert (answer.json["cluster"]["name"], answer.json["cluster"]["timeout"]) == ("web", 3600)
    assert started(alice, answer)["inputs"] == {
        "name": "new-name",
        "profile_id": new,
        "timeout": 240,
        "config": {"a": 1},
        "profile_only": True,
    }
    finish_actions(cloud)
    old = clustering_client(cloud.service, "alice:web", "1.5").patch(
        f"/clusters/{cluster}", {"cluster": body | {"profile_only": True}}
    )
    assert started(alice, old)["inputs"] == {"name": "new-name", "profile_id": new, "timeout": 240}


@pytest.mark.sqlite_only
def test_invalid_update_is_rejected(cloud: Cloud, alice: Client) -> None:
    cluster = a_cluster(cloud, alice)

    def update(body: Any) -> tuple[int, str]:
        return error_of(alice.patch(f"/clusters/{cluster}", body))

    assert update({}) == (400, "Malformed request data, missing 'cluster' key in request body.")
    nothing = {"name": "web", "metadata": None, "timeout": 3600, "profile_id": "server", "profile_only": True}
    for fields in ({}, nothing):
        assert update({"cluster": fields}) == (400, "No property needs an update.")
    assert update({"cluster": {"profile_id": "stack"}}) == (
        400,
        "Cannot update a cluster to a different profile type, operation aborted.",
    )
    assert update({"cluster": {"profile_id": "nope"}}) == (400, "The specified profile 'nope' could not be found.")
    assert update({"cluster": {"min_size": 1}})[0] == 400
    assert error_of(alice.patch("/clusters/none", {"cluster": {"name": "x"}})) == (
        404,
        "The cluster 'none' could not be found.",
    )


def test_second_action_on_a_locked_cluster_is_rejected(cloud: Cloud, alice: Client) -> None:
    cluster = a_cluster(cloud, alice)
    assert act(alice, cluster, "scale_out", {"count": "1"}).status == 202
    again = act(alice, cluster, "scale_out", {"count": "1"})
    message = f"CLUSTER_SCALE_OUT for cluster '{cluster}' cannot be completed because it is already locked."
    assert error_of(again) == (409, message)
    assert again.json["error"]["type"] == "ResourceIsLocked"
    assert alice.patch(f"/clusters/{cluster}", {"cluster": {"name": "x"}}).status == 409
    assert alice.post("/nodes", {"node": {"name": "n", "profile_id": "server", "cluster_id": cluster}}).status == 409
    assert [action["action"] for action in alice.get("/actions", status="READY").json["actions"]] == [
        "CLUSTER_SCALE_OUT"
    ]
    gone = alice.delete(f"/clusters/{cluster}")  # the deletion cancels the other action
    assert (gone.text, started(alice, gone)["inputs"]) == ("null", {"force": False})


def test_force_deletes_a_cluster_with_an_action_in_progress(cloud: Cloud, alice: Client) -> None:
    cluster = a_cluster(cloud, alice)
    with cloud.store.write() as tx:
        found = tx.clustering.clusters.one(cluster, None)
        assert found is not None
        tx.clustering.clusters.update(replace(found, status=ClusterStatus.UPDATING))
    refused = alice.delete("/clusters/web")
    assert error_of(refused) == (409, "The cluster 'web' is in status UPDATING.")
    assert refused.json["error"]["type"] == "ActionInProgress"
    old = clustering_client(cloud.service, "alice:web", "1.7")
    assert old.delete("/clusters/web?force=true").status == 409
    forced = alice.ask("DELETE", "/clusters/web", json={"force": True})
    assert started(alice, forced)["inputs"] == {"force": True}
    finish_actions(cloud)
    assert started(alice, alice.ask("DELETE", "/clusters/web", query_string="force=true"))["inputs"] == {"force": True}


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "No action specified"),
        ({"resize": {}, "check": {}}, "Multiple actions specified"),
        ({"bogus": {}}, "Unrecognized action 'bogus' specified"),
        ({"check": ["a"]}, "The data provided is not a map"),
        ({"scale_out": {"count": "bad"}}, "The value for count must be an integer: 'bad'."),
        ({"scale_in": {"count": -1}}, "Value must be >= 0 for field 'count'."),
        ({"resize": {"number": 5}}, "Missing adjustment_type value for size adjustment."),
        ({"resize": {"adjustment_type": "EXACT_CAPACITY"}}, "Missing number value for size adjustment."),
        (
            {"resize": {"adjustment_type": "bogus", "number": 5}},
            "Value 'bogus' is not acceptable for field 'adjustment_type'.",
        ),
        (
            {"resize": {"min_size": 20, "max_size": 10}},
            "The specified min_size (20) is greater than the specified max_size (10).",
        ),
        ({"resize": {"min_size": 1, "strict": "perhaps"}}, f"Unrecognized value 'perhaps', {BOOLEANS}"),
        ({"add_nodes": {}}, "Value for 'nodes' must have at least 1 item(s)."),
        ({"del_nodes": {"nodes": []}}, "Value for 'nodes' must have at least 1 item(s)."),
        ({"add_nodes": {"nodes": "node"}}, "Items for 'nodes' must be unique"),
        ({"add_nodes": {"nodes": ["a", "a"]}}, "Items for 'nodes' must be unique"),
        ({"add_nodes": {"nodes": [{}]}}, "The value for nodes must be text, or a list of texts."),
        ({"del_nodes": {"nodes": ["a"], "destroy_after_deletion": "x"}}, f"Unrecognized value 'x', {BOOLEANS}"),
        ({"replace_nodes": {"nodes": []}}, "The data provided is not a map"),
        ({"replace_nodes": {"nodes": {"a": None}}}, "Field `nodes[a]' cannot be None"),
        ({"replace_nodes": {"nodes": {"a": "c", "b": "c"}}}, "Map contains duplicated values"),
        ({"policy_attach": "POLICY"}, "The data provided is not a map"),
        ({"policy_attach": {}}, "'policy_id' is a required property"),
        ({"policy_detach": {"policy_id": "p", "x": 1}}, "Additional properties are not allowed ('x' was unexpected)"),
        ({"policy_update": {"policy_id": "p", "enabled": "no?"}}, f"Unrecognized value 'no?', {BOOLEANS}"),
        ({"complete_lifecycle": {}}, "'lifecycle_action_token' is a required property"),
    ],
)
def test_action_body_is_validated_before_the_cluster_lookup(rejected_client: Client, body: Any, message: str) -> None:
    assert error_of(rejected_client.post("/clusters/none/actions", body)) == (400, message)


@pytest.mark.sqlite_only
def test_older_versions_reject_newer_requests(module_cloud: Cloud) -> None:
    def at(version: str) -> Client:
        return clustering_client(module_cloud.service, "alice:web", version)

    answers = {
        "1.1": at("1.1").get("/clusters/none/attrs/name"),
        "1.2": act(at("1.2"), "none", "replace_nodes", {"nodes": {"a": "b"}}),
        "1.3": at("1.3").post("/clusters/none/ops", {"reboot": {}}),
        "1.8": act(at("1.8"), "none", "complete_lifecycle", {"lifecycle_action_token": "x"}),
    }
    for version, answer in answers.items():
        assert error_of(answer) == (400, f"API version '{version}' is not supported on this method.")
        assert answer.json["error"]["type"] == "MethodVersionNotFound"


@pytest.mark.sqlite_only
def test_scaling_and_resize_parameters_are_validated_at_once(cloud: Cloud, alice: Client) -> None:
    cluster = a_cluster(cloud, alice, nodes=3, min_size=2, max_size=5, desired_capacity=3)
    assert error_of(act(alice, cluster, "scale_out", {"count": 0})) == (400, "Count for scale-out request cannot be 0.")
    too_many = {"adjustment_type": "CHANGE_IN_CAPACITY", "number": "3"}
    assert error_of(act(alice, cluster, "resize", too_many)) == (
        400,
        "The target capacity (6) is greater than the cluster's max_size (5).",
    )
    assert error_of(act(alice, cluster, "resize", {"max_size": 1, "strict": False})) == (
        400,
        "The specified max_size (1) is less than the current min_size (2) of the cluster.",
    )
    plan_resize = started(alice, act(alice, cluster, "resize", too_many | {"strict": False, "min_size": None}))
    assert plan_resize["inputs"] == {"adjustment_type": "CHANGE_IN_CAPACITY", "number": 3, "strict": False}
    finish_actions(cloud)
    # The action checks the cluster's own bounds.
    assert started(alice, act(alice, cluster, "scale_out", {"count": "9"}))["inputs"] == {"count": 9}
    finish_actions(cloud)
    assert started(alice, act(alice, cluster, "scale_in", {"count": None}))["inputs"] == {}


def test_cooldown_rejects_a_scaling_request(cloud: Cloud, alice: Client) -> None:
    cluster = a_cluster(cloud, alice, nodes=1)
    spec = SCALING | {"properties": {"event": "CLUSTER_SCALE_IN", "adjustment": {"cooldown": 60}}}
    policy = alice.post("/policies", {"policy": {"name": "slow", "spec": spec}}).json["policy"]["id"]
    bind(cloud, cluster, policy)
    refused = act(alice, cluster, "scale_in")
    in_progress = f"cannot be processed due to Policy {policy} cooldown still in progress"
    assert error_of(refused) == (409, f"The CLUSTER_SCALE_IN action for cluster {cluster} {in_progress}")
    assert refused.json["error"]["type"] == "ActionCooldown"
    assert act(alice, cluster, "scale_out").status == 202  # the policy is for another event
    finish_actions(cloud)
    cloud.time.advance(61)
    assert act(alice, cluster, "scale_in").status == 202


@pytest.mark.sqlite_only
def test_adding_removing_and_replacing_nodes_is_validated(cloud: Cloud, alice: Client) -> None:
    cluster = a_cluster(cloud, alice, nodes=1, min_size=1, desired_capacity=1, max_size=2)
    other = a_cluster(cloud, alice, "other", nodes=1)
    (member,) = alice.get(f"/clusters/{cluster}").json["cluster"]["nodes"]
    (theirs,) = alice.get(f"/clusters/{other}").json["cluster"]["nodes"]
    free, spare = a_node(cloud, alice, "free"), a_node(cloud, alice, "spare")
    stack = a_node(cloud, alice, "st", "stack")
    bobs = a_node(cloud, with_profiles(cloud, "bob:db"), "bobs")

    def refused(name: str, nodes: Any) -> str:
        answer = act(alice, cluster, name, {"nodes": nodes})
        assert answer.status == 400
        return answer.message

    assert refused("add_nodes", [free, UNKNOWN_ID, bobs]) == f"Nodes not found: ['{UNKNOWN_ID}', '{bobs}']."
    assert refused("add_nodes", [theirs]) == f"Nodes ['{theirs}'] already owned by some cluster."
    assert refused("add_nodes", [stack]) == f"Profile type of nodes ['{stack}'] does not match that of the cluster."
    assert refused("add_nodes", [free, "free"]) == "Items for 'nodes' must be unique"
    assert refused("add_nodes", [free, spare]) == "The target capacity (3) is greater than the cluster's max_size (2)."
    assert refused("del_nodes", [UNKNOWN_ID]) == f"Nodes not found: ['{UNKNOWN_ID}']."
    assert refused("del_nodes", [theirs, free]) == f"Nodes not members of specified cluster: ['{theirs}', '{free}']."
    assert refused("del_nodes", [member]) == "The target capacity (0) is less than the cluster's min_size (1)."
    assert refused("replace_nodes", {"old": free}) == "Original nodes not found: ['old']."
    assert refused("replace_nodes", {member: "new"}) == "Replacement nodes not found: ['new']."
    assert refused("replace_nodes", {member: theirs}) == f"Nodes ['{theirs}'] already member of a cluster."
    assert "do not match that of the cluster" in refused("replace_nodes", {member: stack})
    assert "to be replaced are not members of the cluster" in refused("replace_nodes", {spare: free})

    assert started(alice, act(alice, cluster, "add_nodes", {"nodes": ["free"]}))["inputs"] == {"nodes": [free]}
    finish_actions(cloud)
    replaced = act(alice, cluster, "replace_nodes", {"nodes": {member: "spare"}})
    assert started(alice, replaced)["inputs"] == {"candidates": {member: spare}}
    finish_actions(cloud)
    deleted = act(alice, other, "del_nodes", {"nodes": [theirs], "destroy_after_deletion": "yes"})
    assert started(alice, deleted)["inputs"] == {"candidates": [theirs], "destroy_after_deletion": True}


def test_only_active_nodes_can_be_added(cloud: Cloud, alice: Client) -> None:
    cluster = a_cluster(cloud, alice)
    made = alice.post("/nodes", {"node": {"name": "n", "profile_id": "server"}}).json["node"]["id"]
    answer = act(alice, cluster, "add_nodes", {"nodes": ["n"]})
    assert error_of(answer) == (400, f"Nodes are not ACTIVE: ['{made}'].")


def test_bindings_of_a_cluster(cloud: Cloud, alice: Client) -> None:
    cluster = a_cluster(cloud, alice)
    policy = alice.post("/policies", {"policy": {"name": "in", "spec": SCALING}}).json["policy"]["id"]
    for name in ("policy_detach", "policy_update"):
        assert error_of(act(alice, cluster, name, {"policy_id": "in"})) == (
            400,
            f"The policy 'in' is not attached to the specified cluster '{cluster}'.",
        )
    assert error_of(act(alice, cluster, "policy_attach", {"policy_id": "nope"})) == (
        400,
        "The specified policy 'nope' could not be found.",
    )
    attached = started(alice, act(alice, cluster, "policy_attach", {"policy_id": "in"}))
    assert (attached["name"], attached["inputs"]) == (
        f"attach_policy_{cluster[:8]}",
        {"policy_id": policy, "enabled": True},
    )
    finish_actions(cloud)
    missing = alice.get("/clusters/web/policies/in")
    assert error_of(missing) == (404, "The policy 'in' is not found attached to the specified cluster 'web'.")
    assert missing.json["error"]["type"] == "PolicyBindingNotFound"
    assert error_of(alice.get("/clusters/web/policies/nope")) == (404, "The policy 'nope' could not be found.")

    binding = bind(cloud, cluster, policy, enabled=False)
    assert alice.get("/clusters/web").json["cluster"]["policies"] == [binding]
    shown = alice.get("/clusters/web/policies/in").json["cluster_policy"]
    assert shown["last_op"].endswith("Z")
    assert {key: value for key, value in shown.items() if key != "last_op"} == {
        "id": binding,
        "cluster_id": cluster,
        "cluster_name": "web",
        "policy_id": policy,
        "policy_name": "in",
        "policy_type": "senlin.policy.scaling-1.0",
        "enabled": False,
        "priority": 100,
        "data": {},
    }
    assert alice.get("/clusters/web/policies", sort="enabled:desc").json["cluster_policies"] == [shown]
    assert alice.get("/clusters/web/policies", enabled="True").json["cluster_policies"] == []
    assert alice.get("/clusters/web/policies", policy_name="out").json["cluster_policies"] == []
    for query, message in (
        ({"limit": "1"}, "Invalid parameter limit"),
        ({"sort": "priority"}, "Unsupported sort key 'priority' for 'sort'."),
        ({"enabled": "maybe"}, "Invalid value 'maybe' specified for 'enabled'"),
    ):
        assert error_of(alice.get("/clusters/none/policies", **query)) == (400, message)

    updated = act(alice, cluster, "policy_update", {"policy_id": policy, "enabled": "true"})
    assert started(alice, updated)["inputs"] == {"policy_id": policy, "enabled": True}
    finish_actions(cloud)
    assert started(alice, act(alice, cluster, "policy_detach", {"policy_id": "in"}))["inputs"] == {"policy_id": policy}


def test_check_recover_and_operation_requests(cloud: Cloud, alice: Client) -> None:
    cluster = a_cluster(cloud, alice, nodes=2)
    members = alice.get("/clusters/web").json["cluster"]["nodes"]
    assert started(alice, act(alice, cluster, "check", {"k": "v"}))["inputs"] == {"k": "v"}
    finish_actions(cloud)
    assert error_of(act(alice, cluster, "recover", {"k": "v"})) == (400, "Action parameter ['k'] is not recognizable.")
    assert error_of(act(alice, cluster, "recover", {"operation": "pray"})) == (
        400,
        "Operation value 'pray' has to be one of the following: REBOOT, REBUILD, RECREATE.",
    )
    recovered = act(alice, cluster, "recover", {"operation": "rebuild", "check": "1", "operation_params": None})
    assert started(alice, recovered)["inputs"] == {"operation": "REBUILD", "check": True}
    finish_actions(cloud)

    def operate(body: Any) -> Answer:
        return alice.post("/clusters/web/ops", body)

    assert error_of(operate({})) == (400, "No operation specified")
    assert error_of(operate({"dance": {}})) == (
        400,
        "The requested operation 'dance' is not supported by the profile type 'os.nova.server-1.0'.",
    )
    assert error_of(operate({"reboot": {"params": {"type": "Odd"}}})) == (
        400,
        "'Odd' must be one of the allowed values: SOFT, HARD.",
    )
    assert operate({"reboot": {"filters": {"host": "x"}}}).status == 400
    assert operate({"reboot": {"filters": {"role": "none-such"}}}).status == 400
    done = operate({"reboot": {"params": {"type": "HARD"}, "filters": {"status": "ACTIVE", "profile_id": "server"}}})
    assert started(alice, done)["inputs"] == {"operation": "reboot", "params": {"type": "HARD"}, "nodes": members}


def test_complete_lifecycle_returns_the_action(cloud: Cloud, alice: Client) -> None:
    cluster = a_cluster(cloud, alice)
    (action,) = alice.get("/actions").json["actions"]
    answer = act(alice, cluster, "complete_lifecycle", {"lifecycle_action_token": action["id"]})
    assert (answer.json, started(alice, answer)["id"]) == ({"action": action["id"]}, action["id"])
    assert act(alice, cluster, "complete_lifecycle", {"lifecycle_action_token": UNKNOWN_ID}).status == 404
    assert len(alice.get("/actions").json["actions"]) == 1


def test_attribute_of_all_nodes_is_collected(cloud: Cloud, alice: Client) -> None:
    cluster = a_cluster(cloud, alice, nodes=2, config={"node.name.format": "N$2I"})
    server = cloud.boot(metadata={"a key": "v"})
    first, second = alice.get("/clusters/web").json["cluster"]["nodes"]
    set_server(cloud, first, server)

    def collect(path: str) -> Answer:
        return alice.get(f"/clusters/{cluster}/attrs/{path}")

    def values(path: str) -> list[tuple[str, Any]]:
        return [(found["id"], found["value"]) for found in collect(path).json["cluster_attributes"]]

    assert values("name") == values("$.name") == [(first, "N01"), (second, "N02")]
    assert values("details.status") == [(first, "ACTIVE")]
    assert values("details.metadata['a key']") == [(first, "v")]
    assert values("details.attached_volumes[0]") == values("nothing.here") == []
    for path in ("None", "%20"):
        assert error_of(collect(path)) == (400, "Required path attribute is missing.")
    for path in ("a..b", "a[x]", "["):
        assert collect(path).status == 400
    assert alice.get("/clusters/none/attrs/name").status == 404
