"""Explanations: the reasons without a valid host, and the placement of a server."""

import pytest

from tests.functional.client import Answer
from tests.functional.fleets import BuildCloud, Cloud

pytestmark = pytest.mark.sqlite_only

PLACEMENT = {"server_id", "hostId", "decision", "group", "refused"}


def placement(answer: Answer) -> dict[str, object]:
    assert answer.status == 200, answer.text
    shown: dict[str, object] = answer.json["placement"]
    return shown


@pytest.mark.parametrize(
    ("telling", "boot", "move"),
    [
        (
            "counts",
            "No valid host was found. Of 3 hosts: 2 already hold 1 of the group, 1 is disabled.",
            (
                "No valid host was found. Of 3 hosts: 1 is disabled, 1 is excluded by the request, "
                "1 already holds 1 of the group."
            ),
        ),
        (
            "reasons",
            "No valid host was found. Hosts already hold 1 of the group, are disabled.",
            "No valid host was found. Hosts are disabled, are excluded by the request, already hold 1 of the group.",
        ),
        (
            "none",
            "No valid host was found. There are not enough hosts available.",
            "No valid host was found. There are not enough hosts available.",
        ),
    ],
)
def test_tenants_see_the_configured_level_of_detail(
    build_cloud: BuildCloud, telling: str, boot: str, move: str
) -> None:
    cloud = build_cloud(3, ("api", "explain_to_tenants", telling))
    group = cloud.group("anti-affinity")
    cloud.set_host("node-3", status="disabled")
    first, _ = cloud.boot_on("node-1", group), cloud.boot_on("node-2", group)
    lost = cloud.boot(group=group)
    assert cloud.show(lost, cloud.alice)["fault"]["message"] == boot
    assert placement(cloud.alice.get(f"/servers/{lost}/placement"))["refused"] == boot
    manager = cloud.alice.sending(X_Roles="manager")
    assert cloud.act(manager, first, "migrate").message == move
    event = cloud.last_event(first)
    assert event["details"] == move
    assert "traceback" not in event
    # Operators always see all details.
    assert cloud.show(lost)["fault"]["details"] == "of 3 hosts: 2 already hold 1 of the group, 1 is disabled"
    details = cloud.last_event(first, cloud.admin)["traceback"]
    assert details == "of 3 hosts: 1 is disabled, 1 is excluded by the request, 1 already holds 1 of the group"


@pytest.mark.parametrize("telling", ["reasons", "none"])
def test_tenants_do_not_see_the_number_of_hosts(build_cloud: BuildCloud, telling: str) -> None:
    cloud = build_cloud(7, ("api", "explain_to_tenants", telling))
    lost = cloud.boot(flavorRef="giant", min_count=2)
    assert "7" not in cloud.show(lost, cloud.alice)["fault"]["message"]
    assert "7" in cloud.show(lost)["fault"]["details"]


@pytest.mark.parametrize("telling", ["reasons", "none"])
def test_placement_endpoint_hides_the_number_of_hosts(build_cloud: BuildCloud, telling: str) -> None:
    cloud = build_cloud(7, ("api", "explain_to_tenants", telling))
    decision = placement(cloud.alice.get(f"/servers/{cloud.boot()}/placement"))["decision"]
    assert isinstance(decision, dict)
    assert 7 not in decision.values()


def test_fault_reports_an_empty_fleet(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(0)
    lost = cloud.boot()
    assert cloud.show(lost, cloud.alice)["fault"]["message"] == "No valid host was found. There are no hosts."


def test_placement_endpoint_explains_the_decision(cloud: Cloud) -> None:
    group = cloud.group("anti-affinity")
    first, second = cloud.boot_on("node-1", group), cloud.boot(group=group)
    seen = placement(cloud.alice.get(f"/servers/{second}/placement"))
    assert seen.keys() == PLACEMENT
    assert seen["server_id"] == second
    assert seen["hostId"] == cloud.show(second)["hostId"]
    assert seen["decision"] == {"hosts": 3, "candidates": 2, "attempts": 1}
    assert seen["group"] == group
    assert seen["refused"] is None
    answer = cloud.admin.get(f"/servers/{second}/placement")
    details = placement(answer)
    assert details.keys() == PLACEMENT | {"host", "moving_to", "query"}
    assert (details["host"], details["moving_to"]) == (cloud.host(second), None)
    assert details["query"] == "resources=VCPU:1,MEMORY_MB:1024,DISK_GB:10"
    decision = details["decision"]
    assert isinstance(decision, dict)
    assert isinstance(decision["seed"], int)
    assert "node-" not in cloud.alice.get(f"/servers/{first}/placement").text


def test_only_operators_see_the_destination_of_a_move(cloud: Cloud) -> None:
    server = cloud.boot_on("node-1")
    cloud.act(cloud.admin, server, "migrate", {"host": "node-2"})
    details = placement(cloud.admin.get(f"/servers/{server}/placement"))
    assert (details["host"], details["moving_to"]) == ("node-1", "node-2")
    assert "node-" not in cloud.alice.get(f"/servers/{server}/placement").text


def test_refused_server_shows_the_reasons(cloud: Cloud) -> None:
    lost = cloud.boot(flavorRef="giant")
    seen = placement(cloud.alice.get(f"/servers/{lost}/placement"))
    assert (seen["hostId"], seen["group"]) == ("", None)
    assert seen["refused"] == "No valid host was found. Of 3 hosts: 3 lack VCPUs."


def test_placement_endpoint_requires_coveys_microversion(cloud: Cloud) -> None:
    server = cloud.boot()
    older = cloud.alice.at("2.999").get(f"/servers/{server}/placement")
    assert (older.status, older.json) == (
        404,
        {"itemNotFound": {"code": 404, "message": "The resource could not be found."}},
    )
    others = cloud.bob.get(f"/servers/{server}/placement")
    assert (others.status, others.message) == (404, f"Instance {server} could not be found.")
