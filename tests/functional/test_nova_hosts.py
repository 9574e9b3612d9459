"""Requests to change a compute node of Nova get 409 with where to change it."""

import uuid
from typing import Any

import pytest

from tests.functional.client import Client
from tests.functional.fleets import BuildCloud
from tests.functional.nova_consumers import Nova, nova_with_racks
from tests.functional.test_nova_views import URL, mirror

UNKNOWN = str(uuid.UUID(int=4))
HOST = "cn1.example.org"  # of the compute service


@pytest.fixture
def nova(build_cloud: BuildCloud) -> Nova:
    """Covey's own host node-1, beside the compute nodes of Nova."""
    made = nova_with_racks(build_cloud(1))
    mirror(made)
    return made


def requests(client: Client, nova: Nova, host: str) -> list[tuple[int, str]]:
    """Return the answers to requests that would change a host, by its uuid and by its name."""
    own = next(
        each["id"] for each in nova.cloud.admin.get("/os-aggregates").json["aggregates"] if each["name"] == "own"
    )
    path, key = f"/os-aggregates/{own}/action", nova.computes.get(host.partition(".")[0], UNKNOWN)
    state: dict[str, Any] = {"status": "disabled", "disabled_reason": "fan"}
    old = client.at("2.1")
    answers = [
        client.put(f"/os-services/{key}", state),
        client.put(f"/os-services/{key}", {"forced_down": True}),
        client.delete(f"/os-services/{key}"),
        old.put("/os-services/disable", {"host": host, "binary": "nova-compute"}),
        client.post(path, {"add_host": {"host": host}}),
        client.post(path, {"remove_host": {"host": host}}),
    ]
    return [(each.status, str(each.json)) for each in answers]


@pytest.fixture
def _own_aggregate(nova: Nova) -> None:
    assert nova.cloud.admin.post("/os-aggregates", {"aggregate": {"name": "own"}}).status == 200


@pytest.mark.sqlite_only
@pytest.mark.usefixtures("_own_aggregate")
@pytest.mark.parametrize("name", ["cn1", HOST])
def test_request_to_change_a_compute_node_of_nova_says_where(nova: Nova, name: str) -> None:
    answers = requests(nova.cloud.admin, nova, name)
    assert [status for status, _ in answers] == [409] * 6
    for _, text in answers:
        assert f"The compute node {name.partition('.')[0]} belongs to Nova: `openstack " in text
        assert f"at {URL}. Covey mirrors it." in text
    assert ["`openstack aggregate`" in text for _, text in answers] == [False] * 4 + [True] * 2


@pytest.mark.sqlite_only
@pytest.mark.usefixtures("_own_aggregate")
def test_unknown_host_stays_404(nova: Nova) -> None:
    assert [status for status, _ in requests(nova.cloud.admin, nova, "cn77")] == [404] * 6


@pytest.mark.sqlite_only
@pytest.mark.usefixtures("_own_aggregate")
def test_who_may_not_change_hosts_learns_nothing(nova: Nova) -> None:
    known, unknown = (requests(nova.cloud.alice, nova, name) for name in ("cn1", "cn77"))
    assert [status for status, _ in known] == [status for status, _ in unknown] == [403] * 6


def test_reads_show_covey_s_own_hosts_alone(nova: Nova) -> None:
    key = nova.computes["cn1"]
    admin = nova.cloud.admin
    hint = f"The compute node cn1 belongs to Nova: `openstack hypervisor` shows it at {URL}. Covey mirrors it."
    for path in (f"/{key}", "?hypervisor_hostname_pattern=cn1"):
        answer = admin.get(f"/os-hypervisors{path}")
        assert (answer.status, answer.message.endswith(f"be found. {hint}")) == (404, True), answer.text
    assert admin.get(f"/os-hypervisors/{UNKNOWN}").message == f"Hypervisor with ID '{UNKNOWN}' could not be found."
    assert [each["hypervisor_hostname"] for each in admin.get("/os-hypervisors").json["hypervisors"]] == ["node-1"]
    assert [each["host"] for each in admin.get("/os-services").json["services"]] == ["node-1"]


def test_own_server_that_is_sent_to_a_compute_node_of_nova_says_whose_it_is(nova: Nova) -> None:
    cloud = nova.cloud
    server = cloud.boot()
    hint = f"The compute node cn1 belongs to Nova: only Nova's instances run there at {URL}. Covey mirrors it."
    for client, action in (
        (cloud.admin, {"migrate": {"host": "cn1"}}),
        (cloud.admin, {"os-migrateLive": {"host": "cn1", "block_migration": "auto"}}),
    ):
        answer = client.post(f"/servers/{server}/action", action)
        assert (answer.status, answer.message) == (400, f"Compute host cn1 could not be found. {hint}")
    answer = cloud.request_server(cloud.admin, host="cn1")
    assert (answer.status, answer.message) == (400, f"Compute host cn1 could not be found. {hint}")
