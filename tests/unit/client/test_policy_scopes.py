"""`openstack policy scope ...`: requests and output."""

import pytest
from osc_lib.exceptions import CommandError

from tests.unit.client.wire import Answer, Wire

RACK = {
    "id": "scope-1",
    "name": "rack",
    "allow_identifiers": True,
    "obfuscate_identifiers": False,
    "obfuscate_namespace_uuid": "6f72348f-df5d-4e0f-a043-4be92996dbfe",
    "aggregates": [{"id": 12, "uuid": "agg-12", "name": "rack-1", "group_id": "12", "hosts": ["a", "b"]}],
}
ONE: Answer = (200, {"policy_scope": RACK})
FORBIDDEN: Answer = (403, {"forbidden": {"code": 403, "message": "Only an administrator may."}})


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ("", {"allow_identifiers": False, "obfuscate_identifiers": False}),
        ("--allow-identifiers", {"allow_identifiers": True, "obfuscate_identifiers": False}),
        (
            "--allow-identifiers --obfuscate-identifiers --namespace some-uuid",
            {"allow_identifiers": True, "obfuscate_identifiers": True, "obfuscate_namespace_uuid": "some-uuid"},
        ),
    ],
)
def test_scope_is_created_with_the_given_options(options: str, sent: dict[str, object]) -> None:
    wire = Wire({"POST /os-policy-scopes": ONE})
    assert wire.run(f"policy scope create rack {options}") == RACK
    assert wire.last().body == {"policy_scope": {"name": "rack"} | sent}


def test_scopes_are_listed_with_booleans() -> None:
    wire = Wire({"GET /os-policy-scopes": (200, {"policy_scopes": [RACK]})})
    assert wire.run("policy scope list") == [
        {"ID": "scope-1", "Name": "rack", "Allow Identifiers": True, "Obfuscate Identifiers": False}
    ]


def test_output_is_a_table() -> None:
    table = Wire({"GET /os-policy-scopes/rack": ONE}).output("policy scope show rack")
    assert "| name                     | rack " in table
    assert "name='rack-1'" in table


def test_scope_is_shown_as_a_project_sees_it() -> None:
    projects = {"projects": [{"id": "p-1", "name": "web"}]}
    wire = Wire({"GET /os-policy-scopes/rack": ONE, "GET /identity/v3/projects": (200, projects)})
    wire.run("policy scope show rack --as-project web")
    assert wire.last().query == {"as_tenant_id": "p-1"}


def test_scopes_are_listed_as_a_project_sees_them() -> None:
    seen = RACK | {"aggregates": [RACK["aggregates"][0] | {"obfuscated_group_id": "surrogate"}]}  # type: ignore[index]
    hidden = RACK | {"name": "row"}
    projects = {"projects": [{"id": "p-1", "name": "web"}]}
    scopes = {"policy_scopes": [seen, hidden]}
    wire = Wire({"GET /os-policy-scopes": (200, scopes), "GET /identity/v3/projects": (200, projects)})
    listed = wire.run("policy scope list --as-project web")
    assert [(scope["Name"], scope["Identifiers"]) for scope in listed] == [("rack", ["surrogate"]), ("row", [])]
    assert wire.last().query == {"as_tenant_id": "p-1"}


def test_project_lookup_falls_back_to_the_id() -> None:
    refused = {f"GET /identity/v3/projects{below}": FORBIDDEN for below in ("", "/p-1")}
    wire = Wire({"GET /os-policy-scopes/rack": ONE} | refused)
    wire.run("policy scope show rack --as-project p-1")
    assert wire.last().query == {"as_tenant_id": "p-1"}


def test_name_is_quoted_in_the_url() -> None:
    wire = Wire({"GET /os-policy-scopes/a%2Fb": ONE})
    assert wire.run("policy scope show a/b") == RACK


@pytest.mark.parametrize(
    ("command", "sent"),
    [
        ("set rack --name cabinet", {"name": "cabinet"}),
        ("set rack --allow-identifiers", {"allow_identifiers": True}),
        (
            "set rack --no-allow-identifiers --obfuscate-identifiers",
            {"allow_identifiers": False, "obfuscate_identifiers": True},
        ),
        ("set rack --no-obfuscate-identifiers", {"obfuscate_identifiers": False}),
        ("unset rack --allow-identifiers", {"allow_identifiers": False}),
        (
            "unset rack --allow-identifiers --obfuscate-identifiers",
            {"allow_identifiers": False, "obfuscate_identifiers": False},
        ),
    ],
)
def test_only_given_options_are_changed(command: str, sent: dict[str, object]) -> None:
    wire = Wire({"PUT /os-policy-scopes/rack": ONE})
    assert wire.output(f"policy scope {command}") == ""
    assert wire.last().body == {"policy_scope": sent}


@pytest.mark.parametrize("command", ["set rack", "unset rack"])
def test_empty_change_is_not_sent(command: str) -> None:
    wire = Wire({"PUT /os-policy-scopes/rack": ONE})
    with pytest.raises(CommandError, match="at least one option"):
        wire.output(f"policy scope {command}")
    assert wire.sent == []


def test_deletable_scopes_are_deleted_despite_failures(caplog: pytest.LogCaptureFixture) -> None:
    used = (409, {"conflictingRequest": {"code": 409, "message": "rack has aggregates."}})
    gone = (204, None)
    wire = Wire({f"DELETE /os-policy-scopes/{name}": gone for name in "ab"} | {"DELETE /os-policy-scopes/rack": used})
    with pytest.raises(CommandError, match=r"^1 of 3 policy scopes failed to delete\.$"):
        wire.output("policy scope delete a rack b")
    assert [request.route[-1] for request in wire.sent] == ["a", "k", "b"]
    assert caplog.messages == ["rack has aggregates."]


@pytest.mark.parametrize("verb", ["add", "remove"])
def test_aggregate_is_sent_by_id(verb: str) -> None:
    found = (200, {"aggregates": [{"id": 12, "name": "rack-1"}, {"id": 13, "name": "rack-2"}]})
    wire = Wire({"GET /os-aggregates": found, "POST /os-policy-scopes/rack/action": ONE})
    assert wire.run(f"policy scope {verb} aggregate rack rack-2") == RACK
    assert wire.last().body == {f"{verb}_aggregate": {"aggregate": 13}}
