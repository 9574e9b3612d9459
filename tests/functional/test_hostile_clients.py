"""Requests that try to occupy the service, or to learn what belongs to another project."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from covey.api.metrics import Metrics
from covey.services.flavors import Flavors
from tests.functional.client import Client, Service
from tests.functional.clusters import as_clustering_client
from tests.functional.conftest import Build
from tests.functional.fleets import UNKNOWN_ID, Cloud

TIMEOUT_S = 10
TAGS = [f"t{number}" for number in range(51)]


@pytest.mark.parametrize("name", ["tags", "tags-any", "not-tags", "not-tags-any"])
def test_tag_filter_takes_fifty_tags(cloud: Cloud, name: str) -> None:
    cloud.boot(name="all", tags=TAGS[:50])
    cloud.boot(name="some", tags=TAGS[:49])
    cloud.boot(name="none")
    wanted = {"tags": ["all"], "tags-any": ["some", "all"], "not-tags": ["none", "some"], "not-tags-any": ["none"]}
    answer = cloud.alice.get("/servers", **{name: ",".join([*TAGS[:50]])})
    assert [server["name"] for server in answer.json["servers"]] == wanted[name]
    refused = cloud.alice.get("/servers", **{name: ",".join(TAGS)})
    assert (refused.status, refused.message) == (400, f"The filter {name} has 51 values; the limit is 50.")


def test_tag_that_is_given_twice_counts_once(cloud: Cloud) -> None:
    cloud.boot(name="a", tags=["x"])
    assert [server["name"] for server in cloud.alice.get("/servers", tags="x,x").json["servers"]] == ["a"]


def test_image_list_takes_fifty_property_filters_and_fifty_tags(cloud: Cloud) -> None:
    images = cloud.alice.below("/image/v2")
    properties = {f"p{number}": "yes" for number in range(51)}
    known = dict(list(properties.items())[:50])
    images.post("/images", {"name": "all", "tags": TAGS[:50], **known})
    images.post("/images", {"name": "some", "tags": TAGS[:49], **known, "p7": "no"})
    for query in ("&".join(f"{key}=yes" for key in known), "&".join(f"tag={tag}" for tag in TAGS[:50])):
        answer = images.ask("GET", "/images", query_string=query)
        assert [image["name"] for image in answer.json["images"]] == ["all"]
    for query, what in (
        ("&".join(f"{key}=yes" for key in properties), "of image properties"),
        ("&".join(f"tag={tag}" for tag in TAGS), "tag"),
    ):
        refused = images.ask("GET", "/images", query_string=query)
        assert refused.status == 400
        assert f"The filter {what} has 51 values; the limit is 50." in refused.text


def test_values_of_a_filter_are_one_subquery(cloud: Cloud) -> None:
    """PostgreSQL would take minutes to plan a join for each of them."""
    asked: list[str] = []
    sa.event.listen(cloud.connection, "before_cursor_execute", lambda *call: asked.append(call[2]))
    images = cloud.alice.below("/image/v2")

    def subqueries(number: int) -> list[int]:
        asked.clear()
        known = TAGS[:number]
        assert cloud.alice.get("/servers", tags=",".join(known)).status == 200
        query = "&".join(f"tag={tag}&{tag}=x" for tag in known)
        assert images.ask("GET", "/images", query_string=query).status == 200
        statements = "\n".join(asked)
        return [statements.count(f"FROM {table}") for table in ("server_tags", "image_tags", "image_properties")]

    assert subqueries(4) == subqueries(2)


def metrics_of(service: Service) -> str:
    return service.as_(None).below("").get("/metrics").text


@pytest.mark.sqlite_only
def test_unknown_methods_paths_and_versions_make_no_metrics(service: Service) -> None:
    caller = service.as_("admin")
    for number in range(20):
        caller.ask(f"VERB{number}", "/servers")
        caller.ask("GET", f"/unknown-{number}")
        caller.at(f"9{number}.1").get(f"/servers/word-{number}")
    page = metrics_of(service)
    assert not any(word in page for word in ("VERB", "unknown-", "word-"))
    assert page.count("covey_http_requests_total{") <= 5


@pytest.mark.sqlite_only
def test_page_of_metrics_is_built_at_most_once_a_second(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    builds, text = list[int](), Metrics.text

    def counted_text(metrics: Metrics) -> bytes:
        builds.append(1)
        return text(metrics)

    monkeypatch.setattr(Metrics, "text", counted_text)
    service = build().as_(None).below("")
    began = time.monotonic()
    assert {service.get("/metrics").status for _ in range(20)} == {200}
    assert len(builds) <= 1 + time.monotonic() - began


@pytest.mark.sqlite_only
def test_metrics_with_a_port_of_their_own_are_not_at_the_apis_port(build: Build) -> None:
    service = build(("api", "metrics_port", 9000)).as_(None).below("")
    assert service.get("/metrics").status == 404
    assert "metrics" not in service.get("/").json["covey"]


@pytest.mark.sqlite_only
def test_health_checks_and_metrics_need_no_request_slot(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    service, answers = build(("api", "request_slots", 1), ("api", "request_timeout_s", 3 * TIMEOUT_S)), list[int]()
    anonymous, get = service.as_(None).below(""), Flavors.get

    def get_slowly(*arguments: Any) -> Any:
        """Hold the slot until the other requests are answered."""
        for path in ("/healthcheck/live", "/healthcheck", "/metrics"):
            answers.append(pool.submit(anonymous.get, path).result(TIMEOUT_S).status)
        return get(*arguments)

    monkeypatch.setattr(Flavors, "get", get_slowly)
    with ThreadPoolExecutor(1) as pool:
        assert service.as_("admin").get("/flavors/unknown").status == 404
    assert answers == [200] * 3


@pytest.mark.sqlite_only
def test_503_has_the_time_of_the_next_attempt(build: Build) -> None:
    caller = build(("database", "connection", "postgresql://covey@127.0.0.1:1/covey?connect_timeout=2")).as_("admin")
    for prefix, path in (
        ("/compute/v2.1", "/flavors"),
        ("/image/v2", "/images"),
        ("/placement", "/resource_providers"),
    ):
        answer = caller.below(prefix).get(path)
        assert (answer.status, answer.headers.get("retry-after")) == (503, "1")


@pytest.mark.parametrize("visibility", ["private", "shared"])
def test_image_of_another_project_is_an_unknown_marker(cloud: Cloud, visibility: str) -> None:
    alice, bob, admin = (caller.below("/image/v2") for caller in (cloud.alice, cloud.bob, cloud.admin))
    secret = bob.post("/images", {"name": "m", "visibility": visibility}).json["id"]
    for name in ("a", "z"):
        alice.post("/images", {"name": name})
    unknown = alice.get("/images", marker=UNKNOWN_ID, sort="name:asc")
    refused = alice.get("/images", marker=secret, sort="name:asc")
    assert (refused.status, refused.text) == (400, unknown.text.replace(UNKNOWN_ID, secret))
    assert [image["name"] for image in admin.get("/images", marker=secret, sort="name:asc").json["images"]] == ["z"]


def test_private_flavor_of_another_project_is_an_unknown_marker(cloud: Cloud) -> None:
    private = {"name": "p", "id": "p", "ram": 1, "vcpus": 1, "disk": 0, "os-flavor-access:is_public": False}
    assert cloud.admin.post("/flavors", {"flavor": private}).status == 200
    refused = cloud.alice.get("/flavors", marker="p")
    assert (refused.status, refused.message) == (400, "marker [p] not found")
    assert cloud.admin.get("/flavors", marker="p", is_public="None").status == 200


def test_profile_of_another_project_is_an_unknown_marker(cloud: Cloud) -> None:
    alice, bob = as_clustering_client(cloud.alice), as_clustering_client(cloud.bob)

    def create(client: Client, name: str) -> str:
        spec = {"type": "os.nova.server", "version": "1.0", "properties": {"flavor": "small"}}
        return str(client.post("/profiles", {"profile": {"name": name, "spec": spec}}).json["profile"]["id"])

    secret, first, _ = create(bob, "m"), create(alice, "a"), create(alice, "z")
    for marker, wanted in ((UNKNOWN_ID, ["a", "z"]), (secret, ["a", "z"]), (first, ["z"])):
        page = alice.get("/profiles", sort="name", marker=marker).json["profiles"]
        assert [profile["name"] for profile in page] == wanted


@pytest.mark.sqlite_only
def test_request_ids_do_not_follow_from_the_state_of_a_generator(service: Service) -> None:
    ids = set()
    for _ in range(2):
        random.seed(1)
        ids.add(service.as_(None).get("/servers").headers["x-openstack-request-id"])
    assert len(ids) == 2


@pytest.mark.parametrize("name", ["id", "name", "status"])
def test_image_list_takes_a_thousand_alternatives(module_cloud: Cloud, name: str) -> None:
    images = module_cloud.alice.below("/image/v2")
    assert images.get("/images", **{name: "in:" + ",".join(["x"] * 1000)}).json["images"] == []
    refused = images.get("/images", **{name: "in:" + "," * 30_000})
    assert (refused.status, refused.message) == (400, f"The filter {name} has 30001 values; the limit is 1000.")


def test_nested_repetitions_are_too_large_an_expression(module_cloud: Cloud) -> None:
    nested = "((a{0,9}){0,9}){0,9}b" * 12  # PostgreSQL takes seconds to compile it
    refused = module_cloud.alice.get("/servers", name=nested)
    assert refused.status == 400
    assert refused.message.endswith("pattern too large - compile failed")
    assert module_cloud.alice.get("/servers", name="^[a-z]{255}$").status == 200


@pytest.mark.sqlite_only
def test_webhook_of_an_unknown_receiver_is_not_found_before_its_body_is_read(module_cloud: Cloud) -> None:
    stranger = module_cloud.service.as_(None).below("/clustering/v1")
    refused = stranger.ask("POST", f"/webhooks/{UNKNOWN_ID}/trigger", query_string="V=2", body="{")
    assert refused.status == 404


@pytest.mark.sqlite_only
def test_placement_takes_larger_bodies_than_other_apis(module_cloud: Cloud) -> None:
    consumers = [f"11111111-1111-4111-8111-{number:012}" for number in range(1_000)]
    taken = {"VCPU": 1, "MEMORY_MB": 1}
    allocation = {"allocations": {UNKNOWN_ID: {"resources": taken}}, "project_id": "p", "user_id": "u"}
    more = {"consumer_generation": None, "consumer_type": "INSTANCE"}
    body = dict.fromkeys(consumers, allocation | more)
    placement = module_cloud.service.as_("admin").below("/placement").sending(OpenStack_API_Version="placement 1.38")
    answer = placement.post("/allocations", body)
    assert (answer.status, "does not exist" in answer.text) == (400, True)
    assert placement.ask("POST", "/allocations", body=" " * (8 * 2**20 + 1), headers=JSON).status == 413
    flavors = module_cloud.service.as_("admin").ask("POST", "/flavors", body=" " * 200_000, headers=JSON)
    assert flavors.status == 413


JSON = {"Content-Type": "application/json"}


def test_hints_look_only_at_the_project_s_own_servers(cloud: Cloud) -> None:
    """A foreign server is like one that does not exist, so that no caller lands beside a victim, or learns of one."""
    victim = cloud.boot_on("node-1")

    def outcome(hints: dict[str, object]) -> tuple[str, str]:
        shown = cloud.show(cloud.boot(cloud.bob, hints=hints), cloud.bob)
        return shown["status"], shown.get("fault", {}).get("message", "")

    assert outcome({"same_host": victim}) == outcome({"same_host": UNKNOWN_ID})
    assert outcome({"same_host": victim})[0] == "ERROR"
    for host in ("node-2", "node-3"):
        cloud.set_down(host)
    assert outcome({"different_host": victim}) == outcome({"different_host": UNKNOWN_ID}) == ("ACTIVE", "")
    cloud.set_down("node-1")
    assert outcome({"different_host": victim}) == outcome({"different_host": UNKNOWN_ID})
