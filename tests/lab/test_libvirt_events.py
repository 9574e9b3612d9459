"""Lifecycle events: a guest that ends or crashes is seen, also after libvirtd was away."""

import os
import signal
import statistics
import time

import pytest

from covey.agent.guests import Guest
from tests.lab.conftest import EPOCH, Fleet
from tests.lab.hosts import wait_for

pytestmark = pytest.mark.needs_program("libvirt")


@pytest.fixture(autouse=True)
def _watched(fleet: Fleet) -> None:
    for driver in fleet.drivers:
        driver.watch()
    time.sleep(1.1)


def heard(fleet: Fleet, guest: Guest, number: int = 0) -> list[str]:
    return [power for server, power in fleet.drivers[number].heard() if server == guest.id]


def test_killed_guest_is_seen_as_crashed_within_a_second(fleet: Fleet, guest: Guest) -> None:
    """Most of the time: the machine may be busy."""
    host, driver, delays = fleet.lab.hosts[0], fleet.drivers[0], []
    driver.spawn(guest, fleet.image, EPOCH)
    for ends in range(1, 6):
        wait_for(lambda: heard(fleet, guest)[-1:] == ["running"])
        process = host.pid_of(f"guest=covey-{guest.id},")
        killed_at = time.monotonic()
        os.kill(process, signal.SIGKILL)
        wait_for(lambda: heard(fleet, guest).count("crashed") == ends, every=0.01)  # noqa: B023
        delays.append(time.monotonic() - killed_at)
        assert (guest.id, "crashed", EPOCH) in driver.observed()
        driver.power(guest.id, "start", EPOCH)
    assert statistics.median(delays) <= 1
    assert heard(fleet, guest)[:10] == ["running", "crashed"] * 5


def test_guest_that_powers_itself_off_is_seen_as_shut_down(fleet: Fleet, guest: Guest) -> None:
    fleet.drivers[0].spawn(guest, fleet.image, EPOCH)
    wait_for(lambda: fleet.boots(guest.id) == 1)
    fleet.lab.hosts[0].type(guest.id, "q")
    wait_for(lambda: heard(fleet, guest)[-1:] == ["shutdown"])
    assert (guest.id, "shutdown", EPOCH) in fleet.drivers[0].observed()


def test_guest_that_dies_while_libvirtd_is_away_is_seen_when_it_is_back(fleet: Fleet, guest: Guest) -> None:
    host = fleet.lab.hosts[0]
    fleet.drivers[0].spawn(guest, fleet.image, EPOCH)
    wait_for(lambda: heard(fleet, guest) == ["running"])
    host.kill_libvirtd()
    host.kill_guest(guest.id)
    host.start_libvirtd()
    wait_for(lambda: heard(fleet, guest) == ["running", "crashed"])
    fleet.drivers[0].power(guest.id, "start", EPOCH)
    wait_for(lambda: heard(fleet, guest)[2:] == ["running"])


def test_migration_is_no_end(fleet: Fleet, guest: Guest) -> None:
    fleet.drivers[0].spawn(guest, fleet.image, EPOCH)
    wait_for(lambda: fleet.boots(guest.id) == 1)
    fleet.drivers[0].migrate(guest, fleet.lab.hosts[1].address, EPOCH, live=True)
    wait_for(lambda: "running" in heard(fleet, guest, 1))
    assert heard(fleet, guest) == ["running"]
