"""The laboratory as a fixture, its guests, and a libvirt hypervisor on each host."""

import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from covey.agent.guests import Guest, GuestFlavor, GuestImage
from tests.lab.driver_process import DriverProcess
from tests.lab.hosts import Lab
from tests.lab.sectors import boots, last, make_image

EPOCH = 1_000
NANO = GuestFlavor("nano", 1, 16, 1)


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    import libvirt

    libvirt.registerErrorHandler(lambda *_: None, None)  # a host that is off is no news
    directory = Path(tempfile.mkdtemp(prefix="covey-lab-"))  # short: the names of sockets have 108 bytes
    with Lab(directory) as running:
        make_image(running.shared / "image.qcow2")
        yield running
    shutil.rmtree(directory, ignore_errors=True)


@dataclass(frozen=True)
class Fleet:
    """A hypervisor on each host, all with shared disks or all with local ones."""

    lab: Lab
    drivers: tuple[DriverProcess, ...]
    image: Path

    def where(self, server: str) -> dict[str, bool]:
        """Return the hosts that have the server, and whether it runs there."""
        found = {host.name: host.domains() for host in self.lab.hosts}
        return {name: domains[server] for name, domains in found.items() if server in domains}

    def console(self, server: str) -> str:
        """Return the newest line of all hosts' logs last: with local disks each host has a log of its own."""
        logs: list[str] = [driver.console_log(server, None) for driver in self.drivers]
        return max(logs, key=last)

    def boots(self, server: str) -> int:
        return boots(self.console(server))


def _fleet(lab: Lab, **settings: object) -> tuple[DriverProcess, ...]:
    common = {"peer_uri": "qemu+tcp://{address}/system", "tb_cache_mb": 4}
    common |= {"stop_timeout_s": 0, "start_timeout_s": 20, "connect_timeout_s": 1}
    return tuple(DriverProcess(host, common | settings) for host in lab.hosts)


@pytest.fixture(scope="session")
def shared_fleet(lab: Lab) -> Iterator[Fleet]:
    drivers = _fleet(lab, shared_disks=True, instances=str(lab.shared / "instances"))
    yield from _running(lab, drivers)


@pytest.fixture(scope="session")
def local_fleet(lab: Lab) -> Iterator[Fleet]:
    yield from _running(lab, _fleet(lab, instances=str(lab.local / "instances")))


def _running(lab: Lab, drivers: tuple[DriverProcess, ...]) -> Iterator[Fleet]:
    for driver in drivers:
        driver.start()
    yield Fleet(lab, drivers, lab.shared / "image.qcow2")
    for driver in drivers:
        driver.kill()


@pytest.fixture
def fleet(shared_fleet: Fleet) -> Fleet:
    return _revived(shared_fleet)


@pytest.fixture(params=["shared", "local"])
def any_fleet(request: pytest.FixtureRequest) -> Fleet:
    """Both kinds of disks."""
    return _revived(request.getfixturevalue(f"{request.param}_fleet"))


def _revived(fleet: Fleet) -> Fleet:
    """Start what an earlier test has killed."""
    fleet.lab.power_cycle_unresponsive()
    for driver in fleet.drivers:
        if not driver.is_alive():
            driver.start()
    return fleet


@pytest.fixture
def new_guest(lab: Lab) -> Iterator[Callable[..., Guest]]:
    """Make guests that are removed from all hosts afterwards."""
    made: list[Guest] = []

    def make(**changes: object) -> Guest:
        server = str(uuid.uuid4())
        guest = Guest(server, "web", "web", "p1", "u1", NANO, image=GuestImage("i1", disk_format="qcow2"))
        made.append(replace(guest, **changes))  # type: ignore[arg-type]
        return made[-1]

    yield make
    lab.power_cycle_unresponsive()
    for guest in made:
        for host in lab.hosts:
            host.remove(guest.id)


@pytest.fixture
def guest(new_guest: Callable[..., Guest]) -> Guest:
    return new_guest()
