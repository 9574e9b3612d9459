"""Requests about policies."""

from typing import Any

import pytest

from covey.model.clustering.clusters import Cluster
from covey.model.clustering.owners import Owner
from covey.model.clustering.specs import Binding
from covey.model.ids import ProjectId, UserId
from covey.storage.store import Store
from tests.build import NOW
from tests.functional.client import Answer, Client, Service
from tests.functional.clusters import SCALING, SERVER, clustering_client, policy
from tests.functional.conftest import AddHosts


@pytest.fixture
def alice(service: Service) -> Client:
    return clustering_client(service, "alice:web")


def create(client: Client, spec: Any = SCALING, name: str = "in") -> Answer:
    return client.post("/policies", {"policy": {"name": name, "spec": spec}})


def names(answer: Answer) -> list[str]:
    return [found["name"] for found in answer.json["policies"]]


def test_policy_life_cycle(service: Service, alice: Client) -> None:
    created = create(alice)
    made = created.json["policy"]
    assert created.status == 201
    assert (made["type"], made["spec"], made["data"]) == ("senlin.policy.scaling-1.0", SCALING, {})
    assert (made["user"], made["project"], made["updated_at"]) == ("alice", "web", None)
    assert alice.get("/policies/in").json["policy"] == made
    assert names(alice.get("/policies", type="senlin.policy.scaling-1.0")) == ["in"]

    changed = alice.patch("/policies/in", {"policy": {"name": "out"}})
    assert (changed.status, changed.json["policy"]["name"]) == (200, "out")
    for body, message in (
        ({}, "'name' is a required property"),
        ({"name": "out"}, "No property needs an update."),
    ):
        answer = alice.patch("/policies/out", {"policy": body})
        assert (answer.status, answer.message) == (400, message)
    assert clustering_client(service, "bob:db").delete("/policies/out").status == 404

    assert alice.delete("/policies/out").status == 204
    answer = alice.delete("/policies/out")
    assert (answer.status, answer.message) == (404, "The policy 'out' could not be found.")


def test_validation_stores_nothing_and_skips_zones(alice: Client) -> None:
    answer = alice.post("/policies/validate", {"policy": {"spec": policy("affinity", availability_zone="nowhere")}})
    found = answer.json["policy"]
    assert (answer.status, found["id"], found["name"], found["data"]) == (200, None, "validated_policy", {})
    assert names(alice.get("/policies")) == []


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    "spec",
    [
        policy("affinity"),
        policy("affinity", servergroup={"policies": "soft-affinity", "name": ""}, enable_drs_extension="yes"),
        policy("affinity", "1.1", servergroup={"policies": "anti-affinity"}),
        policy(
            "affinity", "1.1", servergroup={"policies": ["anti-affinity:host"], "rules": {"max_server_per_host": 2}}
        ),
        policy("deletion", criteria="OLDEST_FIRST"),
        policy("deletion", "1.1", grace_period="60"),
        policy("scaling", event="CLUSTER_SCALE_OUT") | {"description": "grow"},
        policy("zone_placement", zones=[{"name": "nova"}]),
        policy("affinity", availability_zone="nova"),
    ],
    ids=str,
)
def test_each_policy_type_can_be_created(alice: Client, add_hosts: AddHosts, spec: dict[str, Any]) -> None:
    add_hosts("node-1")  # in the default zone
    created = create(alice, spec)
    assert (created.status, created.json["policy"]["spec"]) == (201, spec)


BOTH = {"policies": ["affinity", "anti-affinity"]}
LIMIT = {"policies": "soft-anti-affinity", "rules": {"max_server_per_host": 2}}


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("spec", "status", "message"),
    [
        (policy("bogus"), 404, "The policy_type 'senlin.policy.bogus-1.0' could not be found."),
        (policy("scaling", bogus=1, event="CLUSTER_SCALE_IN"), 400, "Unrecognizable spec item 'bogus'"),
        (policy("scaling"), 400, "Required spec item 'event' not provided"),
        ({"type": "senlin.policy.scaling", "version": "1.0"}, 400, "Required spec item 'properties' not provided"),
        (policy("affinity", servergroup=None), 400, "'None' is not a Map"),
        (policy("affinity", enable_drs_extension="x"), 400, "The value 'x' is not a valid Boolean"),
        (
            policy("affinity", servergroup={"policies": "x"}),
            400,
            "'x' must be one of the allowed values: affinity, soft-affinity, anti-affinity, soft-anti-affinity",
        ),
        (
            policy("affinity", servergroup={"policies": ["affinity"]}),
            400,
            "The value '['affinity']' is not a valid String",
        ),
        (policy("affinity", servergroup={"rules": {}}), 400, "Unrecognizable spec item 'rules'"),
        (policy("deletion", "1.1", hooks={}), 400, "Unrecognizable spec item 'hooks'"),
        (policy("zone_placement", zones=[]), 400, "'[]' must have at least 1 item"),
        (
            policy("zone_placement", zones=[{"name": "x"}]),
            400,
            "The specified availability_zone 'x' could not be found.",
        ),
        (policy("affinity", availability_zone="x"), 400, "The specified availability_zone 'x' could not be found."),
        (
            policy("affinity", "1.1", servergroup={"policies": "anti-affinity:rack"}),
            400,
            "servergroup: Policy scope 'rack' does not exist.",
        ),
        (
            policy("affinity", "1.1", servergroup=BOTH),
            400,
            "servergroup: The policies affinity and anti-affinity contradict each other; keep one.",
        ),
        (policy("affinity", "1.1", servergroup=LIMIT), 400, "servergroup: Only anti-affinity policy supports rules."),
        (
            policy("affinity", "1.1", servergroup={"rules": {"max_server_per_host": 0}}),
            400,
            "The value '0' must be 1 or more",
        ),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_invalid_policy_spec_is_rejected(
    module_service: Service, spec: dict[str, Any], status: int, message: str
) -> None:
    alice = clustering_client(module_service, "alice:web")
    answer = create(alice, spec)
    assert (answer.status, answer.message) == (status, message)
    assert names(alice.get("/policies")) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "p"}, "'spec' is a required property"),
        ({"spec": SCALING}, "'name' is a required property"),
        ({"name": "p", "spec": SCALING, "x": 1}, "Additional properties are not allowed ('x' was unexpected)"),
    ],
)
def test_policy_needs_a_name_and_a_spec(module_service: Service, given: dict[str, Any], message: str) -> None:
    answer = clustering_client(module_service, "alice:web").post("/policies", {"policy": given})
    assert (answer.status, answer.message) == (400, message)


def test_attached_policy_cannot_be_deleted(alice: Client, store: Store) -> None:
    made = create(alice).json["policy"]["id"]
    profile = alice.post("/profiles", {"profile": {"name": "p", "spec": SERVER}}).json["profile"]["id"]
    with store.write() as tx:
        tx.clustering.clusters.add(Cluster("c" * 36, "c", profile, Owner(UserId("alice"), ProjectId("web")), NOW))
        found = tx.clustering.policies.one(made, None)
        assert found is not None
        tx.clustering.bindings.add(Binding("b" * 36, "c" * 36, found, 100, enabled=True, data={}))
    answer = alice.delete("/policies/in")
    message = f"The policy '{made}' cannot be deleted: still attached to some clusters."
    assert (answer.status, answer.message, answer.json["error"]["type"]) == (409, message, "ResourceInUse")
