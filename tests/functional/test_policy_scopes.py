"""Policy scopes: their domains, the visibility of identifiers, and one domain of a scope for each host."""

import random
import uuid
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from covey.model.ids import HostId
from covey.model.scopes import IMPLICIT_SCOPE
from covey.storage import engine
from covey.storage.store import Store
from tests.functional.client import Answer, Client, Service
from tests.functional.fleets import UNKNOWN_ID, Cloud
from tests.functional.rows import all_rows

SCOPES = "/os-policy-scopes"
NAMESPACE = "6f72348f-df5d-4e0f-a043-4be92996dbfe"


@pytest.fixture(autouse=True)
def _hosts(request: pytest.FixtureRequest) -> None:
    if "cloud" not in request.fixturenames:  # adds its own hosts
        request.getfixturevalue("add_hosts")("h1", "h2", "h3")


@pytest.fixture
def admin(service: Service) -> Client:
    return service.as_("admin:operators", "2.1000")


@pytest.fixture
def alice(service: Service) -> Client:
    return service.as_("alice:web", "2.1000")


@pytest.fixture
def connected(database: str) -> Any:
    made = engine.connect(database)
    yield made
    made.dispose()


def create(admin: Client, name: str = "rack", **fields: Any) -> Any:
    answer = admin.post(SCOPES, {"policy_scope": {"name": name} | fields})
    assert answer.status == 200, answer.text
    return answer.json["policy_scope"]


def aggregate(admin: Client, name: str, *hosts: str, scope: str | None = None) -> Any:
    made = admin.post("/os-aggregates", {"aggregate": {"name": name}}).json["aggregate"]
    for host in hosts:
        assert add_host(admin, made["id"], host).status == 200
    if scope is not None:
        assert act(admin, scope, "add_aggregate", made["id"]).status == 200
    return made


def add_host(admin: Client, key: int, host: str) -> Answer:
    return admin.post(f"/os-aggregates/{key}/action", {"add_host": {"host": host}})


def set_metadata(admin: Client, key: int, **changes: str | None) -> Answer:
    return admin.post(f"/os-aggregates/{key}/action", {"set_metadata": {"metadata": changes}})


def act(admin: Client, scope: str, verb: str, key: object, field: str = "aggregate") -> Answer:
    return admin.post(f"{SCOPES}/{scope}/action", {verb: {field: key}})


def show(client: Client, scope: str, **query: str) -> Any:
    answer = client.get(f"{SCOPES}/{scope}", **query)
    assert answer.status == 200, answer.text
    return answer.json["policy_scope"]


def listed(client: Client, **query: str) -> Any:
    answer = client.get(SCOPES, **query)
    assert answer.status == 200, answer.text
    return answer.json["policy_scopes"]


def members(admin: Client, scope: str) -> dict[str, list[str]]:
    return {each["name"]: each["hosts"] for each in show(admin, scope)["aggregates"]}


def surrogate(namespace: str, project: str, key: object) -> str:
    """Return the surrogate identifier as the specification computes it."""
    tenant_namespace_uuid = uuid.uuid5(uuid.UUID(namespace), project)
    return str(uuid.uuid5(tenant_namespace_uuid, str(key)))


class TestCreate:
    """POST /os-policy-scopes."""

    def test_example_of_the_specification_is_accepted(self, admin: Client) -> None:
        body = {
            "policy_scope": {"name": "maintenance_zone", "allow_identifiers": "true", "obfuscate_identifiers": "true"}
        }
        answer = admin.post(SCOPES, body)
        made = answer.json["policy_scope"]
        assert uuid.UUID(made.pop("id"))
        assert uuid.UUID(made.pop("obfuscate_namespace_uuid")).version == 4
        flags = {"allow_identifiers": True, "obfuscate_identifiers": True}
        assert (answer.status, made) == (200, {"name": "maintenance_zone", **flags, "aggregates": []})

    def test_defaults_neither_allow_nor_obfuscate_identifiers(self, admin: Client) -> None:
        made = create(admin)
        assert (made["allow_identifiers"], made["obfuscate_identifiers"]) == (False, False)

    @pytest.mark.sqlite_only
    @pytest.mark.parametrize(("given", "means"), [(True, True), ("True", True), (False, False), ("false", False)])
    def test_booleans_are_accepted_as_text(self, admin: Client, given: object, means: object) -> None:
        made = create(admin, allow_identifiers=given, obfuscate_identifiers=given)
        assert show(admin, made["id"]) == made
        assert (made["allow_identifiers"], made["obfuscate_identifiers"]) == (means, means)

    @pytest.mark.sqlite_only
    @pytest.mark.parametrize("given", [NAMESPACE, NAMESPACE.upper(), NAMESPACE.replace("-", "")])
    def test_namespace_may_be_given(self, admin: Client, given: str) -> None:
        assert create(admin, obfuscate_namespace_uuid=given)["obfuscate_namespace_uuid"] == NAMESPACE

    def test_generated_namespaces_are_unique(self, admin: Client) -> None:
        assert create(admin, "a")["obfuscate_namespace_uuid"] != create(admin, "b")["obfuscate_namespace_uuid"]

    def test_duplicate_name_returns_409(self, admin: Client, connected: sa.Engine) -> None:
        create(admin, "rack")
        before = all_rows(connected)
        answer = admin.post(SCOPES, {"policy_scope": {"name": "rack"}})
        assert (answer.status, answer.message) == (409, "A policy scope named rack exists already.")
        answer = admin.post(SCOPES, {"policy_scope": {"name": "host"}})
        assert (answer.status, answer.message) == (409, "A policy scope named host exists already: it is built in.")
        assert all_rows(connected) == before

    @pytest.mark.sqlite_only
    @pytest.mark.parametrize("name", ["r", "R-1_2.x", "x" * 255, UNKNOWN_ID])
    def test_valid_names_are_accepted(self, admin: Client, name: str) -> None:
        assert create(admin, name)["name"] == name

    @pytest.mark.sqlite_only
    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({}, "name"),
            ({"name": ""}, "name"),
            ({"name": "x" * 256}, "name"),
            ({"name": "two words"}, "name"),
            ({"name": "a:b"}, "name"),
            ({"name": "line\n"}, "name"),
            ({"name": "ü"}, "name"),
            ({"name": "٣"}, "name"),
            ({"name": 5}, "name"),
            ({"name": None}, "name"),
            ({"name": "new", "allow_identifiers": "maybe"}, "allow_identifiers"),
            ({"name": "new", "allow_identifiers": None}, "allow_identifiers"),
            ({"name": "new", "obfuscate_identifiers": 1}, "obfuscate_identifiers"),
            ({"name": "new", "obfuscate_namespace_uuid": "abc"}, "obfuscate_namespace_uuid"),
            ({"name": "new", "obfuscate_namespace_uuid": 5}, "obfuscate_namespace_uuid"),
            ({"name": "new", "id": UNKNOWN_ID}, "id"),
            ({"name": "new", "aggregates": []}, "aggregates"),
        ],
    )
    def test_invalid_fields_return_400(
        self, admin: Client, connected: sa.Engine, fields: dict[str, object], field: str
    ) -> None:
        before = all_rows(connected)
        answer = admin.post(SCOPES, {"policy_scope": fields})
        assert answer.status == 400, answer.text
        assert field in answer.message
        assert all_rows(connected) == before

    @pytest.mark.sqlite_only
    @pytest.mark.parametrize("body", [None, [], {}, {"policy_scope": None}, {"scope": {"name": "x"}}])
    def test_malformed_body_returns_400(self, admin: Client, body: object) -> None:
        assert admin.ask("POST", SCOPES, json=body).status == 400


class TestAdministrators:
    """What operators see."""

    def test_implicit_scope_is_listed_first_and_others_by_name(self, admin: Client) -> None:
        made = {name: create(admin, name) for name in ("switch", "a", "rack")}
        first, *others = listed(admin)
        assert first == {
            "id": IMPLICIT_SCOPE.id,
            "name": "host",
            "allow_identifiers": False,
            "obfuscate_identifiers": True,
            "obfuscate_namespace_uuid": None,
            "aggregates": [],
        }
        assert show(admin, IMPLICIT_SCOPE.id) == show(admin, "host") == first
        assert others == [made["a"], made["rack"], made["switch"]]

    def test_administrators_see_complete_domains(self, admin: Client) -> None:
        scope = create(admin, obfuscate_identifiers=True)
        one, two = aggregate(admin, "r1", "h2", "h1", scope="rack"), aggregate(admin, "r2", scope="rack")
        aggregate(admin, "other", "h3")
        shown = show(admin, scope["id"])
        assert shown["aggregates"] == [
            {"id": one["id"], "uuid": one["uuid"], "name": "r1", "group_id": str(one["id"]), "hosts": ["h1", "h2"]},
            {"id": two["id"], "uuid": two["uuid"], "name": "r2", "group_id": str(two["id"]), "hosts": []},
        ]
        assert listed(admin)[1] == shown

    @pytest.mark.sqlite_only
    def test_as_tenant_id_shows_the_tenants_identifiers(self, admin: Client) -> None:
        flags: dict[str, Any] = {"allow_identifiers": True, "obfuscate_identifiers": True}
        scope = create(admin, **flags, obfuscate_namespace_uuid=NAMESPACE)
        keys = [aggregate(admin, name, scope="rack")["id"] for name in ("r1", "r2")]
        shown = show(admin, scope["id"], as_tenant_id="web")
        assert [(each["group_id"], each["obfuscated_group_id"]) for each in shown["aggregates"]] == [
            (str(key), surrogate(NAMESPACE, "web", key)) for key in keys
        ]
        assert listed(admin, as_tenant_id="web")[1] == shown
        plain = create(admin, "row", allow_identifiers=True)
        key = aggregate(admin, "r3", scope="row")["id"]
        (domain,) = show(admin, plain["id"], as_tenant_id="web")["aggregates"]
        assert domain["obfuscated_group_id"] == str(key), "what the tenant sees"
        assert show(admin, "host", as_tenant_id="web")["aggregates"] == []

    @pytest.mark.sqlite_only
    @pytest.mark.parametrize("obfuscate", [False, True])
    def test_as_tenant_id_shows_no_identifiers_that_the_scope_keeps_from_tenants(
        self,
        admin: Client,
        alice: Client,
        obfuscate: bool,
    ) -> None:
        create(admin, "hidden", obfuscate_identifiers=obfuscate)
        aggregate(admin, "r1", scope="hidden")
        (domain,) = show(admin, "hidden", as_tenant_id="web")["aggregates"]
        assert "obfuscated_group_id" not in domain
        assert show(alice, "hidden")["aggregates"] == []

    @pytest.mark.sqlite_only
    @pytest.mark.parametrize("query", [{"as_tenant_id": ""}, {"as_tenant_id": "x" * 256}, {"nonsense": "1"}])
    def test_invalid_query_returns_400(self, admin: Client, query: dict[str, str]) -> None:
        for path in (SCOPES, f"{SCOPES}/host"):
            answer = admin.get(path, **query)
            assert answer.status == 400
            assert next(iter(query)) in answer.message

    def test_id_takes_precedence_over_name(self, admin: Client) -> None:
        scope = create(admin, "rack")
        double = create(admin, scope["id"])
        assert show(admin, "rack") == show(admin, scope["id"]) == scope
        assert show(admin, double["id"]) == double

    def test_unknown_scope_returns_404(self, admin: Client) -> None:
        for key in (UNKNOWN_ID, "rack", "%00"):
            assert admin.get(f"{SCOPES}/{key}").status in {404, 400 if key == "%00" else 404}
        body = {"policy_scope": {"name": "x"}}
        answers = [
            admin.put(f"{SCOPES}/rack", body),
            admin.post(f"{SCOPES}/rack", body),
            admin.delete(f"{SCOPES}/rack"),
            act(admin, "rack", "add_aggregate", 1),
            act(admin, "rack", "remove_aggregate", 1),
        ]
        message = "Policy scope rack could not be found."
        assert [(answer.status, answer.message) for answer in answers] == [(404, message)] * 5


class TestTenants:
    """What tenants see: never a namespace, a name, a uuid or a host of a domain."""

    @pytest.mark.sqlite_only
    def test_domains_are_hidden_without_allow_identifiers(self, admin: Client, alice: Client) -> None:
        scope = create(admin)
        aggregate(admin, "r1", "h1", scope="rack")
        shown = show(alice, scope["id"])
        flags = {"allow_identifiers": False, "obfuscate_identifiers": False}
        assert shown == {"id": scope["id"], "name": "rack", **flags, "aggregates": []}
        host, rack = listed(alice)
        assert (host, rack) == (show(alice, "host"), shown)
        assert host.keys() == shown.keys()

    def test_plain_identifiers_are_sorted_numerically(self, admin: Client, alice: Client) -> None:
        create(admin, allow_identifiers=True)
        keys = [aggregate(admin, f"r{n}", scope="rack")["id"] for n in range(12)]
        assert show(alice, "rack")["aggregates"] == [{"group_id": str(key)} for key in keys]
        assert listed(alice)[1] == show(alice, "rack")

    def test_obfuscated_identifiers_differ_per_tenant_and_are_sorted(
        self, admin: Client, alice: Client, service: Service
    ) -> None:
        create(admin, allow_identifiers=True, obfuscate_identifiers=True, obfuscate_namespace_uuid=NAMESPACE)
        keys = [aggregate(admin, f"r{n}", scope="rack")["id"] for n in range(12)]
        for client, project in ((alice, "web"), (service.as_("bob:db", "2.1000"), "db")):
            obfuscated = sorted(surrogate(NAMESPACE, project, key) for key in keys)
            assert show(client, "rack")["aggregates"] == [{"group_id": each} for each in obfuscated]
            assert listed(client)[1]["aggregates"] == [{"group_id": each} for each in obfuscated]

    @pytest.mark.sqlite_only
    def test_responses_to_tenants_contain_no_real_identifiers(self, admin: Client, alice: Client) -> None:
        scope = create(admin, allow_identifiers=True, obfuscate_identifiers=True)
        made = aggregate(admin, "secret-rack", "h1", "h2", scope="rack")
        for text in (alice.get(SCOPES).text, alice.get(f"{SCOPES}/rack").text):
            assert not any(word in text for word in ("secret-rack", "h1", made["uuid"]))
            assert scope["obfuscate_namespace_uuid"] not in text

    @pytest.mark.sqlite_only
    def test_as_tenant_id_is_forbidden_for_tenants(self, alice: Client) -> None:
        for path in (SCOPES, f"{SCOPES}/host"):
            answer = alice.get(path, as_tenant_id="web")
            assert answer.status == 403
            assert "os_compute_api:os-policy-scopes:show:as_tenant" in answer.message

    @pytest.mark.sqlite_only
    def test_tenants_cannot_change_scopes(self, admin: Client, alice: Client, connected: sa.Engine) -> None:
        scope = create(admin)["id"]
        key = aggregate(admin, "r1", scope="rack")["id"]
        before = all_rows(connected)
        body = {"policy_scope": {"name": "x"}}
        answers = {
            "create": alice.post(SCOPES, body),
            "update": alice.put(f"{SCOPES}/{scope}", body),
            "delete": alice.delete(f"{SCOPES}/{scope}"),
            "add_aggregate": act(alice, scope, "add_aggregate", key),
            "remove_aggregate": act(alice, scope, "remove_aggregate", key),
        }
        for rule, answer in answers.items():
            assert answer.status == 403, rule
            assert f"os_compute_api:os-policy-scopes:{rule}" in answer.message
        assert all_rows(connected) == before

    @pytest.mark.sqlite_only
    def test_access_rule_can_hide_one_scope(self, admin: Client, alice: Client, tmp_path: Path) -> None:
        create(admin, "rack")
        create(admin, "switch")
        rule = "role:admin or not 'rack':%(scope_name)s"
        (tmp_path / "policy.yaml").write_text(f'"os_compute_api:os-policy-scopes:show": "{rule}"\n')
        alice = alice.sending(X_Roles="reader")  # a decision that is not cached from before the change
        while (answer := alice.get(f"{SCOPES}/rack")).status == 200:
            pass
        assert answer.status == 403
        assert [scope["name"] for scope in listed(alice)] == ["host", "switch"]
        assert [scope["name"] for scope in listed(admin)] == ["host", "rack", "switch"]

    @pytest.mark.sqlite_only
    def test_caller_without_role_sees_nothing(self, service: Service) -> None:
        anonymous = service.as_("eve:web", "2.1000").sending(X_Roles="stranger")
        assert [anonymous.get(path).status for path in (SCOPES, f"{SCOPES}/host")] == [403, 403]


class TestUpdate:
    """POST and PUT /os-policy-scopes/{id}."""

    @pytest.mark.sqlite_only
    @pytest.mark.parametrize("method", ["POST", "PUT"])
    @pytest.mark.parametrize("by", ["id", "name"])
    @pytest.mark.parametrize(
        ("change", "shown"),
        [
            ({"name": "shelf"}, {"name": "shelf"}),
            ({"name": "rack"}, {}),
            ({"allow_identifiers": "true"}, {"allow_identifiers": True}),
            ({"obfuscate_identifiers": False}, {"obfuscate_identifiers": False}),
            (
                {"name": "a", "allow_identifiers": True, "obfuscate_identifiers": "False"},
                {"name": "a", "allow_identifiers": True, "obfuscate_identifiers": False},
            ),
        ],
        ids=str,
    )
    def test_update_changes_only_the_given_fields(
        self, admin: Client, method: str, by: str, change: dict[str, object], shown: dict[str, object]
    ) -> None:
        scope = create(admin, obfuscate_identifiers=True)
        answer = admin.ask(method, f"{SCOPES}/{scope[by]}", json={"policy_scope": change})
        assert (answer.status, answer.json["policy_scope"]) == (200, scope | shown)
        assert show(admin, scope["id"]) == scope | shown

    @pytest.mark.sqlite_only
    @pytest.mark.parametrize(
        "change",
        [{}, {"name": ""}, {"name": "a b"}, {"allow_identifiers": "x"}, {"obfuscate_namespace_uuid": NAMESPACE}, None],
        ids=str,
    )
    def test_invalid_request_returns_400_and_changes_nothing(self, admin: Client, change: object) -> None:
        scope = create(admin)
        answer = admin.put(f"{SCOPES}/{scope['id']}", {"policy_scope": change})
        assert answer.status == 400
        assert next(iter(change or ["policy_scope"])) in answer.message  # type: ignore[call-overload]
        assert show(admin, scope["id"]) == scope

    def test_update_to_a_duplicate_name_returns_409_and_changes_nothing(self, admin: Client) -> None:
        scope, _ = create(admin), create(admin, "switch")
        for name in ("switch", "host"):
            body = {"policy_scope": {"name": name, "allow_identifiers": True}}
            answer = admin.put(f"{SCOPES}/{scope['id']}", body)
            assert answer.status == 409
            assert f"A policy scope named {name} exists already" in answer.message
        assert show(admin, scope["id"]) == scope

    def test_renamed_scope_shows_in_groups(self, cloud: Cloud) -> None:
        create(cloud.admin)
        group = cloud.group("anti-affinity:rack", max_server_per_rack=2)
        assert cloud.admin.put(f"{SCOPES}/rack", {"policy_scope": {"name": "shelf"}}).status == 200
        shown = cloud.alice.get(f"/os-server-groups/{group}").json["server_group"]
        assert (shown["policies"], shown["rules"]) == (["anti-affinity:shelf"], {"max_server_per_shelf": 2})
        assert cloud.group("affinity:shelf")

    def test_cached_groups_drop_the_old_name(self, cloud: Cloud) -> None:
        create(cloud.admin)
        aggregate(cloud.admin, "r1", "node-1", "node-2", "node-3", scope="rack")
        group = cloud.group("anti-affinity:rack")
        cloud.boot(group=group)
        before = cloud.show(cloud.boot(group=group))["fault"]["message"]
        assert cloud.admin.put(f"{SCOPES}/rack", {"policy_scope": {"name": "shelf"}}).status == 200
        after = cloud.show(cloud.boot(group=group))["fault"]["message"]
        assert "rack" in before
        assert after == before.replace("rack", "shelf")


class TestDelete:
    """DELETE /os-policy-scopes/{id}."""

    @pytest.mark.parametrize("by", ["id", "name"])
    def test_unused_scope_is_deleted(self, admin: Client, by: str) -> None:
        scope = create(admin)
        answer = admin.delete(f"{SCOPES}/{scope[by]}")
        assert (answer.status, answer.text) == (204, "")
        assert admin.get(f"{SCOPES}/{scope['id']}").status == 404
        assert [each["name"] for each in listed(admin)] == ["host"]

    def test_scope_with_aggregates_cannot_be_deleted(self, admin: Client) -> None:
        scope = create(admin)
        for n in range(5):
            aggregate(admin, f"r{n}", scope="rack")
        answer = admin.delete(f"{SCOPES}/{scope['id']}")
        message = "The policy scope rack can't be deleted while it is used by the aggregates r0, r1, r2 and 2 more."
        assert (answer.status, answer.message) == (409, message)
        assert len(show(admin, "rack")["aggregates"]) == 5

    def test_scope_of_a_group_cannot_be_deleted(self, cloud: Cloud) -> None:
        create(cloud.admin)
        group = cloud.group("anti-affinity:rack")
        aggregate(cloud.admin, "r1", scope="rack")
        answer = cloud.admin.delete(f"{SCOPES}/rack")
        used = f"the server groups {group} and the aggregates r1"
        message = f"The policy scope rack can't be deleted while it is used by {used}."
        assert (answer.status, answer.message) == (409, message)
        assert act(cloud.admin, "rack", "remove_aggregate", 1).status == 200
        answer = cloud.admin.delete(f"{SCOPES}/rack")
        message = f"The policy scope rack can't be deleted while it is used by the server groups {group}."
        assert (answer.status, answer.message) == (409, message)
        assert cloud.alice.delete(f"/os-server-groups/{group}").status == 204
        assert cloud.admin.delete(f"{SCOPES}/rack").status == 204


@pytest.mark.sqlite_only
def test_implicit_scope_cannot_be_changed(admin: Client, connected: sa.Engine) -> None:
    key = aggregate(admin, "r1", "h1")["id"]
    before = all_rows(connected)
    body = {"policy_scope": {"name": "x", "allow_identifiers": True}}
    for scope in ("host", IMPLICIT_SCOPE.id):
        answers = [
            admin.put(f"{SCOPES}/{scope}", body),
            admin.post(f"{SCOPES}/{scope}", body),
            admin.delete(f"{SCOPES}/{scope}"),
            act(admin, scope, "add_aggregate", key),
            act(admin, scope, "remove_aggregate", key),
        ]
        message = "The policy scope host is built in and can't be changed or deleted; every host is its own domain."
        assert [(answer.status, answer.message) for answer in answers] == [(403, message)] * 5
    answer = set_metadata(admin, key, policy_scope="host", other="x")
    assert (answer.status, answer.message) == (403, message)
    assert all_rows(connected) == before


class TestDomains:
    """Aggregates join and leave scopes by two APIs."""

    @pytest.mark.parametrize("field", ["aggregate", "aggregate_id"])
    @pytest.mark.parametrize("by", ["integer", "digits", "uuid", "bare uuid"])
    def test_aggregate_is_added_and_removed(self, admin: Client, field: str, by: str) -> None:
        scope, made = create(admin), aggregate(admin, "r1", "h1")
        names = {"integer": made["id"], "digits": str(made["id"]), "uuid": made["uuid"].upper()}
        key = (names | {"bare uuid": made["uuid"].replace("-", "")})[by]
        for _ in range(2):  # idempotent
            answer = act(admin, scope["id"], "add_aggregate", key, field)
            assert answer.status == 200, answer.text
            assert members(admin, "rack") == {"r1": ["h1"]}
            assert answer.json["policy_scope"] == show(admin, "rack")
        answer = act(admin, scope["id"], "remove_aggregate", key, field)
        assert (answer.status, answer.json["policy_scope"]) == (200, scope)
        answer = act(admin, scope["id"], "remove_aggregate", key, field)
        assert (answer.status, answer.message) == (404, "Aggregate r1 is not in the scope rack.")

    def test_aggregate_of_another_scope_returns_409(self, admin: Client) -> None:
        create(admin)
        create(admin, "switch")
        key = aggregate(admin, "r1", scope="rack")["id"]
        answer = act(admin, "switch", "add_aggregate", key)
        message = "Aggregate r1 is already in the scope rack; remove it from there first."
        assert (answer.status, answer.message) == (409, message)
        assert act(admin, "switch", "remove_aggregate", key).status == 404
        assert (members(admin, "rack"), members(admin, "switch")) == ({"r1": []}, {})

    @pytest.mark.sqlite_only
    @pytest.mark.parametrize("key", [99, "99", "0", 2**31, "9" * 50, "9" * 5000, UNKNOWN_ID])
    @pytest.mark.parametrize("verb", ["add_aggregate", "remove_aggregate"])
    def test_unknown_aggregate_returns_404(self, admin: Client, verb: str, key: object) -> None:
        create(admin)
        answer = act(admin, "rack", verb, key)
        assert answer.status == 404
        assert "Aggregate" in answer.message

    @pytest.mark.sqlite_only
    @pytest.mark.parametrize(
        "body",
        [
            None,
            [],
            {},
            {"add_aggregate": None},
            {"add_aggregate": {}},
            {"add_aggregate": {"aggregate": None}},
            {"add_aggregate": {"aggregate": True}},
            {"add_aggregate": {"aggregate": 1.0}},
            {"add_aggregate": {"aggregate": -1}},
            {"add_aggregate": {"aggregate": ""}},
            {"add_aggregate": {"aggregate": "r1"}},
            {"add_aggregate": {"aggregate": "٣"}},
            {"add_aggregate": {"aggregate": [1]}},
            {"add_aggregate": {"aggregate": 1, "aggregate_id": 1}},
            {"add_aggregate": {"aggregate": 1, "host": "h1"}},
            {"add_aggregate": {"aggregate": 1}, "remove_aggregate": {"aggregate": 1}},
            {"add_host": {"host": "h1"}},
        ],
        ids=str,
    )
    def test_invalid_request_returns_400_and_changes_nothing(
        self, admin: Client, connected: sa.Engine, body: object
    ) -> None:
        create(admin)
        aggregate(admin, "r1", "h1")
        before = all_rows(connected)
        answer = admin.ask("POST", f"{SCOPES}/rack/action", json=body)
        assert answer.status == 400, answer.text
        assert all_rows(connected) == before

    def test_aggregate_metadata_sets_the_scope(self, admin: Client) -> None:
        create(admin)
        create(admin, "switch")
        key = aggregate(admin, "r1", "h1")["id"]
        answer = set_metadata(admin, key, policy_scope="rack", other="x")
        assert answer.json["aggregate"]["metadata"] == {"policy_scope": "rack", "other": "x"}
        assert members(admin, "rack") == {"r1": ["h1"]}
        assert set_metadata(admin, key, policy_scope="rack").status == 200
        answer = set_metadata(admin, key, policy_scope="switch")
        assert answer.json["aggregate"]["metadata"] == {"policy_scope": "switch", "other": "x"}
        assert (members(admin, "rack"), members(admin, "switch")) == ({}, {"r1": ["h1"]})
        for _ in range(2):
            assert set_metadata(admin, key, policy_scope=None).json["aggregate"]["metadata"] == {"other": "x"}
        assert members(admin, "switch") == {}

    @pytest.mark.sqlite_only
    @pytest.mark.parametrize("version", ["2.1", "2.104", "2.1000"])
    def test_aggregate_metadata_shows_its_scope(self, admin: Client, version: str) -> None:
        create(admin)
        key = aggregate(admin, "r1", scope="rack")["id"]
        aggregate(admin, "plain")
        admin.put(f"{SCOPES}/rack", {"policy_scope": {"name": "shelf"}})
        old = admin.at(version)
        shown = [each["metadata"] for each in old.get("/os-aggregates").json["aggregates"]]
        assert shown == [{"policy_scope": "shelf"}, {}]
        assert old.get(f"/os-aggregates/{key}").json["aggregate"]["metadata"] == {"policy_scope": "shelf"}
        assert set_metadata(old, key, policy_scope=None).json["aggregate"]["metadata"] == {}

    @pytest.mark.sqlite_only
    @pytest.mark.parametrize("name", ["rock", "", "RACK", IMPLICIT_SCOPE.id])
    def test_metadata_with_an_unknown_scope_returns_400(self, admin: Client, connected: sa.Engine, name: str) -> None:
        create(admin)
        key = aggregate(admin, "r1")["id"]
        before = all_rows(connected)
        answer = set_metadata(admin, key, policy_scope=name, other="x", availability_zone="z")
        assert (answer.status, answer.message) == (400, f"Policy scope {name!r} does not exist.")
        assert all_rows(connected) == before

    @pytest.mark.sqlite_only
    def test_metadata_changes_require_the_access_rules_of_scopes(self, admin: Client, tmp_path: Path) -> None:
        create(admin)
        key = aggregate(admin, "r1")["id"]
        rules = {"os-aggregates:set_metadata": "@", "os-policy-scopes:remove_aggregate": "@"}
        written = (f'"os_compute_api:{name}": "{check}"\n' for name, check in rules.items())
        (tmp_path / "policy.yaml").write_text("".join(written))
        keeper = admin.sending(X_Roles="keeper")
        while (answer := set_metadata(keeper, key, other="x")).status == 403:
            pass
        assert answer.status == 200
        answer = set_metadata(keeper, key, policy_scope="rack")
        assert answer.status == 403
        assert "os_compute_api:os-policy-scopes:add_aggregate" in answer.message
        assert act(admin, "rack", "add_aggregate", key).status == 200
        assert set_metadata(keeper, key, policy_scope=None).status == 200


class TestOneDomainOfAScope:
    """A host is in at most one domain of a scope; every route rejects a second."""

    MESSAGE = (
        "Host h1 is already in aggregate r1 of the scope rack, so it can't be added to aggregate r2: "
        "a host is in at most one domain of a scope."
    )

    @pytest.fixture
    def late(self, admin: Client) -> int:
        """An aggregate that shares a host with the rack r1."""
        create(admin)
        aggregate(admin, "r1", "h1", scope="rack")
        return int(aggregate(admin, "r2", "h3", "h1")["id"])

    @pytest.mark.parametrize("by", ["add_aggregate", "metadata"])
    def test_aggregate_with_a_host_of_another_domain_is_rejected(
        self, admin: Client, connected: sa.Engine, late: int, by: str
    ) -> None:
        before = all_rows(connected)
        if by == "metadata":
            answer = set_metadata(admin, late, policy_scope="rack", other="x", availability_zone="z")
        else:
            answer = act(admin, "rack", "add_aggregate", late)
        assert (answer.status, answer.message) == (409, self.MESSAGE)
        assert all_rows(connected) == before

    def test_host_of_another_domain_is_rejected(self, admin: Client, connected: sa.Engine) -> None:
        create(admin)
        aggregate(admin, "r1", "h1", scope="rack")
        key = aggregate(admin, "r2", scope="rack")["id"]
        before = all_rows(connected)
        answer = add_host(admin, key, "h1")
        assert (answer.status, answer.message) == (409, self.MESSAGE)
        assert all_rows(connected) == before
        assert add_host(admin, key, "h2").status == 200

    def test_error_names_one_host_and_counts_the_rest(self, admin: Client) -> None:
        create(admin)
        aggregate(admin, "r1", "h1", "h2", scope="rack")
        aggregate(admin, "r3", "h3", scope="rack")
        key = aggregate(admin, "r2", "h3", "h2", "h1")["id"]
        answer = act(admin, "rack", "add_aggregate", key)
        more = " The same holds for 2 more of its hosts."
        assert (answer.status, answer.message) == (409, self.MESSAGE + more)

    def test_host_may_be_in_one_domain_of_each_scope(self, admin: Client) -> None:
        for scope in ("rack", "switch"):
            create(admin, scope)
            aggregate(admin, f"{scope}-1", "h1", "h2", scope=scope)
        aggregate(admin, "in no scope", "h1")
        assert (members(admin, "rack"), members(admin, "switch")) == (
            {"rack-1": ["h1", "h2"]},
            {"switch-1": ["h1", "h2"]},
        )

    def test_rejected_change_succeeds_after_the_host_left(self, admin: Client, late: int) -> None:
        first = admin.get("/os-aggregates").json["aggregates"][0]["id"]
        assert admin.post(f"/os-aggregates/{first}/action", {"remove_host": {"host": "h1"}}).status == 200
        assert set_metadata(admin, late, policy_scope="rack").status == 200
        assert members(admin, "rack") == {"r1": [], "r2": ["h1", "h3"]}

    def test_rejected_move_by_metadata_keeps_the_old_scope(self, admin: Client) -> None:
        create(admin)
        create(admin, "switch")
        aggregate(admin, "r1", "h1", scope="rack")
        key = aggregate(admin, "r2", "h1", scope="switch")["id"]
        answer = set_metadata(admin, key, policy_scope="rack")
        assert (answer.status, answer.message) == (409, self.MESSAGE)
        assert members(admin, "switch") == {"r2": ["h1"]}


@pytest.mark.sqlite_only
@pytest.mark.parametrize("version", ["2.1", "2.64", "2.104", "2.999"])
def test_older_microversions_lack_the_route(admin: Client, version: str) -> None:
    scope, key = create(admin)["id"], aggregate(admin, "r1")["id"]
    old, body = admin.at(version), {"policy_scope": {"name": "x"}}
    answers = [
        old.get(SCOPES),
        old.post(SCOPES, body),
        old.get(f"{SCOPES}/{scope}"),
        old.put(f"{SCOPES}/{scope}", body),
        old.post(f"{SCOPES}/{scope}", body),
        old.delete(f"{SCOPES}/{scope}"),
        act(old, scope, "add_aggregate", key),
    ]
    assert [answer.status for answer in answers] == [404] * 7
    assert show(admin, scope)["name"] == "rack"


class TestScheduling:
    """Changes of domains apply to the next decision."""

    def test_scheduler_follows_changes_of_domains(self, cloud: Cloud) -> None:
        admin = cloud.admin
        create(admin)
        group = cloud.group("anti-affinity:rack")
        assert cloud.status(cloud.boot(group=group)) == "ERROR"  # no host is in a rack yet
        keys = [aggregate(admin, f"r{n}", f"node-{n}", scope="rack")["id"] for n in (1, 2)]
        servers = [cloud.boot(group=group) for _ in range(3)]
        assert sorted(map(cloud.status, servers)) == ["ACTIVE", "ACTIVE", "ERROR"]
        assert set(cloud.hosts(servers)) == {"node-1", "node-2", None}
        assert set_metadata(admin, aggregate(admin, "r3", "node-3")["id"], policy_scope="rack").status == 200
        assert cloud.host(cloud.boot(group=group)) == "node-3"
        cloud.delete(*(s["id"] for s in cloud.servers()))
        for key in keys:
            assert act(admin, "rack", "remove_aggregate", key).status == 200
        assert cloud.host(cloud.boot(group=group)) == "node-3"
        assert cloud.status(cloud.boot(group=group)) == "ERROR"

    def test_change_log_records_every_kind_of_change(self, cloud: Cloud) -> None:
        admin, store = cloud.admin, cloud.store
        create(admin)
        key = aggregate(admin, "r1", "node-1")["id"]
        for change in (
            lambda: act(admin, "rack", "add_aggregate", key),
            lambda: act(admin, "rack", "remove_aggregate", key),
            lambda: set_metadata(admin, key, policy_scope="rack"),
            lambda: add_host(admin, key, "node-2"),
            lambda: set_metadata(admin, key, policy_scope=None),
        ):
            assert _logs_structure_change(store, change), change


def _logs_structure_change(store: Store, change: Any) -> bool:
    with store.read() as tx:
        cursor = tx.changes.begin()
    assert change().status == 200
    with store.read() as tx:
        return bool(tx.changes.since(cursor, "other writer").structure)


def test_host_in_two_domains_takes_no_server_of_that_scope(cloud: Cloud) -> None:
    admin = cloud.admin
    create(admin)
    for n in (1, 2):
        aggregate(admin, f"r{n}", f"node-{n}", scope="rack")
    with cloud.connection.begin() as connection:
        for text in (
            "ALTER TABLE aggregate_hosts RENAME TO kept",
            "CREATE TABLE aggregate_hosts AS SELECT * FROM kept",
        ):
            connection.execute(sa.text(text))
        first = sa.text("SELECT id FROM hosts WHERE name = 'node-1'")
        host = HostId(connection.execute(first).scalar_one())
        copied = "SELECT aggregate_id, :host, zone, scope_id FROM kept WHERE host_id <> :host"
        connection.execute(sa.text(f"INSERT INTO aggregate_hosts {copied}"), {"host": host})
    try:
        group = cloud.group("anti-affinity:rack")
        servers = [cloud.boot(group=group) for _ in range(2)]
        assert sorted(map(str, cloud.hosts(servers))) == ["None", "node-2"]
    finally:
        with cloud.connection.begin() as connection:
            connection.execute(sa.text("DROP TABLE aggregate_hosts"))
            connection.execute(sa.text("ALTER TABLE kept RENAME TO aggregate_hosts"))


@pytest.mark.sqlite_only
def test_order_of_obfuscated_identifiers_is_random(admin: Client, alice: Client) -> None:
    """Another namespace gives the same aggregates another order."""
    orders = set()
    chance = random.Random(5)  # noqa: S311 -- the same each time
    keys = [aggregate(admin, f"r{n}")["id"] for n in range(6)]
    for n in range(4):
        namespace = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        flags = {"allow_identifiers": True, "obfuscate_identifiers": True}
        create(admin, f"s{n}", obfuscate_namespace_uuid=namespace, **flags)
        for key in keys:
            set_metadata(admin, key, policy_scope=f"s{n}")
        real = {surrogate(namespace, "web", key): key for key in keys}
        orders.add(tuple(real[each["group_id"]] for each in show(alice, f"s{n}")["aggregates"]))
    assert len(orders) > 1
    assert all(sorted(order) == keys for order in orders)
