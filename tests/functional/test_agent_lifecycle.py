"""Servers on hosts with agents: a real service, real agents, simulated hypervisors."""

from collections.abc import Iterator

import pytest

from tests.agent_lab import AgentLab
from tests.databases import SQLite
from tests.simulated_guests import running, set_power

pytestmark = pytest.mark.usefixtures("warm")


@pytest.fixture(scope="module")
def lab(sqlite_server: SQLite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentLab]:
    """Two hosts with agents."""
    directory = tmp_path_factory.mktemp("agents")
    with sqlite_server.fresh(directory) as database:
        lab = AgentLab(directory, database)
        try:
            lab.service.start()
            lab.prepare()
            lab.started("node-1", "node-2")
            yield lab
        finally:
            lab.close()


def test_server_boots_on_its_host_from_its_image(lab: AgentLab) -> None:
    server = lab.booted("boots", "node-1")
    assert running(lab.world)[server] == ["node-1"]
    (disk,) = lab.world.read("SELECT image, boots FROM disks WHERE server = ?", server)
    assert disk["boots"] == 1
    cached = lab.agents["node-1"].directory / "state" / "images" / disk["image"]
    assert cached.stat().st_size == 15_000


def test_host_has_the_inventory_of_its_hypervisor(lab: AgentLab) -> None:
    (host,) = [
        each
        for each in lab.ask("GET", "/compute/v2.1/os-hypervisors/detail")["hypervisors"]
        if each["hypervisor_hostname"] == "node-1"
    ]
    assert host["state"] == "up"
    provider = lab.ask("GET", f"/placement/resource_providers/{host['id']}/inventories")["inventories"]
    assert {name: each["total"] for name, each in provider.items()} == {
        "VCPU": 16,
        "MEMORY_MB": 65536,
        "DISK_GB": 1000,
    }
    assert provider["MEMORY_MB"]["reserved"] == 512
    assert provider["VCPU"]["allocation_ratio"] == 4.0


def test_deleted_server_leaves_nothing_on_its_host(lab: AgentLab) -> None:
    server = lab.booted("is-deleted", "node-1")
    lab.delete(server)
    lab.wait_until_gone(server)
    assert lab.world.read("SELECT 1 FROM guests WHERE server = ?", server) == []
    assert lab.world.read("SELECT 1 FROM disks WHERE server = ?", server) == []


def test_power_actions_reach_the_guest(lab: AgentLab) -> None:
    server = lab.booted("is-stopped", "node-1")
    lab.act(server, "os-stop")
    lab.wait_for(server, "SHUTOFF")
    assert server not in running(lab.world)
    lab.act(server, "os-start")
    lab.wait_for(server, "ACTIVE")
    lab.act(server, "reboot", type="HARD")
    lab.wait_for(server, "ACTIVE")
    (disk,) = lab.world.read("SELECT boots FROM disks WHERE server = ?", server)
    assert disk["boots"] == 3


def test_live_migration_moves_the_running_guest(lab: AgentLab) -> None:
    server = lab.booted("moves-live", "node-1")
    lab.act(server, "os-migrateLive", host="node-2", block_migration="auto")
    lab.wait_for(server, "ACTIVE")
    assert lab.host_of(server) == "node-2"
    assert running(lab.world)[server] == ["node-2"]
    (disk,) = lab.world.read("SELECT boots FROM disks WHERE server = ?", server)
    assert disk["boots"] == 1


def test_resized_guest_has_its_new_size_and_goes_back_when_reverted(lab: AgentLab) -> None:
    flavor = {"name": "big", "id": "big", "vcpus": 2, "ram": 1024, "disk": 1}
    lab.ask("POST", "/compute/v2.1/flavors", {"flavor": flavor})
    server = lab.booted("is-resized", "node-1")
    lab.act(server, "resize", flavorRef="big")
    lab.wait_for(server, "VERIFY_RESIZE")
    (guest,) = lab.world.read("SELECT host, vcpus, memory_mb FROM guests WHERE server = ?", server)
    assert (guest["host"], guest["vcpus"], guest["memory_mb"]) == (lab.host_of(server), 2, 1024)
    lab.act(server, "revertResize")
    lab.wait_for(server, "ACTIVE")
    (guest,) = lab.world.read("SELECT host, vcpus, memory_mb FROM guests WHERE server = ?", server)
    assert (guest["host"], guest["vcpus"], guest["memory_mb"]) == ("node-1", 1, 512)


def test_shelved_server_leaves_its_host_and_keeps_its_disk(lab: AgentLab) -> None:
    server = lab.booted("is-shelved", "node-1")
    lab.act(server, "shelve")
    lab.wait_for(server, "SHELVED_OFFLOADED")
    assert lab.world.read("SELECT 1 FROM guests WHERE server = ?", server) == []
    lab.act(server, "unshelve")
    lab.wait_for(server, "ACTIVE")
    (disk,) = lab.world.read("SELECT boots FROM disks WHERE server = ?", server)
    assert disk["boots"] == 2


def test_server_deleted_while_it_is_shelved_leaves_no_disk(lab: AgentLab) -> None:
    server = lab.booted("is-shelved-and-deleted", "node-1")
    lab.act(server, "shelve")
    lab.wait_for(server, "SHELVED_OFFLOADED")
    assert lab.world.read("SELECT 1 FROM disks WHERE server = ?", server) != []
    lab.delete(server)
    lab.wait_until_gone(server)
    assert lab.world.read("SELECT 1 FROM disks WHERE server = ?", server) == []


@pytest.mark.parametrize("power", ["shutdown", "crashed"])
def test_guest_that_ends_by_itself_becomes_shutoff(lab: AgentLab, power: str) -> None:
    server = lab.booted(f"ends-{power}", "node-2")
    set_power(lab.world, server, power)
    lab.wait_for(server, "SHUTOFF")
    lab.act(server, "os-start")
    lab.wait_for(server, "ACTIVE")
    assert running(lab.world)[server] == ["node-2"]


def test_console_log_of_a_guest_is_fetched_from_its_host(lab: AgentLab) -> None:
    server = lab.booted("logs", "node-1")
    answer = lab.ask("POST", f"/compute/v2.1/servers/{server}/action", {"os-getConsoleOutput": {"length": 10}})
    assert answer == {"output": f"{server} on node-1, boot 1\n"}


def test_rows_and_guests_agree_afterwards(lab: AgentLab) -> None:
    lab.wait_for_agreement()
    assert all("Traceback" not in agent.log for agent in lab.agents.values())
