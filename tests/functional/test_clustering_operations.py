"""Operations: what can be done to the servers of nodes, one by one or for a whole cluster."""

from typing import Any

import pytest

from tests.functional.cluster_tenants import Tenant, a_tenant
from tests.functional.fleets import BuildCloud, Moody


@pytest.fixture
def driver() -> Moody:
    return Moody()


@pytest.fixture
def alice(build_cloud: BuildCloud, driver: Moody) -> Tenant:
    """A tenant whose cluster has two nodes."""
    cloud = build_cloud(driver=driver)
    tenant = a_tenant(cloud, cloud.alice)
    tenant.create(2)
    return tenant


def operate(alice: Tenant, **operation: Any) -> dict[str, Any]:
    """What becomes of an operation on the first node."""
    return alice.done(alice.api.post(f"/nodes/{alice.nodes[0]['id']}/ops", operation))


def states(alice: Tenant) -> list[tuple[str, str]]:
    """How the nodes fare, and how their servers do."""
    servers = [alice.cloud.alice.get(f"/servers/{node['physical_id']}").json["server"] for node in alice.nodes]
    return [(node["status"], server["status"]) for node, server in zip(alice.nodes, servers, strict=True)]


def test_one_node_is_stopped_and_started(alice: Tenant) -> None:
    assert operate(alice, stop={})["status"] == "SUCCEEDED"
    assert states(alice) == [("WARNING", "SHUTOFF"), ("ACTIVE", "ACTIVE")]
    again = operate(alice, stop={})
    assert again["status"] == "FAILED"
    assert "stopped" in again["status_reason"]
    assert operate(alice, start={})["status"] == "SUCCEEDED"
    assert states(alice) == [("ACTIVE", "ACTIVE")] * 2


def test_a_cluster_does_it_for_each_node(alice: Tenant, driver: Moody) -> None:
    action = alice.done(alice.api.post("/clusters/web/ops", {"reboot": {"params": {"type": "HARD"}}}))
    assert action["status"] == "SUCCEEDED"
    rebooted = sorted(server for verb, server, _ in driver.done if verb == "reboot")
    assert rebooted == sorted(node["physical_id"] for node in alice.nodes)
    derived = alice.api.get("/actions", action="NODE_OPERATION").json["actions"]
    assert [(unit["cause"], unit["status"]) for unit in derived] == [("Derived Action", "SUCCEEDED")] * 2
    assert {unit["target"] for unit in derived} == {node["id"] for node in alice.nodes}


def test_a_host_that_fails_is_told_without_its_name(alice: Tenant, driver: Moody) -> None:
    driver.verbs.add("reboot")
    action = alice.done(alice.api.post("/clusters/web/ops", {"reboot": {}}))
    assert (action["status"], action["status_reason"]) == (
        "FAILED",
        "Failed in operating on nodes. The host failed to do it.",
    )
    assert states(alice) == [("ACTIVE", "ACTIVE")] * 2


def test_what_nothing_here_can_do(alice: Tenant) -> None:
    action = operate(alice, change_password={"admin_pass": "x"})
    assert (action["status"], action["status_reason"]) == (
        "FAILED",
        "The operation 'change_password' is not offered by this cloud.",
    )
    assert states(alice) == [("ACTIVE", "ACTIVE")] * 2


def test_a_lock_keeps_its_owner_from_stopping_it(alice: Tenant) -> None:
    assert operate(alice, lock={})["status"] == "SUCCEEDED"
    assert "locked" in operate(alice, stop={})["status_reason"]
    assert operate(alice, unlock={})["status"] == "SUCCEEDED"
    assert operate(alice, stop={})["status"] == "SUCCEEDED"


def test_a_server_that_is_gone_is_told(alice: Tenant) -> None:
    alice.cloud.delete(alice.nodes[0]["physical_id"])
    assert operate(alice, reboot={})["status_reason"] == "The node has no server."


def test_only_operators_evacuate(alice: Tenant) -> None:
    action = operate(alice, evacuate={})
    assert action["status"] == "FAILED"
    assert "os_compute_api:os-evacuate" in action["status_reason"]
