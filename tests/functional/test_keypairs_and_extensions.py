"""Key pairs, which are always empty, and extensions."""

import pytest

from tests.functional.client import Client, Service

pytestmark = pytest.mark.sqlite_only


@pytest.fixture
def member(module_service: Service) -> Client:
    return module_service.as_("alice:web")


@pytest.mark.parametrize("version", ["2.1", "2.10", "2.35", "2.1000"])
def test_key_pairs_are_empty(member: Client, version: str) -> None:
    answer = member.at(version).get("/os-keypairs")
    assert (answer.status, answer.json) == (200, {"keypairs": []})


def test_own_key_pairs_can_be_requested_by_user_id(member: Client) -> None:
    assert member.at("2.10").get("/os-keypairs", user_id="alice").json == {"keypairs": []}


def test_key_pairs_of_another_user_are_forbidden(member: Client) -> None:
    answer = member.at("2.10").get("/os-keypairs", user_id="bob")
    message = "Policy doesn't allow os_compute_api:os-keypairs:index to be performed."
    assert (answer.status, answer.message) == (403, message)


def test_extensions_are_listed_and_shown(member: Client) -> None:
    listed = member.get("/extensions").json["extensions"]
    fields = {"alias", "name", "description", "links", "namespace", "updated"}
    assert all(extension.keys() == fields for extension in listed)
    assert {"os-aggregates", "os-flavor-access", "os-quota-sets"} <= {extension["alias"] for extension in listed}
    for extension in listed:
        assert member.get(f"/extensions/{extension['alias']}").json == {"extension": extension}


def test_unknown_extension_is_404(member: Client) -> None:
    answer = member.get("/extensions/nope")
    assert (answer.status, "itemNotFound" in answer.json) == (404, True)
