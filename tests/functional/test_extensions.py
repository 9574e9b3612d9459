"""Extensions, for older clients."""

import pytest

from tests.functional.client import Client, Service

pytestmark = pytest.mark.sqlite_only


@pytest.fixture
def member(module_service: Service) -> Client:
    return module_service.as_("alice:web")


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
