"""CORS: what a page of another origin may do, by the options of [cors]. One kind of database is enough."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import SQLite
from tests.functional.client import Client
from tests.functional.conftest import Build

ORIGIN = "https://cloud.example"
OPTIONS = (
    ("cors", "allowed_origin", ORIGIN),
    ("cors", "allow_headers", "openstack-api-version,x-auth-token"),
    ("cors", "expose_headers", "x-openstack-request-id,etag"),
    ("cors", "allow_methods", "GET,POST"),
    ("cors", "max_age", 600),
)
ALLOWS = "access-control-allow-origin"
PROVIDERS = "/placement/resource_providers"
# Placement's preflight has no content type, which Falcon's test client rejects; Placement's suite covers it.
PATHS = ["/compute/v2.1/servers", "/image/v2/images", "/clustering/v1/clusters", "/"]


@pytest.fixture
def database(sqlite_server: SQLite, tmp_path: Path) -> Iterator[str]:
    with sqlite_server.fresh(tmp_path) as url:
        yield url


@pytest.fixture
def page(build: Build) -> Client:
    """A page of the allowed origin, without a token."""
    return build(*OPTIONS).as_(None).below("").sending(Origin=ORIGIN)


def preflight(page: Client, method: str = "GET", headers: str = "x-auth-token", path: str = PATHS[0]) -> dict[str, str]:
    asked = page.sending(Access_Control_Request_Method=method, Access_Control_Request_Headers=headers)
    answer = asked.ask("OPTIONS", path)
    assert (answer.status, answer.text) == (200, "")
    assert "www-authenticate" not in answer.headers
    return answer.headers


@pytest.mark.parametrize("path", PATHS)
def test_preflight_of_an_allowed_origin_is_answered_without_a_token(page: Client, path: str) -> None:
    headers = preflight(page, path=path)
    assert headers[ALLOWS] == ORIGIN
    assert headers["access-control-allow-methods"] == "GET"
    assert headers["access-control-allow-headers"] == "x-auth-token"
    assert headers["access-control-allow-credentials"] == "true"
    assert headers["access-control-max-age"] == "600"
    assert "origin" in headers["vary"].lower()


@pytest.mark.parametrize("header", ["X-Auth-Token", "content-type", "OpenStack-API-Version, Accept"])
def test_preflight_allows_listed_and_simple_headers_in_any_case(page: Client, header: str) -> None:
    assert preflight(page, headers=header)["access-control-allow-headers"].replace(", ", ",") == header.replace(
        ", ", ","
    )


def test_preflight_for_a_method_that_is_not_listed_allows_nothing(page: Client) -> None:
    assert ALLOWS not in preflight(page, method="DELETE")


def test_preflight_for_a_header_that_is_not_listed_allows_nothing(page: Client) -> None:
    assert ALLOWS not in preflight(page, headers="x-auth-token, x-other")


def test_preflight_of_another_origin_allows_nothing(page: Client) -> None:
    assert ALLOWS not in preflight(page.sending(Origin="https://elsewhere.example"))


def test_options_without_a_requested_method_allows_nothing(page: Client) -> None:
    answer = page.ask("OPTIONS", PATHS[0])
    assert (answer.status, ALLOWS in answer.headers) == (200, False)


@pytest.mark.parametrize(("token", "status"), [("admin:operators", 200), (None, 401)])
def test_responses_and_errors_to_an_allowed_origin_have_cors_headers(
    page: Client, token: str | None, status: int
) -> None:
    answer = page.ask("GET", PROVIDERS, headers={"X-Auth-Token": token} if token else {})
    assert answer.status == status
    assert answer.headers[ALLOWS] == ORIGIN
    assert answer.headers["access-control-allow-credentials"] == "true"
    exposed = answer.headers["access-control-expose-headers"]
    assert exposed.replace(" ", "") == "x-openstack-request-id,etag"


def test_vary_header_of_the_api_is_kept(page: Client) -> None:
    answer = page.ask("GET", PROVIDERS, headers={"X-Auth-Token": "admin:operators"})
    assert {name.strip().lower() for name in answer.headers["vary"].split(",")} == {"origin", "openstack-api-version"}


def test_answer_to_another_origin_has_no_cors_headers(page: Client) -> None:
    answer = page.sending(Origin="https://elsewhere.example").ask("GET", "/")
    assert (answer.status, ALLOWS in answer.headers) == (200, False)


def test_wildcard_origin_never_shares_the_credentials_of_a_caller(build: Build) -> None:
    page = build(("cors", "allowed_origin", "*")).as_(None).below("").sending(Origin="https://elsewhere.example")
    assert page.ask("GET", "/").headers[ALLOWS] == "*"


def test_service_without_allowed_origins_sends_no_cors_headers(build: Build) -> None:
    page = build().as_(None).below("").sending(Origin=ORIGIN)
    assert ALLOWS not in page.ask("GET", "/").headers
    assert page.sending(Access_Control_Request_Method="GET").ask("OPTIONS", PATHS[0]).status == 401
