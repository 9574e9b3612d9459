"""Requests about profiles."""

from typing import Any

import pytest

from covey.model.clustering.clusters import Cluster
from covey.model.clustering.owners import Owner
from covey.model.ids import ProjectId, UserId
from covey.storage.store import Store
from tests.build import NOW
from tests.functional.client import Answer, Client, Service
from tests.functional.clusters import SERVER, STACK, clustering_client
from tests.functional.fleets import UNKNOWN_ID


@pytest.fixture
def alice(service: Service) -> Client:
    return clustering_client(service, "alice:web")


def create(client: Client, name: str = "web", spec: Any = SERVER, **more: Any) -> Answer:
    return client.post("/profiles", {"profile": {"name": name, "spec": spec, **more}})


def names(answer: Answer) -> list[str]:
    return [profile["name"] for profile in answer.json["profiles"]]


def test_profile_life_cycle(alice: Client) -> None:
    created = create(alice, metadata={"tier": 1})
    profile = created.json["profile"]
    assert created.status == 201
    assert (profile["type"], profile["spec"], profile["metadata"]) == ("os.nova.server-1.0", SERVER, {"tier": 1})
    assert (profile["user"], profile["project"], profile["domain"]) == ("alice", "web", None)
    assert profile["created_at"].endswith("Z")
    assert profile["updated_at"] is None
    for key in (profile["id"], profile["id"][:10], "web"):
        assert alice.get(f"/profiles/{key}").json["profile"] == profile

    changed = alice.patch("/profiles/web", {"profile": {"name": "shop", "metadata": None}})
    assert (changed.status, changed.json["profile"]["name"], changed.json["profile"]["metadata"]) == (
        200,
        "shop",
        {"tier": 1},
    )
    assert alice.get("/profiles/shop").json["profile"]["updated_at"] is not None

    gone = alice.delete("/profiles/shop")
    assert (gone.status, gone.text) == (204, "")
    assert alice.get(f"/profiles/{profile['id']}").status == 404


def test_other_profile_types_are_stored(alice: Client) -> None:
    assert create(alice, spec=STACK).json["profile"]["type"] == "os.heat.stack-1.0"


def test_validated_profile_is_not_stored(alice: Client) -> None:
    answer = alice.post("/profiles/validate", {"profile": {"spec": SERVER}})
    profile = answer.json["profile"]
    assert (answer.status, profile["id"], profile["name"], profile["created_at"]) == (
        200,
        None,
        "validated_profile",
        None,
    )
    assert names(alice.get("/profiles")) == []


@pytest.mark.sqlite_only
@pytest.mark.parametrize("path", ["profiles", "policies"])
def test_validation_is_available_since_1_2(service: Service, path: str) -> None:
    answer = clustering_client(service, "alice:web", "1.1").post(f"/{path}/validate", {})
    assert (answer.status, answer.message) == (400, "API version '1.1' is not supported on this method.")


def test_profiles_are_visible_to_their_project_and_administrators(service: Service, alice: Client) -> None:
    bob, admin = clustering_client(service, "bob:db"), clustering_client(service, "admin:operators")
    create(alice, "hers")
    create(bob, "his")
    assert names(alice.get("/profiles", global_project="False")) == ["hers"]
    assert sorted(names(admin.get("/profiles"))) == sorted(names(admin.get("/profiles", global_project="yes")))
    assert sorted(names(admin.get("/profiles"))) == ["hers", "his"]
    refused = alice.get("/profiles", global_project="True")
    assert (refused.status, refused.message) == (403, "You are not authorized to complete this operation.")
    for answer in (
        bob.get("/profiles/hers"),
        bob.patch("/profiles/hers", {"profile": {"name": "his"}}),
        bob.delete("/profiles/hers"),
    ):
        assert (answer.status, answer.message) == (404, "The profile 'hers' could not be found.")
    assert admin.get("/profiles/hers").status == 200


@pytest.mark.sqlite_only
def test_reader_role_cannot_change_profiles(service: Service, alice: Client) -> None:
    create(alice)
    reader = alice.sending(X_Roles="reader")
    assert reader.get("/profiles/web").status == 200
    for answer in (
        create(reader),
        reader.patch("/profiles/web", {"profile": {"name": "x"}}),
        reader.delete("/profiles/web"),
    ):
        assert (answer.status, answer.json["error"]["type"]) == (403, "Forbidden")
    assert names(clustering_client(service, "alice:web").get("/profiles")) == ["web"]


def test_list_is_paged_sorted_and_filtered(alice: Client) -> None:
    for name in ("c", "a", "b", "a"):
        create(alice, name, STACK if name == "b" else SERVER)
    assert names(alice.get("/profiles")) == ["c", "a", "b", "a"]
    assert names(alice.get("/profiles", sort="type:desc,name")) == ["a", "a", "c", "b"]
    assert names(alice.get("/profiles", sort="name:desc", limit="2")) == ["c", "b"]
    assert names(alice.get("/profiles", limit="0")) == []
    assert names(alice.ask("GET", "/profiles", query_string="name=a&name=c")) == ["c", "a", "a"]
    assert names(alice.get("/profiles", type="os.heat.stack-1.0")) == ["b"]
    seen: list[str] = []
    marker: dict[str, str] = {}
    while page := alice.get("/profiles", sort="name", limit="1", **marker).json["profiles"]:
        seen.append(page[0]["name"])
        marker = {"marker": page[0]["id"]}
    assert seen == ["a", "a", "b", "c"]

    answer = alice.get("/profiles/a")
    message = "Multiple results found matching the query criteria 'a'. Please be more specific."
    assert (answer.status, answer.message, answer.json["error"]["type"]) == (400, message, "MultipleChoices")


@pytest.mark.sqlite_only
@pytest.mark.parametrize("path", ["profiles", "policies"])
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"bogus": "x"}, "Invalid parameter bogus"),
        ({"limit": "not-int"}, "The value for limit must be an integer: 'not-int'."),
        ({"limit": "-1"}, "Value must be >= 0 for field 'limit'."),
        ({"global_project": "not-bool"}, "Invalid value 'not-bool' specified for 'global_project'"),
        ({"sort": "bad-sort"}, "Unsupported sort key 'bad-sort' for 'sort'."),
        ({"sort": "name:up"}, "Unsupported sort dir 'up' for 'sort': it must be asc or desc."),
        ({"marker": "bad-marker"}, "The value for marker is not a valid UUID: 'bad-marker'."),
    ],
    ids=str,
)
def test_invalid_list_query_is_rejected(
    module_service: Service, path: str, query: dict[str, str], message: str
) -> None:
    answer = clustering_client(module_service, "alice:web").get(f"/{path}", **query)
    assert (answer.status, answer.message, answer.json["error"]["type"]) == (400, message, "HTTPBadRequest")


def without(spec: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in spec.items() if name != key}


def with_property(name: str, value: object) -> dict[str, Any]:
    return {"name": "p", "spec": SERVER | {"properties": SERVER["properties"] | {name: value}}}


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("profile", "status", "message"),
    [
        ({"name": "p"}, 400, "'spec' is a required property"),
        ({"spec": SERVER}, 400, "'name' is a required property"),
        ({"name": None, "spec": SERVER}, 400, "'name' is a required property"),
        (
            {"name": "p", "spec": SERVER, "x": 1},
            400,
            "Additional properties are not allowed ('x' was unexpected)",
        ),
        (
            {"name": "two words", "spec": SERVER},
            400,
            "The value for name must be 1 to 255 letters, digits, '.', '_', '~' and '-': 'two words'.",
        ),
        ({"name": "p", "spec": []}, 400, "The value for spec must be a map: '[]'."),
        ({"name": "p", "spec": SERVER, "metadata": 1}, 400, "The value for metadata must be a map: '1'."),
        (
            {"name": "p", "spec": SERVER | {"type": "bogus"}},
            404,
            "The profile_type 'bogus-1.0' could not be found.",
        ),
        (
            {"name": "p", "spec": SERVER | {"version": "1.1"}},
            404,
            "The profile_type 'os.nova.server-1.1' could not be found.",
        ),
        (
            {"name": "p", "spec": without(SERVER, "type")},
            400,
            "Failed in creating profile p: Required spec item 'type' not provided",
        ),
        (
            {"name": "p", "spec": without(SERVER, "properties")},
            400,
            "Failed in creating profile p: Required spec item 'properties' not provided",
        ),
        (with_property("bogus", 1), 400, "Failed in creating profile p: Unrecognizable spec item 'bogus'"),
        (with_property("metadata", 1), 400, "Failed in creating profile p: '1' is not a Map"),
        (with_property("flavor", ["x"]), 400, "Failed in creating profile p: The value '['x']' is not a valid String"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_invalid_profile_spec_is_rejected(
    module_service: Service, profile: dict[str, Any], status: int, message: str
) -> None:
    alice = clustering_client(module_service, "alice:web")
    answer = alice.post("/profiles", {"profile": profile})
    assert (answer.status, answer.message) == (status, message)
    assert names(alice.get("/profiles")) == []


@pytest.mark.sqlite_only
@pytest.mark.parametrize("body", [{}, [], {"x": {}}, None])
def test_body_without_its_key_is_rejected(module_service: Service, body: Any) -> None:
    alice = clustering_client(module_service, "alice:web")
    for path, key in (("profiles", "profile"), ("policies", "policy")):
        for answer in (alice.post(f"/{path}", body), alice.post(f"/{path}/validate", body)):
            assert (answer.status, answer.message) == (400, f"Request body missing '{key}' key.")
        answer = alice.patch(f"/{path}/{UNKNOWN_ID}", body)
        message = f"Malformed request data, missing '{key}' key in request body."
        assert (answer.status, answer.message) == (400, message)


@pytest.mark.sqlite_only
def test_validation_error_has_no_profile_name(module_service: Service) -> None:
    alice = clustering_client(module_service, "alice:web")
    answer = alice.post("/profiles/validate", {"profile": {"spec": SERVER | {"properties": {"bogus": 1}}}})
    assert (answer.status, answer.message) == (400, "Unrecognizable spec item 'bogus'")
    assert answer.json["error"]["type"] == "InvalidSpec"
    answer = alice.post("/profiles/validate", {"profile": {}})
    assert (answer.status, answer.message) == (400, "'spec' is a required property")


def test_update_changes_only_the_given_fields(alice: Client) -> None:
    create(alice)
    unchanged: list[dict[str, Any]] = [{}, {"name": None}, {"name": "web"}, {"metadata": {}}]
    for body in unchanged:
        answer = alice.patch("/profiles/web", {"profile": body})
        assert (answer.status, answer.message) == (400, "No property needs an update.")
    answer = alice.patch("/profiles/web", {"profile": {"name": "new", "spec": SERVER}})
    assert answer.status == 400
    assert "Additional properties are not allowed" in answer.message
    assert names(alice.get("/profiles")) == ["web"]


def test_profile_in_use_cannot_be_deleted(alice: Client, store: Store) -> None:
    profile = create(alice).json["profile"]["id"]
    with store.write() as tx:
        tx.clustering.clusters.add(Cluster("c" * 36, "c", profile, Owner(UserId("alice"), ProjectId("web")), NOW))
    answer = alice.delete("/profiles/web")
    message = f"The profile '{profile}' cannot be deleted: still referenced by some clusters and/or nodes."
    assert (answer.status, answer.message, answer.json["error"]["type"]) == (409, message, "ResourceInUse")
