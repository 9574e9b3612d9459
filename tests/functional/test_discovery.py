"""Discovery: versions, links, health and metrics."""

from typing import Any

import pytest

from tests.functional.client import Answer, Client, Service
from tests.functional.conftest import Build

pytestmark = pytest.mark.sqlite_only

HOST = "http://localhost"
MEDIA_TYPES = [{"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"}]
NO_DOMAIN = ("database", "connection", "postgresql://covey@127.0.0.1:1/covey?connect_timeout=2")


@pytest.fixture
def anonymous(module_service: Service) -> Client:
    """An unauthenticated client, at the root of the service."""
    return module_service.as_(None).below("")


@pytest.fixture
def operator(module_service: Service) -> Client:
    return module_service.as_("admin:operators")


def version(**more: Any) -> dict[str, Any]:
    document = {
        "id": "v2.1",
        "status": "CURRENT",
        "version": "2.1000",
        "min_version": "2.1",
        "updated": "2013-07-23T11:33:21Z",
        "links": [{"rel": "self", "href": f"{HOST}/compute/v2.1/"}],
    }
    return document | more


@pytest.mark.parametrize("path", ["/compute", "/compute/"])
def test_compute_root_lists_one_version(anonymous: Client, path: str) -> None:
    answer = anonymous.get(path)
    assert (answer.status, answer.json) == (200, {"versions": [version()]})


def test_service_type_of_covey_has_links_of_its_own(anonymous: Client) -> None:
    links = [{"rel": "self", "href": f"{HOST}/covey/v2.1/"}]
    assert anonymous.get("/covey").json == {"versions": [version(links=links)]}
    assert anonymous.get("/covey/v2.1").json["version"]["links"][0] == links[0]


@pytest.mark.parametrize("path", ["/compute/v2.1", "/compute/v2.1/"])
def test_version_document_has_details(anonymous: Client, path: str) -> None:
    answer = anonymous.get(path)
    guide = {"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/api-ref/compute/"}
    links = [{"rel": "self", "href": f"{HOST}/compute/v2.1/"}, guide]
    assert (answer.status, answer.json) == (
        200,
        {"version": version(links=links) | {"media-types": MEDIA_TYPES}},
    )
    assert answer.headers["openstack-api-version"] == "compute 2.1"


def test_version_document_out_of_range_is_406(anonymous: Client) -> None:
    assert anonymous.at("2.1001").get("/compute/v2.1/").status == 406


@pytest.mark.parametrize("path", ["/foo", "/v2/flavors", "/v3"])
def test_unknown_first_segment_returns_choices(anonymous: Client, path: str) -> None:
    answer = anonymous.get(f"/compute{path}")
    links = [{"rel": "self", "href": f"{HOST}/compute/v2.1{path}"}]
    choice = {"id": "v2.1", "status": "CURRENT", "links": links, "media-types": MEDIA_TYPES}
    assert (answer.status, answer.json) == (300, {"choices": [choice]})


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("GET", "/nonexist", id="an unknown path"),
        pytest.param("POST", "/os-aggregates/1", id="POST to an aggregate"),
        pytest.param("PUT", "/os-aggregates", id="PUT to the list of aggregates"),
        pytest.param("DELETE", "/flavors", id="DELETE of all flavors"),
        pytest.param("PATCH", "/flavors/1", id="PATCH of a flavor"),
        pytest.param("GET", "/os-aggregates/1/action", id="GET of an action"),
        pytest.param("POST", "/limits", id="POST to a read-only path"),
        pytest.param("OPTIONS", "/flavors", id="OPTIONS, which Nova does not answer"),
        pytest.param("GET", "/flavors/1/os-extra_specs/a/b", id="a path with too many segments"),
        pytest.param("POST", "", id="POST to the version itself"),
    ],
)
def test_unknown_route_is_404_in_html(operator: Client, method: str, path: str) -> None:
    answer = operator.ask(method, path)
    assert answer.status == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert "The resource could not be found." in answer.text
    assert answer.headers["x-compute-request-id"] == answer.headers["x-openstack-request-id"]
    assert answer.headers["x-openstack-request-id"].startswith("req-")


def test_unknown_route_requires_authentication(module_service: Service) -> None:
    assert module_service.as_(None).get("/nonexist").status == 401


@pytest.mark.parametrize(
    ("path", "status"), [("/image", 300), ("/image/", 300), ("/image/v2", 200), ("/image/v2/", 200)]
)
def test_image_api_has_one_version(anonymous: Client, path: str, status: int) -> None:
    answer = anonymous.get(path)
    links = [{"rel": "self", "href": f"{HOST}/image/v2/"}]
    assert (answer.status, answer.json) == (
        status,
        {"versions": [{"id": "v2.17", "status": "CURRENT", "links": links}]},
    )


def test_identity_api_has_one_version(anonymous: Client) -> None:
    root, one = anonymous.get("/identity/"), anonymous.get("/identity/v3")
    assert (root.status, one.status) == (300, 200)
    assert root.json == {"versions": {"values": [one.json["version"]]}}
    assert one.json["version"]["links"] == [{"rel": "self", "href": f"{HOST}/identity/v3/"}]
    assert one.json["version"]["status"] == "stable"


def test_version_documents_do_not_use_the_database(build: Build) -> None:
    service = build(NO_DOMAIN)
    for path in ("/", "/compute/", "/compute/v2.1", "/image/v2", "/identity/v3", "/healthcheck/live", "/metrics"):
        assert service.as_(None).below("").get(path).status in {200, 300}, path


def test_one_api_alone_is_at_the_root(build: Build) -> None:
    alone = build(only_api="compute").as_("admin").below("")
    assert alone.get("/").json["versions"][0]["links"] == [{"rel": "self", "href": f"{HOST}/v2.1/"}]
    assert alone.get("/v2.1/").json["version"]["links"][0]["href"] == f"{HOST}/v2.1/"
    assert alone.get("/v2.1/flavors").json == {"flavors": []}
    assert alone.get("/image/").status == 300
    assert alone.get("/healthcheck").json == {"status": "ok", "database": "ok"}
    assert alone.get("/metrics").status == 200


def test_links_begin_with_the_public_url(build: Build) -> None:
    public = build(("api", "public_url", "https://cloud.example/")).as_("admin").below("")
    assert public.get("/compute/").json["versions"][0]["links"][0]["href"] == "https://cloud.example/compute/v2.1/"
    assert public.get("/image/v2").json["versions"][0]["links"][0]["href"] == "https://cloud.example/image/v2/"
    flavor = {"flavor": {"name": "f", "id": "f", "ram": 1, "vcpus": 1, "disk": 0}}
    links = public.post("/compute/v2.1/flavors", flavor).json["flavor"]["links"]
    assert [link["href"] for link in links] == [
        "https://cloud.example/compute/v2.1/flavors/f",
        "https://cloud.example/compute/flavors/f",
    ]


def test_root_lists_the_apis(anonymous: Client) -> None:
    here = anonymous.get("/").json["covey"]
    assert {"compute", "image", "identity", "healthcheck", "metrics"} <= here.keys()
    assert here["compute"] == f"{HOST}/compute/"


def test_unknown_root_path_is_404_in_json(anonymous: Client) -> None:
    answer = anonymous.get("/nowhere")
    assert (answer.status, answer.message) == (404, "The resource could not be found.")


def test_service_is_ready_and_live(anonymous: Client) -> None:
    assert anonymous.get("/healthcheck").json == {"status": "ok", "database": "ok"}
    assert anonymous.get("/healthcheck/").status == 200
    assert anonymous.get("/healthcheck/live").json == {"status": "ok"}


def test_service_without_a_database_is_live_but_not_ready(build: Build) -> None:
    service = build(NO_DOMAIN)
    anonymous = service.as_(None).below("")
    message = "The database does not answer. Try again in a moment."
    ready = anonymous.get("/healthcheck")
    assert (ready.status, ready.json) == (503, {"status": "unavailable", "database": message})
    assert anonymous.get("/healthcheck/live").status == 200
    refused = service.as_("admin").get("/flavors")
    assert (refused.status, refused.json) == (503, {"serviceUnavailable": {"code": 503, "message": message}})


def test_metrics_count_by_route_and_status(service: Service) -> None:
    admin, anonymous = service.as_("admin"), service.as_(None)
    admin.get("/flavors/one")
    admin.get("/flavors/two")
    admin.get("/flavors")
    anonymous.get("/flavors")
    page = anonymous.below("").get("/metrics")
    assert page.headers["content-type"].startswith("text/plain")
    assert counted(page, "/v2.1/flavors/{key}", 404) == 2
    assert counted(page, "/v2.1/flavors", 200) == 1
    assert counted(page, "", 401) == 1
    assert 'covey_http_request_seconds_count{api="compute",method="GET",route="/v2.1/flavors/{key}"} 2.0' in page.text


def counted(page: Answer, route: str, status: int) -> float:
    labels = f'{{api="compute",method="GET",route="{route}",status="{status}"}} '
    (line,) = (text for text in page.text.splitlines() if text.startswith(f"covey_http_requests_total{labels}"))
    return float(line.removeprefix(f"covey_http_requests_total{labels}"))
