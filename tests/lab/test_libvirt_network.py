"""The network of guests on a real hypervisor: a NIC on a Linux bridge of the host."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from covey.agent.guests import Guest
from tests.lab.conftest import EPOCH, Fleet
from tests.lab.driver_process import DriverProcess
from tests.lab.hosts import Host

pytestmark = [
    pytest.mark.needs_program("libvirt"),
    pytest.mark.skipif(not Path("/dev/net/tun").exists(), reason="the kernel has no /dev/net/tun"),
]

BRIDGE = "guests"


@pytest.fixture
def bridged(fleet: Fleet) -> Iterator[DriverProcess]:
    """A hypervisor on the first host, which has a bridge for its guests."""
    host = fleet.lab.hosts[0]
    host.run("ip", "link", "add", BRIDGE, "type", "bridge")
    host.run("ip", "link", "set", BRIDGE, "up")
    with DriverProcess(host, fleet.drivers[0].settings | {"bridge": BRIDGE}) as driver:
        yield driver
    host.run("ip", "link", "delete", BRIDGE)


def ports(host: Host) -> set[str]:
    """Return the network devices in the bridge."""
    return set(host.run("ls", f"/sys/class/net/{BRIDGE}/brif").split())


def test_nic_of_a_guest_is_in_the_configured_bridge_and_goes_with_the_guest(
    bridged: DriverProcess, fleet: Fleet, new_guest: Callable[..., Guest]
) -> None:
    host, (one, other) = bridged.host, (new_guest(), new_guest())
    for guest in (one, other):
        bridged.spawn(guest, fleet.image, EPOCH)
    taps = {
        guest.id: re.findall(r"<target dev='(\w+)'/>\s*<model type='virtio'/>", host.xml(guest.id))
        for guest in (one, other)
    }
    assert ports(host) == {tap for each in taps.values() for tap in each}
    assert len(ports(host)) == 2
    assert host.run("cat", f"/sys/class/net/{taps[one.id][0]}/operstate").strip() != "down"
    bridged.destroy(one.id, EPOCH + 1)
    assert ports(host) == set(taps[other.id])


def test_guest_without_a_configured_bridge_has_no_nic(fleet: Fleet, guest: Guest) -> None:
    fleet.drivers[0].spawn(guest, fleet.image, EPOCH)
    assert "<interface" not in fleet.lab.hosts[0].xml(guest.id)
