"""Microversion negotiation, and the version headers of responses."""

import pytest

from tests.functional.client import Client, Service

pytestmark = pytest.mark.sqlite_only

HEADERS = ("openstack-api-version", "x-openstack-nova-api-version")


@pytest.fixture
def caller(module_service: Service) -> Client:
    return module_service.as_("admin:operators")


@pytest.mark.parametrize(
    ("headers", "chosen"),
    [
        pytest.param({}, "2.1", id="no header means the oldest"),
        pytest.param({"OpenStack-API-Version": "compute 2.64"}, "2.64", id="the general header"),
        pytest.param({"X-OpenStack-Nova-API-Version": "2.64"}, "2.64", id="the older header"),
        pytest.param(
            {"OpenStack-API-Version": "compute 2.64", "X-OpenStack-Nova-API-Version": "2.3"},
            "2.64",
            id="the general header wins",
        ),
        pytest.param({"OpenStack-API-Version": "volume 3.5, compute 2.64"}, "2.64", id="one of several services"),
        pytest.param({"OpenStack-API-Version": "COMPUTE  2.64"}, "2.64", id="in capitals and with more space"),
        pytest.param({"OpenStack-API-Version": "volume 3.5"}, "2.1", id="other services are ignored"),
        pytest.param(
            {"OpenStack-API-Version": "volume 3.5", "X-OpenStack-Nova-API-Version": "2.3"},
            "2.3",
            id="the older header applies when the general header names other services",
        ),
        pytest.param({"OpenStack-API-Version": "compute latest"}, "2.1000", id="latest"),
        pytest.param({"X-OpenStack-Nova-API-Version": "latest"}, "2.1000", id="latest by the older header"),
        pytest.param({"OpenStack-API-Version": "compute 2.104"}, "2.104", id="Nova's newest"),
        pytest.param({"OpenStack-API-Version": "compute 2.105"}, "2.105", id="just above Nova's newest"),
        pytest.param({"OpenStack-API-Version": "compute 2.999"}, "2.999", id="just below Covey's own"),
        pytest.param({"OpenStack-API-Version": "compute 2.1000"}, "2.1000", id="Covey's own"),
    ],
)
def test_response_repeats_the_selected_version(caller: Client, headers: dict[str, str], chosen: str) -> None:
    answer = caller.ask("GET", "/flavors", headers=headers)
    assert answer.status == 200
    assert version_headers(answer.headers) == (f"compute {chosen}", chosen)


@pytest.mark.parametrize("prefix", ["/compute/v2.1", "/covey/v2.1"])
def test_service_type_of_covey_names_the_same_versions(caller: Client, prefix: str) -> None:
    answer = caller.below(prefix).sending(OpenStack_API_Version="covey 2.1000").get("/os-policy-scopes")
    assert (answer.status, answer.headers["openstack-api-version"]) == (200, "covey 2.1000")
    refused = caller.below(prefix).sending(OpenStack_API_Version="covey 2.1001").get("/os-policy-scopes")
    assert (refused.status, refused.headers["openstack-api-version"]) == (406, "covey 2.1001")


def test_vary_header_names_the_version(caller: Client) -> None:
    assert caller.get("/flavors").headers["vary"] == "OpenStack-API-Version, X-OpenStack-Nova-API-Version"


def test_errors_have_version_headers(caller: Client) -> None:
    missing = caller.at("2.64").get("/flavors/none")
    assert missing.status == 404
    assert version_headers(missing.headers) == ("compute 2.64", "2.64")
    assert "vary" in missing.headers


@pytest.mark.parametrize("path", ["/flavors", "/flavors/none", "/nonexist", "/os-aggregates/abc"])
def test_request_id_has_two_headers(caller: Client, path: str) -> None:
    first, second = caller.get(path).headers, caller.get(path).headers
    assert first["x-openstack-request-id"] == first["x-compute-request-id"]
    assert first["x-openstack-request-id"].startswith("req-")
    assert first["x-openstack-request-id"] != second["x-openstack-request-id"]


@pytest.mark.parametrize("asked", ["2.1001", "3.0", "2.0", "1.1", "9.9"])
def test_version_out_of_range_is_406(caller: Client, asked: str) -> None:
    answer = caller.at(asked).get("/flavors")
    message = f"Version {asked} is not supported by the API. Minimum is 2.1 and maximum is 2.1000."
    assert (answer.status, answer.json) == (406, {"computeFault": {"code": 406, "message": message}})
    assert version_headers(answer.headers) == (f"compute {asked}", asked)


@pytest.mark.parametrize(
    "asked", ["abc", "2", "2.01", "2.", ".1", "2.1.1", "-2.1", "2.x", "02.1", "2.٣", "2.99999999999"]
)
def test_malformed_version_is_400(caller: Client, asked: str) -> None:
    if not asked.isascii():  # as WSGI decodes bytes
        asked = asked.encode().decode("latin-1")
    answer = caller.ask("GET", "/flavors", headers={"X-OpenStack-Nova-API-Version": asked})
    message = f"API Version String {asked} is of invalid format. Must be of format MajorNum.MinorNum."
    assert (answer.status, answer.json) == (400, {"badRequest": {"code": 400, "message": message}})
    assert not any(header in answer.headers for header in HEADERS)


ID = "6a6e6a4c-5fb3-4d9b-9b5a-3e6b0a1c2d3e"


@pytest.mark.parametrize(
    ("method", "path", "has", "has_not"),
    [
        pytest.param("GET", "/os-hypervisors/1/uptime", "2.1", "2.88", id="uptime ends at 2.88"),
        pytest.param("GET", f"/os-hypervisors/{ID}/uptime", "2.87", "2.88", id="uptime exists until 2.87"),
        pytest.param("GET", "/os-hypervisors/statistics", "2.87", "2.88", id="statistics end at 2.88"),
        pytest.param("GET", "/os-hypervisors/x/search", "2.52", "2.53", id="search ends at 2.53"),
        pytest.param("GET", "/os-hypervisors/x/servers", "2.52", "2.53", id="servers end at 2.53"),
        pytest.param("PUT", "/flavors/x", "2.55", "2.54", id="flavors change from 2.55 on"),
        pytest.param("POST", "/os-aggregates/1/images", "2.81", "2.80", id="images are cached from 2.81 on"),
        pytest.param("PUT", "/os-services/force-down", "2.11", "2.10", id="force-down comes with 2.11"),
    ],
)
def test_routes_depend_on_the_version(caller: Client, method: str, path: str, has: str, has_not: str) -> None:
    body = {"host": "h", "binary": "nova-compute"} if "services" in path else None
    gone = caller.at(has_not).ask(method, path, json=body)
    expected = "Unknown action" if "services" in path else "The resource could not be found."
    assert (gone.status, gone.json) == (404, {"itemNotFound": {"code": 404, "message": expected}})
    there = caller.at(has).ask(method, path, json=body)
    assert there.json is None or expected not in there.text


def version_headers(headers: dict[str, str]) -> tuple[str | None, str | None]:
    first, second = (headers.get(header) for header in HEADERS)
    return first, second
