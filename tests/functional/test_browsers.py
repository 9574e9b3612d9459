"""Requests that a web page of another site makes a browser send."""

import pytest

from tests.functional.client import Client, Service
from tests.functional.clusters import as_clustering_client
from tests.functional.conftest import Build

pytestmark = pytest.mark.sqlite_only

PROVIDER = "6a6e6a4c-5fb3-4d9b-9b5a-3e6b0a1c2d3e"
EVIL, FRIEND = "https://evil.example", "https://cloud.example"
GROUP = {"server_group": {"name": "g", "policies": ["anti-affinity"]}}

CROSS_SITE = {
    "a page of another site": {"Sec-Fetch-Site": "cross-site", "Origin": EVIL},
    "a page of another port": {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:3000"},
    "a request without an origin": {"Sec-Fetch-Site": "cross-site"},
    "an older browser": {"Origin": EVIL},
    "a sandboxed frame": {"Origin": "null"},
}
OWN = {
    "the dashboard": {"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost"},
    "the dashboard behind a proxy that terminates TLS": {"Origin": "https://localhost"},
    "a request of the user": {"Sec-Fetch-Site": "none"},
    "a client that is no browser": {},
}


def groups(client: Client) -> int:
    return len(client.get("/os-server-groups").json["server_groups"])


@pytest.mark.parametrize("headers", CROSS_SITE.values(), ids=CROSS_SITE)
def test_change_by_a_page_of_another_origin_is_refused(alice: Client, headers: dict[str, str]) -> None:
    refused = alice.ask("POST", "/os-server-groups", json=GROUP, headers=headers)
    assert refused.status == 403
    assert refused.message.startswith("A web page of another origin may request no changes")
    assert groups(alice) == 0
    assert alice.ask("GET", "/os-server-groups", headers=headers).status == 200  # the page cannot read the response


@pytest.mark.parametrize("headers", OWN.values(), ids=OWN)
def test_change_by_covey_s_own_page_is_accepted(alice: Client, headers: dict[str, str]) -> None:
    assert alice.ask("POST", "/os-server-groups", json=GROUP, headers=headers).status == 200


def test_cors_admits_its_origins_only(build: Build) -> None:
    alice = build(("cors", "allowed_origin", FRIEND)).as_("alice:web")
    for origin, status in ((FRIEND, 200), (EVIL, 403)):
        for headers in ({"Origin": origin}, {"Origin": origin, "Sec-Fetch-Site": "cross-site"}):
            assert alice.ask("POST", "/os-server-groups", json=GROUP, headers=headers).status == status


@pytest.mark.parametrize("api", ["/image/v2/images", "/clustering/v1/profiles", "/placement/resource_providers"])
def test_every_api_refuses_changes_by_other_sites(service: Service, api: str) -> None:
    admin = service.as_("admin:operators").below("")
    refused = admin.ask("POST", api, json={"name": "x"}, headers={"Sec-Fetch-Site": "cross-site"})
    assert refused.status == 403
    assert "A web page of another origin" in refused.text


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_body_without_its_type_is_refused(alice: Client, content_type: str) -> None:
    """A page of another site can send these without asking first."""
    headers = {"Content-Type": content_type, "Sec-Fetch-Site": "same-origin"}
    body = '{"server_group": {"name": "g", "policies": ["anti-affinity"]}}'
    assert alice.ask("POST", "/os-server-groups", body=body, headers=headers).status == 415
    clustering = as_clustering_client(alice)
    assert clustering.ask("POST", "/profiles", body="{}", headers=headers).status == 415
    assert alice.below("/image/v2").ask("POST", "/images", body='{"name": "x"}', headers=headers).status == 415
    assert groups(alice) == 0


def test_requests_without_a_body_need_no_type(service: Service) -> None:
    images = service.as_("alice:web").below("/image/v2")
    image = images.post("/images", {"name": "i"}).json["id"]
    assert images.put(f"/images/{image}/tags/blue").status == 204
    assert images.delete(f"/images/{image}").status == 204
    placement = service.as_("admin:operators").below("/placement").sending(OpenStack_API_Version="placement 1.39")
    assert placement.post("/resource_providers", {"name": "p", "uuid": PROVIDER}).status == 200
    assert placement.delete(f"/resource_providers/{PROVIDER}").status == 204


HOSTS = {
    "localhost": 200,
    "127.0.0.1": 200,
    "127.8.9.10": 200,
    "[::1]": 200,
    "evil.example": 403,
    "localhost.evil.example": 403,
    "127.0.0.1.evil.example": 403,
    "10.0.0.1": 403,
    "[fe80::1": 403,
    "": 403,
}


@pytest.mark.parametrize(("host", "status"), HOSTS.items())
def test_without_authentication_only_loopback_names_are_answered(service: Service, host: str, status: int) -> None:
    """A page can resolve its own name to 127.0.0.1 (DNS rebinding); the browser then sends that name."""
    for path in ("/compute/v2.1/flavors", "/healthcheck", "/dashboard/"):
        for port in ("", ":8774"):
            asked = service.as_("admin").below("").ask("GET", path, headers={"Host": host + port})
            assert asked.status == status, (path, host + port)
