"""Small resources that clients ask for: key pairs, of which there are none, and extensions."""

import pytest

from tests.functional.client import Client, Service

pytestmark = pytest.mark.sqlite_only


@pytest.fixture
def member(lasting: Service) -> Client:
    return lasting.as_("alice:web")


@pytest.mark.parametrize("version", ["2.1", "2.10", "2.35", "2.1000"])
def test_there_are_no_key_pairs(member: Client, version: str) -> None:
    answer = member.at(version).get("/os-keypairs")
    assert (answer.status, answer.json) == (200, {"keypairs": []})


def test_ones_own_key_pairs_may_be_asked_for_by_name(member: Client) -> None:
    assert member.at("2.10").get("/os-keypairs", user_id="alice").json == {"keypairs": []}


def test_another_users_key_pairs_are_none_of_ones_business(member: Client) -> None:
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


def test_an_extension_that_is_not_there_is_404(member: Client) -> None:
    answer = member.get("/extensions/nope")
    assert (answer.status, "itemNotFound" in answer.json) == (404, True)
