"""The witness of the storm notices a guest that runs twice, and takes no move for one."""

import shutil
from pathlib import Path

import pytest

from covey.agent.guests import Guest
from tests.lab.conftest import EPOCH, Fleet
from tests.lab.hosts import wait_for
from tests.lab.witness import Witness


class Hosts:
    """Directories of two hosts, and the logs of a guest in them."""

    def __init__(self, directory: Path) -> None:
        self.roots = (directory / "hv1", directory / "hv2")
        self.witness = Witness(self.roots)

    def say(self, number: int, boot: int, tick: int) -> None:
        log = self.roots[number] / "server" / "console.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as file:
            file.write(f"GUEST boot={boot:04x} tick={tick:04x}\r\n")
        self.witness.look()


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    return Hosts(tmp_path)


def test_guest_that_boots_and_moves_runs_once(hosts: Hosts) -> None:
    for number, boot, tick in ((0, 1, 0), (0, 1, 1), (0, 2, 0), (1, 2, 1), (1, 3, 0)):
        hosts.say(number, boot, tick)
    shutil.rmtree(hosts.roots[0])
    shutil.rmtree(hosts.roots[1])
    hosts.say(0, 3, 1)
    assert hosts.witness.double_runs == []
    assert hosts.witness.lines == 6


def test_guest_that_returns_to_its_old_log_runs_once(hosts: Hosts) -> None:
    for number, boot, tick in ((0, 1, 0), (0, 2, 0), (1, 2, 1), (1, 2, 2), (0, 2, 3), (0, 3, 0), (1, 3, 1)):
        hosts.say(number, boot, tick)
    assert hosts.witness.double_runs == []


def test_two_guests_of_one_disk_are_noticed(hosts: Hosts) -> None:
    for boot, tick in ((1, 0), (1, 1), (2, 0), (1, 2)):
        hosts.say(0, boot, tick)
    assert len(hosts.witness.double_runs) == 1


def test_two_guests_of_copies_of_a_disk_are_noticed(hosts: Hosts) -> None:
    for tick in range(3):
        hosts.say(0, 1, tick)
        hosts.say(1, 2, tick)
    assert hosts.witness.double_runs != []


@pytest.mark.needs_program("libvirt")
def test_real_guest_that_runs_on_two_hosts_is_noticed(local_fleet: Fleet, guest: Guest) -> None:
    roots = [host.directory / "local" / "instances" for host in local_fleet.lab.hosts]
    with Witness(roots) as witness:
        for driver in local_fleet.drivers[:2]:
            driver.spawn(guest, local_fleet.image, EPOCH)
        wait_for(lambda: witness.double_runs)
