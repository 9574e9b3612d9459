"""A reading of changed servers asks Nova for changes, and tells deleted servers from the others."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from covey.model.errors import Invalid, Unavailable
from covey.services.nova_sync.nova import Nova, negotiate
from tests.build import NOW

if TYPE_CHECKING:
    from covey.remote_api import RemoteApi

SINCE = NOW


class Listings:
    """Answers as Nova does to an administrator who lists servers with changes-since."""

    url = "http://nova.example.org/v2.1"
    version: str | None = None

    def __init__(self, *servers: dict[str, Any]) -> None:
        self.servers = servers
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.private_flavors: list[str] = []

    def get(self, path: str, *, version: str | None = None, **query: str) -> Any:
        self.asked.append((path, query | ({} if version is None else {"version": version})))
        if path == "/":
            return {"version": {"version": "2.96"}}
        if path == "/flavors/detail":
            return {"flavors": [a_private_flavor(each) for each in self.private_flavors]}
        if path.endswith("/os-flavor-access"):
            return {"flavor_access": [{"tenant_id": "web"}]}
        if path == "/servers/detail":
            return {"servers": list(self.servers)}
        key = {"/os-server-groups": "server_groups"}.get(path, path.strip("/").split("/")[0].removeprefix("os-"))
        return {key: []}


def a_private_flavor(key: str) -> dict[str, Any]:
    sizes = {"vcpus": 1, "ram": 512, "disk": 1, "OS-FLV-EXT-DATA:ephemeral": 0, "swap": 0, "rxtx_factor": 1.0}
    names: dict[str, Any] = {
        "id": key,
        "name": key,
        "description": None,
        "extra_specs": {},
        "os-flavor-access:is_public": False,
    }
    return sizes | names


def a_server(key: str, status: str, minutes: int) -> dict[str, Any]:
    return {
        "id": key,
        "name": key,
        "tenant_id": "web",
        "user_id": "alice",
        "status": status,
        "updated": f"{SINCE + timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}",
        "OS-EXT-SRV-ATTR:host": "cn1",
        "flavor": {"extra_specs": {}},
    }


def test_changed_and_deleted_servers_are_distinguished() -> None:
    api = Listings(a_server("a", "ACTIVE", 3), a_server("b", "DELETED", 4))
    cloud = Nova(cast("RemoteApi", api)).read(SINCE)
    assert (cloud.is_partial, [*cloud.servers], [*cloud.deleted_servers]) == (True, ["a"], ["b"])
    assert cloud.changed_at == SINCE + timedelta(minutes=4)
    (query,) = [query for path, query in api.asked if path == "/servers/detail"]
    assert query["changes-since"] == f"{SINCE.isoformat()}Z"


def test_complete_reading_requests_all_servers() -> None:
    api = Listings()
    cloud = Nova(cast("RemoteApi", api)).read()
    assert (cloud.is_partial, cloud.changed_at) == (False, None)
    assert all("changes-since" not in query for _, query in api.asked)


def test_partial_reading_requests_the_projects_of_new_private_flavors_only() -> None:
    api = Listings()
    api.private_flavors = ["old"]
    nova = Nova(cast("RemoteApi", api))
    assert nova.read().flavor_access == {"old": {"web"}}
    api.private_flavors.append("new 1")
    for since in (SINCE, SINCE, None):
        assert nova.read(since).flavor_access == {"old": {"web"}, "new 1": {"web"}}
    asked = [path.split("/")[2] for path, _ in api.asked if path.endswith("/os-flavor-access")]
    assert asked == ["old", "new%201", "old", "new%201"]


class OddAnswer:
    """Answers with one document, whatever it is asked."""

    url = "http://nova.example.org"
    version: str | None = None

    def __init__(self, document: Any) -> None:
        self.document = document

    def get(self, _: str, **__: str) -> Any:
        return self.document


@pytest.mark.parametrize(
    "document",
    [{}, [], None, "<html>", {"version": None}, {"version": {"version": ""}}, {"version": {"version": 2}}],
    ids=str,
)
def test_answer_of_another_service_is_unavailable(document: Any) -> None:
    api = cast("RemoteApi", OddAnswer(document))
    for question in (lambda: negotiate(api), Nova(api).read):
        with pytest.raises(Unavailable, match="is it Nova's address"):
            question()


def test_listing_without_its_key_is_unavailable() -> None:
    api = OddAnswer({"version": {"version": "2.96"}})
    with pytest.raises(Unavailable, match="is it Nova's address"):
        Nova(cast("RemoteApi", api)).read()


def test_address_without_a_version_is_refused_with_one_that_has_it() -> None:
    with pytest.raises(Invalid, match=r"Give the address of one: http://nova.example.org/v2.1"):
        negotiate(cast("RemoteApi", OddAnswer({"versions": []})))
