"""Server groups: microversions, listing, quota and deletion."""

from typing import Any

import pytest

from tests.functional.client import Answer, Client
from tests.functional.fleets import UNKNOWN_ID, Cloud
from tests.functional.scopes import add_scope

BAD_NAME = (
    "An invalid 'name' value was provided. "
    "The name must be: printable characters. Can not start or end with whitespace."
)
OLD = {"id", "name", "policies", "metadata", "members"}
OWNED = OLD | {"project_id", "user_id"}
RULED = {"id", "name", "policy", "rules", "members", "project_id", "user_id"}
OURS = RULED | {"policies"}
FOUR = "['anti-affinity', 'affinity', 'soft-anti-affinity', 'soft-affinity']"


def create(client: Client, **group: Any) -> Answer:
    return client.post("/os-server-groups", {"server_group": group})


def made(client: Client, **group: Any) -> dict[str, Any]:
    answer = create(client, **group)
    assert answer.status == 200, answer.text
    shown: dict[str, Any] = answer.json["server_group"]
    return shown


def names(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.text
    return [group["name"] for group in answer.json["server_groups"]]


# Response fields


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("version", "asked", "fields", "shown"),
    [
        pytest.param("2.1", {"policies": ["affinity"]}, OLD, {"policies": ["affinity"], "metadata": {}}, id="2.1"),
        pytest.param(
            "2.12", {"policies": ["anti-affinity"]}, OLD, {"policies": ["anti-affinity"], "metadata": {}}, id="2.12"
        ),
        pytest.param(
            "2.13",
            {"policies": ["affinity"]},
            OWNED,
            {"policies": ["affinity"], "metadata": {}, "project_id": "web", "user_id": "alice"},
            id="2.13 shows the owner",
        ),
        pytest.param(
            "2.15",
            {"policies": ["soft-anti-affinity"]},
            OWNED,
            {"policies": ["soft-anti-affinity"], "metadata": {}},
            id="2.15 has soft policies",
        ),
        pytest.param("2.63", {"policies": ["soft-affinity"]}, OWNED, {"policies": ["soft-affinity"]}, id="2.63"),
        pytest.param(
            "2.64", {"policy": "affinity"}, RULED, {"policy": "affinity", "rules": {}}, id="2.64 without rules"
        ),
        pytest.param(
            "2.64",
            {"policy": "soft-affinity", "rules": {}},
            RULED,
            {"policy": "soft-affinity", "rules": {}},
            id="2.64 takes no rules with any policy",
        ),
        pytest.param(
            "2.64",
            {"policy": "anti-affinity", "rules": {"max_server_per_host": 3}},
            RULED,
            {"policy": "anti-affinity", "rules": {"max_server_per_host": 3}, "project_id": "web", "user_id": "alice"},
            id="2.64 with a rule",
        ),
        pytest.param(
            "2.64",
            {"policy": "anti-affinity", "rules": {"max_server_per_host": "12"}},
            RULED,
            {"rules": {"max_server_per_host": 12}},
            id="2.64 makes a number of digits",
        ),
        pytest.param(
            "2.104", {"policy": "soft-anti-affinity"}, RULED, {"policy": "soft-anti-affinity", "rules": {}}, id="2.104"
        ),
        pytest.param("2.999", {"policy": "affinity"}, RULED, {"policy": "affinity"}, id="2.999 means 2.104"),
        pytest.param(
            "2.1000",
            {"policy": {"name": "anti-affinity", "rules": {"max_server_per_host": 3}}},
            OURS,
            {
                "policy": {"name": "anti-affinity", "rules": {"max_server_per_host": 3}},
                "policies": ["anti-affinity"],
                "rules": {"max_server_per_host": 3},
                "project_id": "web",
                "user_id": "alice",
                "members": [],
            },
            id="2.1000 in the words of the rules specification",
        ),
        pytest.param(
            "2.1000",
            {"policy": {"name": "anti-affinity"}},
            OURS,
            {"policy": {"name": "anti-affinity", "rules": {}}, "rules": {}},
            id="2.1000 shows empty rules where there are none",
        ),
        pytest.param(
            "2.1000",
            {"policy": {"name": "anti-affinity", "rules": {"max_server_per_host": "2"}}},
            OURS,
            {"policy": {"name": "anti-affinity", "rules": {"max_server_per_host": 2}}},
            id="2.1000 makes a number of digits",
        ),
        pytest.param(
            "2.1000",
            {"policy": {"name": "soft-affinity"}},
            OURS,
            {"policy": {"name": "soft-affinity", "rules": {}}, "policies": ["soft-affinity"]},
            id="2.1000 other kinds in the same words",
        ),
        pytest.param(
            "2.1000",
            {"policies": ["affinity"]},
            OURS,
            {"policy": {"name": "affinity", "rules": {}}, "policies": ["affinity"], "rules": {}},
            id="2.1000 as a list",
        ),
        pytest.param(
            "2.1000",
            {"policies": ["soft-affinity:host", "anti-affinity"], "rules": {"max_server_per_host": 4}},
            OURS,
            {
                "policies": ["soft-affinity", "anti-affinity"],
                "policy": {"name": "soft-affinity", "rules": {}},
                "rules": {"max_server_per_host": 4},
            },
            id="2.1000 several policies, the host scope left out",
        ),
        pytest.param(
            "2.1000",
            {"policy": "anti-affinity", "rules": {"max_server_per_host": 5}},
            OURS,
            {"policy": {"name": "anti-affinity", "rules": {"max_server_per_host": 5}}},
            id="2.1000 in the words of 2.64",
        ),
    ],
)
def test_group_shape_follows_the_microversion(
    module_cloud: Cloud, version: str, asked: dict[str, Any], fields: set[str], shown: dict[str, Any]
) -> None:
    alice = module_cloud.alice.at(version)
    group = made(alice, name="g", **asked)
    path = f"/os-server-groups/{group['id']}"
    try:
        assert group.keys() == fields
        assert group.items() >= shown.items()
        assert group["members"] == []
        assert alice.get(path).json == {"server_group": group}
        assert alice.get("/os-server-groups").json == {"server_groups": [group]}
    finally:
        deleted = alice.delete(path)
    assert (deleted.status, deleted.text) == (204, "")


@pytest.mark.sqlite_only
def test_explicit_limit_of_one_is_kept(cloud: Cloud) -> None:
    rule = {"max_server_per_host": 1}
    for version, asked in (
        ("2.64", {"policy": "anti-affinity", "rules": rule}),
        ("2.1000", {"policy": {"name": "anti-affinity", "rules": rule}}),
    ):
        group = made(cloud.alice.at(version), name="g", **asked)
        assert group["rules"] == rule
        assert cloud.alice.at("2.64").get(f"/os-server-groups/{group['id']}").json["server_group"]["rules"] == rule


@pytest.mark.sqlite_only
def test_group_is_readable_in_every_microversion(cloud: Cloud) -> None:
    group = made(cloud.alice, name="g", policy={"name": "anti-affinity", "rules": {"max_server_per_host": 3}})
    soft = made(cloud.alice, name="soft", policies=["soft-affinity"])
    path, soft_path = (f"/os-server-groups/{each['id']}" for each in (group, soft))
    for version, fields, shown in (
        ("2.1", OLD, {"policies": ["anti-affinity"], "metadata": {}}),
        ("2.14", OWNED, {"policies": ["anti-affinity"], "metadata": {}}),
        ("2.63", OWNED, {"policies": ["anti-affinity"], "metadata": {}}),
        ("2.64", RULED, {"policy": "anti-affinity", "rules": {"max_server_per_host": 3}}),
    ):
        read = cloud.alice.at(version).get(path).json["server_group"]
        assert read.keys() == fields
        assert read.items() >= shown.items()
    assert cloud.alice.at("2.1").get(soft_path).json["server_group"]["policies"] == ["soft-affinity"]


@pytest.mark.sqlite_only
def test_older_microversions_show_the_first_policy(cloud: Cloud) -> None:
    group = made(cloud.alice, name="g", policies=["anti-affinity", "soft-affinity"], rules={"max_server_per_host": 2})
    path = f"/os-server-groups/{group['id']}"
    assert cloud.alice.at("2.1").get(path).json["server_group"]["policies"] == ["anti-affinity"]
    newer = cloud.alice.at("2.64").get(path).json["server_group"]
    assert (newer["policy"], newer["rules"]) == ("anti-affinity", {"max_server_per_host": 2})


def test_names_may_repeat_and_use_any_script(cloud: Cloud) -> None:
    ids = {made(cloud.alice, name="Ünïcode 群", policies=["affinity"])["id"] for _ in range(2)}
    assert len(ids) == 2
    assert names(cloud.alice.get("/os-server-groups")) == ["Ünïcode 群"] * 2


# Rejected requests


def not_one_of(value: str, kinds: str) -> str:
    return f"Invalid input for field/attribute 0. Value: {value}. '{value}' is not one of {kinds}"


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("version", "group", "message"),
    [
        ("2.1", {"name": "g", "policies": []}, "Value: []. [] should be non-empty"),
        ("2.1", {"name": "g", "policies": ["affinity", "anti-affinity"]}, "['affinity', 'anti-affinity'] is too long"),
        ("2.1", {"name": "g", "policies": ["affinity", "affinity"]}, "has non-unique elements"),
        ("2.1", {"name": "g", "policies": ["legacy"]}, not_one_of("legacy", "['anti-affinity', 'affinity']")),
        (
            "2.14",
            {"name": "g", "policies": ["soft-affinity"]},
            not_one_of("soft-affinity", "['anti-affinity', 'affinity']"),
        ),
        ("2.15", {"name": "g", "policies": ["legacy"]}, not_one_of("legacy", FOUR)),
        ("2.1", {"name": "g"}, "'policies' is a required property"),
        ("2.1", {"policies": ["affinity"]}, "'name' is a required property"),
        ("2.1", {"name": "", "policies": ["affinity"]}, "'' should be non-empty"),
        ("2.1", {"name": " g", "policies": ["affinity"]}, BAD_NAME),
        ("2.1", {"name": "a\nb", "policies": ["affinity"]}, BAD_NAME),
        ("2.1", {"name": "x" * 256, "policies": ["affinity"]}, "is too long"),
        ("2.1", {"name": 5, "policies": ["affinity"]}, "5 is not of type 'string'"),
        (
            "2.1",
            {"name": "g", "policies": ["affinity"], "rules": {}},
            "Additional properties are not allowed ('rules' was unexpected)",
        ),
        ("2.63", {"name": "g", "policy": "affinity"}, "'policies' is a required property"),
        ("2.64", {"name": "g"}, "'policy' is a required property"),
        ("2.64", {"name": "g", "policies": ["affinity"]}, "'policy' is a required property"),
        ("2.64", {"name": "g", "policy": "legacy"}, f"'legacy' is not one of {FOUR}"),
        ("2.64", {"name": "g", "policy": {"name": "affinity"}}, "{'name': 'affinity'} is not of type 'string'"),
        ("2.999", {"name": "g", "policy": {"name": "affinity"}}, "{'name': 'affinity'} is not of type 'string'"),
        ("2.64", {"name": "g", "policy": "affinity:host"}, f"'affinity:host' is not one of {FOUR}"),
        (
            "2.64",
            {"name": "g", "policy": "anti-affinity", "rules": {"other": 1}},
            "Additional properties are not allowed ('other' was unexpected)",
        ),
        ("2.64", {"name": "g", "policy": "anti-affinity", "rules": None}, "None is not of type 'object'"),
        ("2.64", {"name": "g", "policy": "anti-affinity", "rules": []}, "[] is not of type 'object'"),
        (
            "2.64",
            {"name": "g", "policy": "anti-affinity", "rules": {"max_server_per_host": 0}},
            "Invalid input for field/attribute max_server_per_host. Value: 0. 0 is less than the minimum of 1",
        ),
        (
            "2.64",
            {"name": "g", "policy": "anti-affinity", "rules": {"max_server_per_host": "0"}},
            "is less than the minimum of 1",
        ),
        (
            "2.64",
            {"name": "g", "policy": "anti-affinity", "rules": {"max_server_per_host": "-1"}},
            "'-1' does not match '^[0-9]*$'",
        ),
        ("2.64", {"name": "g", "policy": "anti-affinity", "rules": {"max_server_per_host": 1.5}}, "is not of type"),
        ("2.64", {"name": "g", "policy": "anti-affinity", "rules": {"max_server_per_host": True}}, "is not of type"),
        ("2.64", {"name": "g", "policy": "anti-affinity", "rules": {"max_server_per_host": ""}}, "should be non-empty"),
        ("2.64", {"name": "g", "policy": "anti-affinity", "rules": {"max_server_per_host": 2**31}}, "greater than"),
        *(
            ("2.64", {"name": "g", "policy": kind, "rules": {"max_server_per_host": 2}}, "=")
            for kind in ("affinity", "soft-affinity", "soft-anti-affinity")
        ),
        ("2.1000", {"name": "g", "policy": "affinity", "rules": {"max_server_per_host": 2}}, "="),
        ("2.1000", {"name": "g", "policies": ["soft-anti-affinity"], "rules": {"max_server_per_host": 2}}, "="),
        (
            "2.1000",
            {"name": "g", "policies": ["anti-affinity"], "rules": {"max_server_per_rack": 2}},
            "The rule max_server_per_rack needs the policy anti-affinity:rack, without an identifier, in the",
        ),
        (
            "2.1000",
            {"name": "g", "policy": {"name": "affinity", "rules": {"max_server_per_host": 2}}},
            "Only anti-affinity policy supports rules.",
        ),
        ("2.1000", {"name": "g", "policy": {"name": "legacy"}}, "'legacy' has an unknown type"),
        ("2.1000", {"name": "g", "policy": {}}, "'name' is a required property"),
        (
            "2.1000",
            {"name": "g", "policy": {"name": "anti-affinity", "rules": {"max_server_per_host": 0}}},
            "The rule max_server_per_host is 0; it must be at least 1.",
        ),
        (
            "2.1000",
            {"name": "g", "policy": {"name": "anti-affinity", "rules": {"other": 1}}},
            "'other' does not match any of the regexes",
        ),
        (
            "2.1000",
            {"name": "g", "policy": {"name": "anti-affinity", "more": 1}},
            "('more' was unexpected)",
        ),
        (
            "2.1000",
            {"name": "g", "policy": {"name": "anti-affinity"}, "rules": {}},
            "Additional properties are not allowed ('rules' was unexpected)",
        ),
        ("2.1000", {"name": "g"}, "'policy' is a required property"),
        ("2.1000", {"policy": {"name": "affinity"}}, "'name' is a required property"),
        ("2.1000", {"name": "g", "policies": []}, "[] should be non-empty"),
        ("2.1000", {"name": "g", "policies": ["affinity", "affinity"]}, "has non-unique elements"),
        ("2.1000", {"name": "g", "policies": ["nearby"]}, "nearby"),
        ("2.1000", {"name": "g", "policies": ["affinity:shelf"]}, "Policy scope 'shelf' does not exist."),
        ("2.1000", {"name": "g", "policies": ["affinity", "anti-affinity"]}, "contradict each other"),
        ("2.1000", {"name": "g", "policies": ["affinity", "soft-affinity"]}, "repeat each other"),
        ("2.1000", {"name": "g", "policies": ["affinity"], "policy": "affinity"}, "('policy' was unexpected)"),
        ("2.1000", {"name": "g", "policies": ["affinity"], "metadata": {}}, "('metadata' was unexpected)"),
        ("2.1000", None, "None is not of type 'object'"),
    ],
)
def test_invalid_policies_return_400(
    module_cloud: Cloud, version: str, group: dict[str, Any] | None, message: str
) -> None:
    alice = module_cloud.alice.at(version)
    answer = alice.post("/os-server-groups", {"server_group": group})
    assert answer.status == 400, answer.text
    if message == "=":
        assert answer.json == {"badRequest": {"code": 400, "message": "Only anti-affinity policy supports rules."}}
    else:
        assert message in answer.message
    assert alice.get("/os-server-groups").json == {"server_groups": []}


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "None is not of type 'object'"),
        (b"null", "None is not of type 'object'"),
        (b"{", "Malformed request body"),
        (b"{}", "'server_group' is a required property"),
        (b'{"server_group": {"name": "g", "policy": "affinity"}, "more": 1}', "('more' was unexpected)"),
    ],
)
@pytest.mark.parametrize("version", ["2.64", "2.1000"])
def test_malformed_body_returns_400(module_cloud: Cloud, version: str, body: bytes, message: str) -> None:
    answer = module_cloud.alice.at(version).ask("POST", "/os-server-groups", body=body)
    assert answer.status == 400
    assert message in answer.message


# Show, list, delete


def test_group_of_another_project_returns_404(cloud: Cloud) -> None:
    group = cloud.group("affinity")
    for client, key in ((cloud.bob, group), (cloud.alice, UNKNOWN_ID), (cloud.alice, "no-uuid")):
        path = f"/os-server-groups/{key}"
        for answer in (client.get(path), client.delete(path)):
            assert (answer.status, answer.json) == (
                404,
                {"itemNotFound": {"code": 404, "message": f"Instance group {key} could not be found."}},
            )
    assert cloud.admin.get(f"/os-server-groups/{group}").json["server_group"]["project_id"] == "web"
    assert cloud.admin.delete(f"/os-server-groups/{group}").status == 204
    assert cloud.alice.get(f"/os-server-groups/{group}").status == 404


@pytest.mark.sqlite_only
def test_reader_may_only_read(cloud: Cloud) -> None:
    group = cloud.group("affinity")
    reader = cloud.alice.sending(X_Roles="reader")
    assert reader.get(f"/os-server-groups/{group}").status == 200
    assert len(reader.get("/os-server-groups").json["server_groups"]) == 1
    refused = create(reader, name="g", policies=["affinity"]), reader.delete(f"/os-server-groups/{group}")
    for answer, verb in zip(refused, ("create", "delete"), strict=True):
        assert (answer.status, answer.json) == (
            403,
            {
                "forbidden": {
                    "code": 403,
                    "message": f"Policy doesn't allow os_compute_api:os-server-groups:{verb} to be performed.",
                }
            },
        )
    invalid = create(reader, name="g")
    assert invalid.status == 400, "an invalid body beats a missing right"


def test_list_shows_the_callers_project(cloud: Cloud) -> None:
    for client, name in ((cloud.alice, "a1"), (cloud.bob, "b1"), (cloud.alice, "a2"), (cloud.admin, "o1")):
        made(client, name=name, policies=["affinity"])
    assert names(cloud.alice.get("/os-server-groups")) == ["a1", "a2"]
    assert names(cloud.admin.get("/os-server-groups")) == ["o1"]
    for value in ("True", "False", "0", ""):
        assert names(cloud.admin.get("/os-server-groups", all_projects=value)) == ["a1", "b1", "a2", "o1"]
        assert names(cloud.alice.get("/os-server-groups", all_projects=value)) == ["a1", "a2"]


def test_list_is_paged(cloud: Cloud) -> None:
    for number in range(5):
        made(cloud.alice, name=f"g{number}", policies=["affinity"])
    path = "/os-server-groups"
    everything = [f"g{number}" for number in range(5)]
    for query, wanted in (
        ("limit=2", everything[:2]),
        ("limit=2&offset=2", everything[2:4]),
        ("offset=4", everything[4:]),
        ("offset=9", []),
        ("limit=0", everything),
        ("limit=100000", everything),
        (f"limit={'9' * 5000}", everything),
        (f"offset={'9' * 5000}", []),
        ("limit=1&limit=3", everything[:3]),
    ):
        answer = cloud.alice.ask("GET", path, query_string=query)
        assert names(answer) == wanted, query[:20]
        assert answer.json.keys() == {"server_groups"}


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("query", "message"),
    [
        *(
            (
                f"{name}={value}",
                f"Invalid input for query parameters {name}. Value: {value}. '{value}' does not match '^[0-9]*$'",
            )
            for name in ("limit", "offset")
            for value in ("-1", "abc", "1.5")
        ),
        ("limit=", "Invalid input for query parameters limit. Value: . '' should be non-empty"),
    ],
)
def test_invalid_paging_returns_400(module_cloud: Cloud, query: str, message: str) -> None:
    answer = module_cloud.alice.ask("GET", "/os-server-groups", query_string=query)
    assert (answer.status, answer.message) == (400, message)


@pytest.mark.sqlite_only
def test_unknown_parameter_is_rejected_in_newer_microversions(module_cloud: Cloud) -> None:
    alice = module_cloud.alice
    assert alice.at("2.74").get("/os-server-groups", name="x").status == 200
    refused = alice.at("2.75").get("/os-server-groups", name="x")
    assert (refused.status, refused.message) == (400, "Additional properties are not allowed ('name' was unexpected)")


def test_groups_are_limited_by_quota(cloud: Cloud) -> None:
    cloud.set_quota(server_groups=2)
    first = cloud.group("affinity")
    cloud.group("affinity")
    refused = create(cloud.alice, name="g", policies=["affinity"])
    assert (refused.status, refused.json) == (
        403,
        {"forbidden": {"code": 403, "message": "Quota exceeded, too many server groups."}},
    )
    made(cloud.bob, name="g", policies=["affinity"])  # with its own quota
    assert cloud.alice.get("/os-quota-sets/web/detail").json["quota_set"]["server_groups"] == {
        "limit": 2,
        "in_use": 2,
        "reserved": 0,
    }
    cloud.alice.delete(f"/os-server-groups/{first}")
    cloud.group("affinity")
    cloud.set_quota(server_groups=-1)
    cloud.group("affinity")


# Members


def test_members_exclude_deleted_servers(cloud: Cloud) -> None:
    group = cloud.group("soft-anti-affinity")
    assert cloud.members(group) == set()
    asked = cloud.request_server(cloud.alice, group=group)
    first = asked.json["server"]["id"]
    assert cloud.members(group) == {first}, "a server that is being built is a member"
    cloud.settle()
    second = cloud.boot(group=group)
    cloud.boot()  # in no group
    assert cloud.members(group) == {first, second}
    for version in ("2.1", "2.13", "2.64", "2.1000"):
        shown = cloud.alice.at(version).get("/os-server-groups").json["server_groups"][0]
        assert set(shown["members"]) == {first, second}
    cloud.run_action(cloud.alice, second, "shelve")
    assert cloud.members(group) == {first, second}, "a shelved server is a member still"
    cloud.delete(first)
    assert cloud.members(group) == {second}


def test_deleting_a_group_keeps_its_servers(cloud: Cloud) -> None:
    group = cloud.group("anti-affinity")
    servers = [cloud.boot(group=group) for _ in range(3)]
    refused = cloud.act(cloud.admin, servers[0], "migrate")
    assert refused.status == 400
    assert cloud.alice.delete(f"/os-server-groups/{group}").status == 204
    for server in servers:
        shown = cloud.show(server)
        assert (shown["status"], shown["server_groups"]) == ("ACTIVE", [])
    cloud.run_action(cloud.admin, servers[0], "migrate")
    assert cloud.host(servers[0]) in cloud.hosts(servers[1:]), "no policy holds it apart any more"
    again = cloud.request_server(cloud.alice, group=group)
    assert (again.status, again.message) == (400, f"Instance group {group} could not be found.")


@pytest.mark.sqlite_only
def test_other_methods_and_paths_return_404(cloud: Cloud) -> None:
    group = cloud.group("affinity")
    older = cloud.alice.at("2.104")
    for method, path in (("PUT", "/os-server-groups"), ("PATCH", f"/os-server-groups/{group}")):
        answer = older.ask(method, path, json={})
        assert (answer.status, answer.json) == (404, None)


@pytest.mark.sqlite_only
def test_policy_object_has_its_own_rules_and_can_be_posted_back(cloud: Cloud) -> None:
    add_scope(cloud, "rack", {"rack-a": ["node-1"]})
    mixed = {"name": "g", "policies": ["affinity:rack", "anti-affinity"], "rules": {"max_server_per_host": 3}}
    made = cloud.alice.post("/os-server-groups", {"server_group": mixed}).json["server_group"]
    assert made["policy"] == {"name": "affinity:rack", "rules": {}}
    assert made["rules"] == {"max_server_per_host": 3}
    for policy in (
        {"name": "anti-affinity:rack", "rules": {"max_server_per_rack": 2}},
        {"name": "anti-affinity", "rules": {"max_server_per_host": 3}},
        {"name": "affinity", "rules": {}},
        {"name": "soft-affinity:rack", "rules": {}},
    ):
        answer = cloud.alice.post("/os-server-groups", {"server_group": {"name": "g", "policy": policy}})
        assert answer.status == 200, answer.text
        assert answer.json["server_group"]["policy"] == policy


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("form", "message"),
    [
        (
            {"policy": {"name": "affinity", "rules": {"max_server_per_host": 3}}},
            "Only anti-affinity policy supports rules.",
        ),
        (
            {"policy": {"name": "anti-affinity", "rules": {"max_server_per_host": 0}}},
            "The rule max_server_per_host is 0; it must be at least 1.",
        ),
        (
            {"policies": ["anti-affinity"], "rules": {"max_server_per_host": 0}},
            "The rule max_server_per_host is 0; it must be at least 1.",
        ),
    ],
)
def test_rules_that_do_not_apply_are_explained(cloud: Cloud, form: dict[str, Any], message: str) -> None:
    answer = cloud.alice.post("/os-server-groups", {"server_group": {"name": "g", **form}})
    assert (answer.status, answer.message) == (400, message)


def test_limit_with_an_even_spread(cloud: Cloud) -> None:
    group = cloud.group("anti-affinity", "soft-anti-affinity", max_server_per_host=2)
    for expected in ([1, 1, 1], [2, 2, 2]):
        for _ in range(3):
            cloud.boot(group=group)
        assert sorted(cloud.used().values()) == expected
    assert "already hold 2 of the group" in cloud.show(cloud.boot(group=group))["fault"]["message"]
    answer = cloud.alice.put(f"/os-server-groups/{group}", {"server_group": {"rules": {}}})
    assert answer.status == 400
    assert answer.message == (
        "The policies anti-affinity and soft-anti-affinity repeat each other; keep one, "
        "or set the rule max_server_per_host to more than 1."
    )


@pytest.mark.sqlite_only
def test_two_actions_are_named(cloud: Cloud) -> None:
    group = cloud.group("affinity")
    answer = cloud.alice.post(f"/os-server-groups/{group}/action", {"preview": {}, "headroom": {}})
    assert answer.message == "Malformed request body: it has 2 actions (preview, headroom); send one."
