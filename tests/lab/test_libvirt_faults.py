"""Agents, libvirtd and whole hosts that die in the middle of a verb: repeated, it ends as if nothing had happened."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from covey.agent.guests import Guest
from tests.lab.conftest import EPOCH, Fleet
from tests.lab.driver_process import Refused
from tests.lab.hosts import wait_for

pytestmark = pytest.mark.needs_program("libvirt")

_SOAK = pytest.mark.soak  # another moment of the same fault
_BROKEN = (Refused, EOFError, ConnectionError, FileNotFoundError)


def killed_while(kill: Callable[[], None], after_s: float, call: Callable[[], None]) -> None:
    killer = threading.Timer(after_s, kill)
    killer.start()
    with suppress(*_BROKEN):
        call()
    killer.join()


@pytest.mark.parametrize("after_s", [pytest.param(0.02, marks=_SOAK), 0.1, pytest.param(0.25, marks=_SOAK)])
def test_agent_killed_while_it_spawns(fleet: Fleet, guest: Guest, after_s: float) -> None:
    driver = fleet.drivers[0]
    killed_while(driver.kill, after_s, lambda: driver.spawn(guest, fleet.image, EPOCH))
    driver.start()
    driver.settle()
    driver.spawn(guest, fleet.image, EPOCH + 1)
    wait_for(lambda: fleet.boots(guest.id) == 1)
    time.sleep(0.3)
    assert fleet.where(guest.id) == {"hv1": True}
    assert fleet.boots(guest.id) == 1


@pytest.mark.soak
@pytest.mark.parametrize("after_s", [0.1, 0.3, 0.6])
def test_libvirtd_killed_while_it_spawns(fleet: Fleet, guest: Guest, after_s: float) -> None:
    host, driver = fleet.lab.hosts[0], fleet.drivers[0]
    killed_while(host.kill_libvirtd, after_s, lambda: driver.spawn(guest, fleet.image, EPOCH))
    host.start_libvirtd()
    driver.settle()
    driver.spawn(guest, fleet.image, EPOCH + 1)
    wait_for(lambda: fleet.boots(guest.id) >= 1)
    assert fleet.where(guest.id) == {"hv1": True}


def test_libvirtd_killed_before_it_starts_qemu(fleet: Fleet, guest: Guest) -> None:
    """Without the drop-in, the next libvirtd can neither start nor destroy the guest."""
    host, driver = fleet.lab.hosts[0], fleet.drivers[0]
    driver.spawn(guest, fleet.image, EPOCH)
    wait_for(lambda: fleet.boots(guest.id) == 1)
    host.leave_half_started(guest.id)
    host.start_libvirtd()
    driver.settle()
    driver.spawn(guest, fleet.image, EPOCH + 1)
    wait_for(lambda: fleet.boots(guest.id) == 2)
    assert fleet.where(guest.id) == {"hv1": True}


@pytest.mark.parametrize("live", [True, False], ids=["live", "cold"])
@pytest.mark.parametrize("after_s", [pytest.param(0.1, marks=_SOAK), 0.4])
def test_agent_killed_while_it_migrates(any_fleet: Fleet, guest: Guest, after_s: float, live: bool) -> None:
    driver, address = any_fleet.drivers[0], any_fleet.lab.hosts[1].address
    driver.spawn(guest, any_fleet.image, EPOCH)
    wait_for(lambda: any_fleet.boots(guest.id) == 1)
    killed_while(driver.kill, after_s, lambda: driver.migrate(guest, address, EPOCH, live=live))
    driver.start()
    driver.settle()
    driver.migrate(guest, address, EPOCH + 1, live=live)
    assert any_fleet.where(guest.id) == {"hv2": True}
    wait_for(lambda: any_fleet.boots(guest.id) == (1 if live else 2))


@pytest.mark.soak
@pytest.mark.parametrize("number", [0, 1], ids=["source", "destination"])
@pytest.mark.parametrize("after_s", [0.2, 0.5])
def test_libvirtd_killed_while_it_migrates(any_fleet: Fleet, guest: Guest, after_s: float, number: int) -> None:
    driver, host = any_fleet.drivers[0], any_fleet.lab.hosts[number]
    address = any_fleet.lab.hosts[1].address
    driver.spawn(guest, any_fleet.image, EPOCH)
    wait_for(lambda: any_fleet.boots(guest.id) == 1)
    killed_while(host.kill_libvirtd, after_s, lambda: driver.migrate(guest, address, EPOCH, live=True))
    host.start_libvirtd()
    driver.settle()
    wait_for(lambda: _migrated(any_fleet, guest, address), 180)  # libvirt takes 10 s to end a guest that half arrived
    assert any_fleet.where(guest.id) == {"hv2": True}


def _migrated(fleet: Fleet, guest: Guest, address: str) -> bool:
    """Repeat as the service does, until it succeeds."""
    try:
        fleet.drivers[0].migrate(guest, address, EPOCH + 1, live=True)
    except Refused as error:
        print(error)  # noqa: T201 -- pytest shows it if the last one fails
        return False
    return True


def test_agent_killed_while_it_destroys(fleet: Fleet, guest: Guest) -> None:
    driver = fleet.drivers[0]
    driver.spawn(guest, fleet.image, EPOCH)
    killed_while(driver.kill, 0.03, lambda: driver.destroy(guest.id, EPOCH))
    driver.start()
    driver.destroy(guest.id, EPOCH + 1)
    assert fleet.where(guest.id) == {}
    assert not (fleet.lab.shared / "instances" / guest.id).exists()


def test_guest_of_a_dead_host_is_evacuated_and_the_host_removes_its_orphan(fleet: Fleet, guest: Guest) -> None:
    host, driver, other = fleet.lab.hosts[2], fleet.drivers[2], fleet.drivers[0]
    driver.spawn(guest, fleet.image, EPOCH)
    wait_for(lambda: fleet.boots(guest.id) == 1)
    host.power_off()
    other.spawn(guest, fleet.image, EPOCH + 1)
    wait_for(lambda: other.console_log(guest.id, None).count("boot=0002"))
    host.power_on()
    driver.start()
    driver.settle()
    assert (guest.id, "shutdown", EPOCH) in driver.observed()
    driver.destroy(guest.id, EPOCH + 2)
    assert fleet.where(guest.id) == {"hv1": True}
    assert (fleet.lab.shared / "instances" / guest.id / "disk").exists()
    other.power(guest.id, "reboot_hard", EPOCH + 3)
    wait_for(lambda: fleet.boots(guest.id) == 3)


def test_guest_deleted_while_it_migrates_is_gone_from_both_hosts(any_fleet: Fleet, guest: Guest) -> None:
    source, destination = any_fleet.drivers[:2]
    source.spawn(guest, any_fleet.image, EPOCH)
    wait_for(lambda: any_fleet.boots(guest.id) == 1)
    move = threading.Thread(
        target=lambda: killed_while(
            lambda: None, 0, lambda: source.migrate(guest, any_fleet.lab.hosts[1].address, EPOCH, live=True)
        )
    )
    move.start()
    time.sleep(0.3)
    for driver in (source, destination):
        driver.destroy(guest.id, EPOCH + 1)
    move.join()
    source.destroy(guest.id, EPOCH + 1)
    destination.destroy(guest.id, EPOCH + 1)
    assert any_fleet.where(guest.id) == {}
