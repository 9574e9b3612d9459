"""Covey with real guests on three hosts, used by the stock client and SDK."""

import signal
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from covey.model.agents import FENCING_GRACE
from tests.acceptance.processes import Session
from tests.lab import linux_guest
from tests.lab.cloud import DOWN_AFTER_S, Cloud
from tests.lab.hosts import Host, Lab, wait_for

pytestmark = [
    pytest.mark.needs_program("libvirt"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning"),
]

LEASE_S = 4.0
INTERVAL_S = 2.0  # of heartbeats and of looks at a host's state, on a busy machine


@pytest.fixture(scope="module")
def cloud(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    running = Cloud(lab, tmp_path_factory.mktemp("cloud"))
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def client(cloud: Cloud) -> Iterator[Session]:
    with Session(cloud.client()) as session:
        session.json("flavor create nano --id nano --vcpus 1 --ram 16 --disk 1")
        yield session


@pytest.fixture(scope="module", autouse=True)
def _catalogue(cloud: Cloud, client: Session, lab: Lab) -> None:
    client.json("flavor create wide --id wide --vcpus 2 --ram 32 --disk 2")
    file = f"{lab.shared}/image.qcow2"
    image = client.json(f"image create sector --file {file} --disk-format qcow2 --container-format bare --public")
    cloud.image = image["id"]
    assert cloud.sdk(lambda sdk: sdk.image.get_image(cloud.image)).status == "active"


@pytest.fixture(autouse=True)
def _agreement(cloud: Cloud) -> Iterator[None]:
    """After each test rows and hypervisors agree; then its servers are deleted."""
    yield
    try:
        wait_for(lambda: cloud.recorded() == cloud.really(), 30, 0.3)
    finally:
        cloud.power_cycle_unresponsive()
        cloud.delete(*(server.id for server in cloud.sdk(lambda sdk: list(sdk.compute.servers()))))
    assert not any(cloud.really().values())
    assert [path.name for path in cloud.instances.iterdir() if path.name != "_base"] == []


def running(cloud: Cloud, *names: str, **attributes: Any) -> list[str]:
    """Boot servers, and wait until each has booted once."""
    servers = [cloud.boot(name, **attributes) for name in names]
    for server in servers:
        cloud.wait_for(server)
        cloud.wait_for_boots(server, 1)
    return servers


def test_anti_affinity_group_runs_on_three_hosts_and_a_fourth_member_is_refused(cloud: Cloud) -> None:
    hints = {"group": cloud.group("anti-affinity")}
    servers = running(cloud, "a", "b", "c", scheduler_hints=hints)
    assert {cloud.host_of(server) for server in servers} == {"hv1", "hv2", "hv3"}
    assert all(len(found) == 1 for found in cloud.really().values())
    fourth = cloud.boot("d", scheduler_hints=hints)
    wait_for(lambda: cloud.server(fourth).status == "ERROR")


def test_live_cold_and_resize_moves(cloud: Cloud, client: Session) -> None:
    (server,) = running(cloud, "moves", availability_zone="nova:hv1")
    client.text(f"server migrate --live-migration {server}")
    wait_for(lambda: cloud.host_of(server) != "hv1")
    cloud.wait_for(server)
    second = cloud.host_of(server)
    assert cloud.boots(server) == 1

    client.text(f"server migrate {server}")
    cloud.wait_for(server, "VERIFY_RESIZE")
    assert cloud.host_of(server) != second
    client.text(f"server migrate confirm {server}")
    cloud.wait_for(server)
    cloud.wait_for_boots(server, 2)

    client.text(f"server resize --flavor wide {server}")
    cloud.wait_for(server, "VERIFY_RESIZE")
    client.text(f"server resize confirm {server}")
    cloud.wait_for(server)
    cloud.wait_for_boots(server, 3)
    host = next(host for host in cloud.lab.hosts if host.name == cloud.host_of(server))
    assert "<vcpu placement='static'>2</vcpu>" in host.xml(server)
    assert 'flavor="wide"' in host.xml(server)


def test_rebalance_ends_a_violation_by_live_migration(cloud: Cloud, client: Session) -> None:
    servers = running(cloud, "together-1", "together-2", availability_zone="nova:hv1")
    group = cloud.group("anti-affinity")
    for server in servers:
        client.json(f"server group add server {group} {server}")
    assert len(client.json(f"server group audit {group} --violations")) == 1
    client.text(f"server group rebalance {group}")
    wait_for(lambda: client.json(f"server group audit {group} --violations") == [], 60, 0.5)
    for server in servers:
        cloud.wait_for(server)
        assert cloud.boots(server) == 1
    assert len({cloud.host_of(server) for server in servers}) == 2


def test_unshelved_server_has_its_disk(cloud: Cloud, client: Session) -> None:
    (server,) = running(cloud, "shelved")
    client.text(f"server shelve {server}")
    wait_for(lambda: cloud.server(server).status in {"SHELVED", "SHELVED_OFFLOADED"})
    if cloud.server(server).status == "SHELVED":
        cloud.sdk(lambda sdk: sdk.compute.shelve_offload_server(server))
    cloud.wait_for(server, "SHELVED_OFFLOADED")
    assert not any(cloud.really().values())
    client.text(f"server unshelve {server}")
    cloud.wait_for(server)
    cloud.wait_for_boots(server, 2)


def test_guest_that_is_killed_is_shut_off_within_two_seconds(cloud: Cloud) -> None:
    """Most of the time: the machine may be busy."""
    (server,) = running(cloud, "killed", availability_zone="nova:hv2")
    delays = []
    for boots in (2, 3, 4):
        cloud.lab.hosts[1].kill_guest(server)
        killed_at = time.monotonic()
        wait_for(lambda: cloud.server(server).status == "SHUTOFF")
        delays.append(time.monotonic() - killed_at)
        assert cloud.wait_for(server, "SHUTOFF").power_state == 6
        cloud.sdk(lambda sdk: sdk.compute.start_server(server))
        cloud.wait_for(server)
        cloud.wait_for_boots(server, boots)
    assert statistics.median(delays) <= 2


@pytest.fixture
def fencing_host(cloud: Cloud) -> Iterator[Host]:
    """A host whose agent stops all guests without contact to the service."""
    host = cloud.lab.hosts[2]
    cloud.kill_agent(host)
    cloud.start_agent(host, AGENT__SELF_FENCING_S=str(LEASE_S))
    wait_for(cloud.is_up)
    yield host
    cloud.kill_agent(host)
    cloud.power_cycle_unresponsive()


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(None, id="answers"),
        pytest.param(signal.SIGSTOP, id="hangs"),
        pytest.param(signal.SIGKILL, id="dead", marks=pytest.mark.soak),
    ],
)
def test_host_without_contact_ends_its_guests_whatever_its_libvirtd_does(
    cloud: Cloud, fencing_host: Host, number: int | None
) -> None:
    (server,) = running(cloud, "fences", availability_zone="nova:hv3")
    if number is not None:
        fencing_host.signal_libvirtd(number)
    try:
        fencing_host.disconnect()
        wait_for(
            lambda: not fencing_host.pids_of(f"guest=covey-{server},"), LEASE_S + FENCING_GRACE.total_seconds(), 0.1
        )
    finally:
        fencing_host.reconnect()
        cloud.kill_agent(fencing_host)  # its guardian, which has killed the agent; systemd would start that again
        if number == signal.SIGSTOP:
            fencing_host.signal_libvirtd(signal.SIGCONT)
        elif number == signal.SIGKILL:
            fencing_host.start_libvirtd()
    cloud.power_cycle_unresponsive()
    cloud.wait_for(server)  # the service still has it here
    cloud.wait_for_boots(server, 2)


def test_host_that_is_unplugged_is_evacuated_after_fencing_and_removes_its_orphans(
    cloud: Cloud, client: Session
) -> None:
    host = cloud.lab.hosts[2]
    servers = running(cloud, "lost-1", "lost-2", availability_zone="nova:hv3")
    (safe,) = running(cloud, "safe", availability_zone="nova:hv1")
    host.power_off()
    wait_for(lambda: cloud.states()["hv3"] == "down", 6 * DOWN_AFTER_S, 0.2)
    refused = client.refusal(f"server evacuate {servers[0]}")  # it may still run: nothing has fenced the host
    assert "hv3" in refused, refused
    assert cloud.host_of(servers[0]) == "hv3"

    client.text("compute service set --down hv3 nova-compute")
    for server in servers:
        client.text(f"server evacuate {server}")
    for server in servers:
        assert cloud.wait_for(server, "SHUTOFF").compute_host != "hv3"  # stopped, from microversion 2.95 on
        assert cloud.boots(server) == 1
        client.text(f"server start {server}")
        cloud.wait_for(server)
        cloud.wait_for_boots(server, 2)

    host.power_on()
    client.text("compute service set --up hv3 nova-compute")
    cloud.start_agent(host)
    wait_for(lambda: cloud.states()["hv3"] == "up", 60, 0.2)
    assert host.domains() == {}
    assert [cloud.boots(server) for server in (*servers, safe)] == [2, 2, 1]


def test_host_that_is_cut_off_is_down_in_time_fenced_by_the_command_and_evacuated(
    cloud: Cloud, client: Session
) -> None:
    host = cloud.lab.hosts[2]
    (server,) = running(cloud, "cut-off", availability_zone="nova:hv3")
    cut_at = time.monotonic()
    host.disconnect()
    wait_for(lambda: cloud.states()["hv3"] == "down", every=0.1)
    assert time.monotonic() - cut_at <= DOWN_AFTER_S + INTERVAL_S
    assert host.domains() == {server: True}
    cloud.covey("host", "fence", "hv3", "--evacuate")
    assert not host.is_on()
    wait_for(lambda: cloud.host_of(server) != "hv3")
    cloud.wait_for(server)
    cloud.wait_for_boots(server, 2)

    host.power_off()
    host.power_on()
    client.text("compute service set --up hv3 nova-compute")
    cloud.start_agent(host)
    wait_for(cloud.is_up)
    assert host.domains() == {}
    assert cloud.boots(server) == 2


def test_cluster_grows_over_racks(cloud: Cloud, client: Session) -> None:
    client.json("policy scope create rack")
    for number in (1, 2, 3):
        client.json(f"aggregate create rack-{number}")
        client.json(f"aggregate add host rack-{number} hv{number}")
        client.json(f"policy scope add aggregate rack rack-{number}")
    group = cloud.group("anti-affinity:rack")
    properties = {"flavor": "nano", "image": cloud.image, "scheduler_hints": {"group": group}}
    spec = {"type": "os.nova.server", "version": "1.0", "properties": properties}
    profile = cloud.sdk(lambda sdk: sdk.clustering.create_profile(name="nano", spec=spec))
    cluster = cloud.sdk(
        lambda sdk: sdk.clustering.create_cluster(name="grows", profile_id=profile.id, desired_capacity=1)
    )

    def nodes() -> list[Any]:
        found = cloud.sdk(lambda sdk: list(sdk.clustering.nodes(cluster_id=cluster.id)))
        return [node for node in found if node.status == "ACTIVE"]

    wait_for(lambda: len(nodes()) == 1, 60, 0.3)
    cloud.sdk(lambda sdk: sdk.clustering.scale_out_cluster(cluster.id, 2))
    wait_for(lambda: len(nodes()) == 3, 60, 0.3)
    servers = [node.physical_id for node in nodes()]
    assert {cloud.wait_for(server).compute_host for server in servers} == {"hv1", "hv2", "hv3"}
    assert cloud.really() == cloud.recorded()
    cloud.sdk(lambda sdk: sdk.clustering.delete_cluster(cluster.id, force_delete=True))
    wait_for(lambda: not any(cloud.really().values()), 60, 0.3)


def test_linux_guest_prints_its_hostname_and_key_on_its_console(cloud: Cloud, client: Session, tmp_path: Path) -> None:
    try:
        image = linux_guest.image()
    except linux_guest.Unavailable as error:
        pytest.skip(f"the packages of the Linux guest are not available: {error}")
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGrHl7mZJ2cZ2Wl0l2n4nq3m8qfJQm1q0x9gk1i2bY3c laptop"
    (tmp_path / "key").write_text(key)
    (tmp_path / "script").write_text("#!/bin/sh\necho LINUX user data ran\n")
    client.json(f"image create linux --file {image} --disk-format iso --container-format bare")
    client.json(f"flavor create linux --id linux --vcpus 1 --ram {linux_guest.MEMORY_MB} --disk 1")
    client.json(f"keypair create laptop --public-key {tmp_path}/key")
    client.json(
        f"server create penguin --image linux --flavor linux --key-name laptop --user-data {tmp_path}/script "
        "--no-network --use-config-drive"
    )
    wait_for(lambda: "LINUX done" in client.text("console log show penguin"), 240, 2)
    console = client.text("console log show penguin")
    assert '"hostname": "penguin"' in console
    assert key in console
    assert "LINUX user data ran" in console
    cloud.wait_for(cloud.sdk(lambda sdk: sdk.compute.find_server("penguin")).id, "SHUTOFF")  # it powers itself off
