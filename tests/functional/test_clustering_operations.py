"""Operations on the servers of one node or of a cluster's nodes."""

from typing import Any

import pytest

from tests.functional.cluster_tenants import Tenant, a_tenant
from tests.functional.fleets import BuildCloud, FailingDriver


@pytest.fixture
def driver() -> FailingDriver:
    return FailingDriver()


@pytest.fixture
def alice(build_cloud: BuildCloud, driver: FailingDriver) -> Tenant:
    """Return a tenant whose cluster has two nodes."""
    cloud = build_cloud(driver=driver)
    tenant = a_tenant(cloud, cloud.alice)
    tenant.create(2)
    return tenant


def operate(alice: Tenant, **operation: Any) -> dict[str, Any]:
    """Return the finished action of an operation on the first node."""
    return alice.done(alice.api.post(f"/nodes/{alice.nodes[0]['id']}/ops", operation))


def states(alice: Tenant) -> list[tuple[str, str]]:
    """Return the status of each node and of its server."""
    servers = [alice.cloud.alice.get(f"/servers/{node['physical_id']}").json["server"] for node in alice.nodes]
    return [(node["status"], server["status"]) for node, server in zip(alice.nodes, servers, strict=True)]


def test_node_operation_stops_and_starts_a_server(alice: Tenant) -> None:
    assert operate(alice, stop={})["status"] == "SUCCEEDED"
    assert states(alice) == [("WARNING", "SHUTOFF"), ("ACTIVE", "ACTIVE")]
    again = operate(alice, stop={})
    assert again["status"] == "FAILED"
    assert "stopped" in again["status_reason"]
    assert operate(alice, start={})["status"] == "SUCCEEDED"
    assert states(alice) == [("ACTIVE", "ACTIVE")] * 2


def test_cluster_operation_reaches_each_node(alice: Tenant, driver: FailingDriver) -> None:
    action = alice.done(alice.api.post("/clusters/web/ops", {"reboot": {"params": {"type": "HARD"}}}))
    assert action["status"] == "SUCCEEDED"
    rebooted = sorted(server for verb, server, _ in driver.done if verb == "reboot_hard")
    assert rebooted == sorted(node["physical_id"] for node in alice.nodes)
    derived = alice.api.get("/actions", action="NODE_OPERATION").json["actions"]
    assert [(unit["cause"], unit["status"]) for unit in derived] == [("Derived Action", "SUCCEEDED")] * 2
    assert {unit["target"] for unit in derived} == {node["id"] for node in alice.nodes}


@pytest.mark.sqlite_only
def test_host_failure_is_reported_without_the_host_name(alice: Tenant, driver: FailingDriver) -> None:
    driver.verbs.add("reboot")
    action = alice.done(alice.api.post("/clusters/web/ops", {"reboot": {}}))
    assert (action["status"], action["status_reason"]) == (
        "FAILED",
        "Failed in operating on nodes. The host failed to carry out the action.",
    )
    assert states(alice) == [("ACTIVE", "ACTIVE")] * 2


@pytest.mark.sqlite_only
def test_unsupported_operation_fails(alice: Tenant) -> None:
    action = operate(alice, change_password={"admin_pass": "x"})
    assert (action["status"], action["status_reason"]) == (
        "FAILED",
        "The operation 'change_password' is not offered by this cloud.",
    )
    assert states(alice) == [("ACTIVE", "ACTIVE")] * 2


def test_locked_server_rejects_a_stop(alice: Tenant) -> None:
    assert operate(alice, lock={})["status"] == "SUCCEEDED"
    assert "locked" in operate(alice, stop={})["status_reason"]
    assert operate(alice, unlock={})["status"] == "SUCCEEDED"
    assert operate(alice, stop={})["status"] == "SUCCEEDED"


def test_operation_on_a_deleted_server_fails(alice: Tenant) -> None:
    alice.cloud.delete(alice.nodes[0]["physical_id"])
    assert operate(alice, reboot={})["status_reason"] == "The node has no server."


@pytest.mark.sqlite_only
def test_only_operators_evacuate(alice: Tenant) -> None:
    action = operate(alice, evacuate={})
    assert action["status"] == "FAILED"
    assert "os_compute_api:os-evacuate" in action["status_reason"]
