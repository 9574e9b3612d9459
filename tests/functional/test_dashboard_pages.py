"""The dashboard's page, its files, and sign-in."""

import gzip
from typing import Any

import pytest

from tests.functional.client import Client, Service
from tests.functional.conftest import Build
from tests.functional.fleets import Cloud

pytestmark = pytest.mark.sqlite_only

GUARDS = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}


def dashboard(client: Client) -> Client:
    return client.below("/dashboard")


def test_page_is_public_with_a_strict_content_security_policy(service: Service) -> None:
    anybody = dashboard(service.as_(None))
    for path in ("", "/"):
        page = anybody.get(path)
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert '<base href="/dashboard/">' in page.text
        assert page.headers.items() >= GUARDS.items()
    policy = page.headers["content-security-policy"].split("; ")
    assert "default-src 'self'" in policy
    assert "unsafe" not in str(policy)
    for inline in ("<style", "style=", "onclick=", "javascript:", "//"):
        assert inline not in page.text


def test_unchanged_file_is_304(service: Service) -> None:
    anybody = dashboard(service.as_(None))
    first = anybody.get("/")
    again = anybody.sending(If_None_Match=first.headers["etag"]).get("/")
    assert (again.status, again.text, again.headers["etag"]) == (304, "", first.headers["etag"])
    assert anybody.sending(If_None_Match='"other"').get("/").status == 200


def test_unknown_files_are_404(service: Service) -> None:
    anybody = dashboard(service.as_(None))
    for path in ("/assets/nothing.js", "/assets/../session.py", "/assets/..%2fsession.py", "/assets/a/b/c.js", "/no"):
        assert anybody.get(path).status in {401, 404}, path
    assert anybody.get("/assets/nothing.js").message == "No file 'nothing.js'."


def test_data_requires_authentication_without_a_browser_prompt(service: Service) -> None:
    refused = dashboard(service.as_(None)).get("/data/me")
    assert refused.status == 401
    assert not refused.headers["www-authenticate"].lower().startswith(("basic", "digest", "negotiate"))


def test_session_returns_the_auth_strategy(service: Service) -> None:
    anybody = dashboard(service.as_(None))
    assert anybody.get("/session").json["auth"] == "none"
    tokenless = anybody.post("/session", {"name": "n", "password": "p", "project": "q"})
    assert tokenless.status == 400
    assert "send credentials with every request" in tokenless.message


def test_me_returns_the_current_user(cloud: Cloud) -> None:
    mine = dashboard(cloud.alice).get("/data/me").json
    assert mine.items() >= {"user": "alice", "project": "web", "is_admin": False, "auth": "none"}.items()
    assert mine["scopes"] == ["host"]
    assert dashboard(cloud.admin).get("/data/me").json["is_admin"] is True


def test_dashboard_is_served_with_all_apis_unless_disabled(build: Build) -> None:
    assert build(only_api="compute").as_("admin").below("/dashboard").get("/data/me").status != 200
    without = build(("dashboard", "enabled", False)).as_("admin")
    assert without.below("/dashboard").get("/data/me").status == 404
    assert "dashboard" not in without.below("").get("/").json["covey"]


def test_response_is_compressed_on_request(cloud: Cloud) -> None:
    for number in range(20):
        cloud.group("anti-affinity", client=cloud.admin if number % 2 else cloud.bob)
    action_requests = dashboard(cloud.admin).sending(Accept_Encoding="gzip, deflate")
    packed: Any = action_requests.http.simulate_get(
        "/dashboard/data/groups", headers={"X-Auth-Token": "admin"} | action_requests.headers
    )
    plain = dashboard(cloud.admin).get("/data/groups")
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.content).decode() == plain.text
    assert packed.headers["etag"] != plain.headers["etag"]
    assert "Accept-Encoding" in packed.headers["vary"]


@pytest.mark.parametrize("body", [{}, {"policies": "affinity"}, {"policies": ["x"]}, {"policies": [], "more": 1}])
def test_invalid_body_is_named(cloud: Cloud, body: Any) -> None:
    answer = dashboard(cloud.alice).post(f"/data/groups/{cloud.group('affinity')}/preview-policies", body)
    assert answer.status == 400
    assert any(word in answer.message for word in ("policies", "policy", "more"))


@pytest.mark.parametrize("query", ["limit=x", "limit=100000", "offset=-1"])
def test_invalid_number_is_named(cloud: Cloud, query: str) -> None:
    answer = dashboard(cloud.alice).ask("GET", "/data/groups", query_string=query)
    assert answer.status == 400
    assert query.partition("=")[0] in answer.message
