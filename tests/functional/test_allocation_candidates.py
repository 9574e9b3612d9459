"""Allocation candidates reflect compute immediately, and are valid allocations."""

from typing import Any

import pytest

from tests.functional.client import Client
from tests.functional.fleets import Cloud

CONSUMER = "11111111-1111-1111-1111-111111111111"
EAST = "00000000-0000-0000-0000-0000000000ea"
SMALL = "VCPU:1,MEMORY_MB:1024"


def placement_client(cloud: Cloud, version: str = "1.39", who: str = "admin:operators") -> Client:
    return cloud.service.as_(who).below("/placement").sending(OpenStack_API_Version=f"placement {version}")


def ask(cloud: Cloud, version: str = "1.39", **query: str) -> dict[str, Any]:
    answer = placement_client(cloud, version).get("/allocation_candidates", **query)
    assert answer.status == 200, answer.text
    shown: dict[str, Any] = answer.json
    return shown


def names(cloud: Cloud, **query: str) -> set[str]:
    """Return the hosts of the candidates."""
    found = {uuid for one in ask(cloud, **query)["allocation_requests"] for uuid in one["allocations"]}
    known = {
        host["uuid"]: host["name"]
        for host in placement_client(cloud).get("/resource_providers").json["resource_providers"]
    }
    return {known[uuid] for uuid in found}


def key(cloud: Cloud, name: str) -> str:
    (found,) = placement_client(cloud).get("/resource_providers", name=name).json["resource_providers"]
    return str(found["uuid"])


def used(cloud: Cloud, host: str) -> int:
    return int(ask(cloud, resources=SMALL)["provider_summaries"][key(cloud, host)]["resources"]["VCPU"]["used"])


def test_candidates_reflect_servers_immediately(cloud: Cloud) -> None:
    assert names(cloud, resources=SMALL) == {f"node-{number}" for number in range(1, len(_hosts(cloud)) + 1)}
    server = cloud.boot()
    host = str(cloud.host(server))
    assert used(cloud, host) == 1
    cloud.delete(server)
    assert used(cloud, host) == 0


def test_candidate_is_a_valid_allocation(cloud: Cloud) -> None:
    found = ask(cloud, resources=SMALL, limit="1")
    (candidate,) = found["allocation_requests"]
    (provider,) = candidate["allocations"]
    room = found["provider_summaries"][provider]["resources"]["VCPU"]["capacity"]
    owner = {"project_id": "web", "user_id": "alice", "consumer_generation": None, "consumer_type": "TEST"}
    assert placement_client(cloud).put(f"/allocations/{CONSUMER}", candidate | owner).status == 204
    left = ask(cloud, resources=f"VCPU:{room}", in_tree=provider)
    assert left == {"allocation_requests": [], "provider_summaries": {}}


def test_candidates_reflect_aggregates_traits_and_providers_immediately(cloud: Cloud) -> None:
    all_hosts = names(cloud, resources=SMALL)
    first = key(cloud, "node-1")
    generation = placement_client(cloud).get(f"/resource_providers/{first}").json["generation"]
    body = {"aggregates": [EAST], "resource_provider_generation": generation}
    assert placement_client(cloud).put(f"/resource_providers/{first}/aggregates", body).status == 200
    assert names(cloud, resources=SMALL, member_of=EAST) == {"node-1"}
    assert names(cloud, resources=SMALL, member_of=f"!in:{EAST},{CONSUMER}") == all_hosts - {"node-1"}
    body = {"traits": ["HW_CPU_X86_AVX"], "resource_provider_generation": generation + 1}
    assert placement_client(cloud).put(f"/resource_providers/{first}/traits", body).status == 200
    assert names(cloud, resources=SMALL, required="HW_CPU_X86_AVX") == {"node-1"}
    card = (
        placement_client(cloud)
        .post("/resource_providers", {"name": "card", "parent_provider_uuid": first})
        .json["uuid"]
    )
    body = {"resource_class": "VGPU", "total": 4}
    assert placement_client(cloud).post(f"/resource_providers/{card}/inventories", body).status == 201
    assert names(cloud, resources=f"{SMALL},VGPU:2") == {"node-1", "card"}
    assert ask(cloud, "1.28", resources=f"{SMALL},VGPU:2")["allocation_requests"] == []


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("version", "of_request", "of_summary", "classes"),
    [
        ("1.10", {"allocations"}, {"resources"}, {"VCPU"}),
        ("1.12", {"allocations"}, {"resources"}, {"VCPU"}),
        ("1.17", {"allocations"}, {"resources", "traits"}, {"VCPU"}),
        ("1.27", {"allocations"}, {"resources", "traits"}, {"VCPU", "MEMORY_MB", "DISK_GB"}),
        (
            "1.29",
            {"allocations"},
            {"resources", "traits", "parent_provider_uuid", "root_provider_uuid"},
            {"VCPU", "MEMORY_MB", "DISK_GB"},
        ),
        (
            "1.34",
            {"allocations", "mappings"},
            {"resources", "traits", "parent_provider_uuid", "root_provider_uuid"},
            {"VCPU", "MEMORY_MB", "DISK_GB"},
        ),
    ],
)
def test_response_fields_depend_on_the_version(
    cloud: Cloud, version: str, of_request: set[str], of_summary: set[str], classes: set[str]
) -> None:
    found = ask(cloud, version, resources="VCPU:1")
    request, summary = found["allocation_requests"][0], next(iter(found["provider_summaries"].values()))
    assert (request.keys(), summary.keys(), summary["resources"].keys()) == (of_request, of_summary, classes)
    assert isinstance(request["allocations"], list) == (version == "1.10")


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"resources": "CUSTOM_X:1"}, "No such resource class CUSTOM_X"),
        ({"resources": "VCPU:1", "required": "CUSTOM_B,!CUSTOM_A"}, "No such trait(s): CUSTOM_A, CUSTOM_B"),
        ({"resources": "VCPU:1", "root_required": "NO_SUCH"}, "No such trait(s): NO_SUCH"),
        ({"resources": "VCPU:x"}, "expected positive integer amount. Got: x"),
        ({"resources": "VCPU:1", "what": "now"}, "'what' does not match any of the regexes"),
    ],
)
def test_unknown_names_are_rejected(cloud: Cloud, query: dict[str, str], text: str) -> None:
    answer = placement_client(cloud).get("/allocation_candidates", **query)
    assert (answer.status, text in answer.json["errors"][0]["detail"]) == (400, True), answer.text


@pytest.mark.parametrize("amount", ["2147483648", "9" * 30, "9" * 4000])
def test_excessive_amounts_return_no_candidates(cloud: Cloud, amount: str) -> None:
    assert ask(cloud, resources=f"VCPU:{amount}")["allocation_requests"] == []
    assert ask(cloud, resources="VCPU:1", limit=amount)["allocation_requests"] != []


def test_forbidden_precedes_validation(cloud: Cloud) -> None:
    assert placement_client(cloud, who="alice:web").get("/allocation_candidates", resources="").status == 403


def test_candidates_do_not_exist_before_1_10(cloud: Cloud) -> None:
    assert placement_client(cloud, "1.9").get("/allocation_candidates", resources=SMALL).status == 404


def _hosts(cloud: Cloud) -> list[Any]:
    hypervisors: list[Any] = cloud.admin.get("/os-hypervisors").json["hypervisors"]
    return hypervisors
