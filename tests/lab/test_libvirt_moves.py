"""Moves between real hypervisors, with shared and with local disks: live, cold, resized, aborted, repeated."""

import json
import os
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from covey.agent.guests import Guest, GuestFlavor
from covey.agent.hypervisor import Progress
from tests.lab.conftest import EPOCH, Fleet
from tests.lab.driver_process import DriverProcess, Refused
from tests.lab.hosts import Lab, wait_for
from tests.lab.sectors import boots, last, make_image

pytestmark = pytest.mark.needs_program("libvirt")


def running(fleet: Fleet, guest: Guest, number: int = 0) -> None:
    fleet.drivers[number].spawn(guest, fleet.image, EPOCH)
    wait_for(lambda: fleet.boots(guest.id) == 1)


@pytest.mark.parametrize("live", [True, False], ids=["live", "cold"])
def test_guest_moved_twice_is_there_once(any_fleet: Fleet, guest: Guest, live: bool) -> None:
    running(any_fleet, guest)
    tick = last(any_fleet.console(guest.id))[1]
    for _ in range(2):
        any_fleet.drivers[0].migrate(guest, any_fleet.lab.hosts[1].address, EPOCH + 1, live=live)
    assert any_fleet.where(guest.id) == {"hv2": True}
    wait_for(lambda: last(any_fleet.console(guest.id)) > ((1, tick + 2) if live else (2, 0)))
    assert any_fleet.boots(guest.id) == (1 if live else 2)
    assert (guest.id, "running", EPOCH + 1) in any_fleet.drivers[1].observed()


def test_local_disk_leaves_nothing_on_the_source(local_fleet: Fleet, guest: Guest) -> None:
    running(local_fleet, guest)
    local_fleet.drivers[0].migrate(guest, local_fleet.lab.hosts[1].address, EPOCH, live=True)
    files = f"local/instances/{guest.id}"
    assert not (local_fleet.lab.hosts[0].directory / files).exists()
    disk = local_fleet.lab.hosts[1].directory / files / "disk"
    assert stat.S_IMODE(disk.stat().st_mode) == 0o600
    local_fleet.drivers[1].power(guest.id, "reboot_hard", EPOCH)
    wait_for(lambda: local_fleet.boots(guest.id) == 2)


def test_shelved_guest_starts_from_its_local_disk_on_another_host(local_fleet: Fleet, guest: Guest) -> None:
    running(local_fleet, guest)
    source, destination = local_fleet.drivers[:2]
    source.detach(guest.id, EPOCH)
    for _ in range(2):
        destination.fetch(guest, local_fleet.image, local_fleet.lab.hosts[0].address, EPOCH + 1)
        destination.spawn(guest, local_fleet.image, EPOCH + 1)
    wait_for(lambda: boots(destination.console_log(guest.id, None)) == 2)
    assert source.stored() >= {guest.id}  # until the service has the server there
    source.destroy(guest.id, EPOCH + 2)
    assert local_fleet.where(guest.id) == {"hv2": True}


def test_data_that_the_other_host_does_not_have_is_a_fault(local_fleet: Fleet, guest: Guest) -> None:
    with pytest.raises(Refused, match="no storage vol"):
        local_fleet.drivers[1].fetch(guest, local_fleet.image, local_fleet.lab.hosts[0].address, EPOCH)
    assert not (local_fleet.lab.hosts[1].directory / f"local/instances/{guest.id}/disk").exists()


def test_resized_guest_has_its_new_flavor(any_fleet: Fleet, guest: Guest) -> None:
    running(any_fleet, guest)
    larger = replace(guest, flavor=GuestFlavor("large", 2, 32, 2))
    any_fleet.drivers[0].migrate(larger, any_fleet.lab.hosts[2].address, EPOCH, live=False)
    wait_for(lambda: any_fleet.boots(guest.id) == 2)
    xml = any_fleet.lab.hosts[2].xml(guest.id)
    assert "<vcpu placement='static'>2</vcpu>" in xml
    assert f"<memory unit='KiB'>{32 << 10}</memory>" in xml
    assert 'flavor="large"' in xml
    assert any_fleet.drivers[2].observed()
    any_fleet.drivers[2].migrate(guest, any_fleet.lab.hosts[0].address, EPOCH, live=False)
    wait_for(lambda: any_fleet.boots(guest.id) == 3)
    assert any_fleet.where(guest.id) == {"hv1": True}


def test_guest_resized_on_its_host_has_its_new_flavor(fleet: Fleet, guest: Guest) -> None:
    running(fleet, guest)
    larger = replace(guest, flavor=GuestFlavor("large", 2, 32, 2))
    fleet.drivers[0].migrate(larger, fleet.lab.hosts[0].address, EPOCH, live=False)
    wait_for(lambda: fleet.boots(guest.id) == 2)
    assert fleet.where(guest.id) == {"hv1": True}
    assert "<vcpu placement='static'>2</vcpu>" in fleet.lab.hosts[0].xml(guest.id)
    found = subprocess.check_output(
        ["qemu-img", "info", "-U", "--output=json", fleet.lab.shared / "instances" / guest.id / "disk"]
    )
    assert json.loads(found)["virtual-size"] == 2 << 30


def test_stopped_guest_is_moved_and_stays_stopped(any_fleet: Fleet, new_guest: Callable[..., Guest]) -> None:
    guest = new_guest(power="shutdown")
    any_fleet.drivers[0].spawn(guest, any_fleet.image, EPOCH)
    any_fleet.drivers[0].migrate(guest, any_fleet.lab.hosts[1].address, EPOCH, live=True)
    assert any_fleet.where(guest.id) == {"hv2": False}


def test_guest_that_is_on_neither_host_is_a_fault(fleet: Fleet, guest: Guest) -> None:
    with pytest.raises(Refused, match="neither here nor"):
        fleet.drivers[0].migrate(guest, fleet.lab.hosts[1].address, EPOCH, live=True)


def test_host_that_is_cut_off_is_a_fault_and_the_guest_runs_on(fleet: Fleet, guest: Guest) -> None:
    running(fleet, guest)
    fleet.lab.hosts[1].disconnect()
    try:
        with pytest.raises(Refused, match="Cannot connect"):
            fleet.drivers[0].migrate(guest, fleet.lab.hosts[1].address, EPOCH, live=True)
    finally:
        fleet.lab.hosts[1].reconnect()
    assert fleet.where(guest.id) == {"hv1": True}
    fleet.drivers[0].migrate(guest, fleet.lab.hosts[1].address, EPOCH, live=True)
    assert fleet.where(guest.id) == {"hv2": True}
    assert fleet.boots(guest.id) == 1


@pytest.mark.parametrize("power", ["shutdown", "running"])
def test_cold_move_to_a_host_that_is_cut_off_has_failed(
    any_fleet: Fleet, new_guest: Callable[..., Guest], power: str
) -> None:
    """The guest is down, in the second case since an earlier attempt has stopped it: it cannot run there."""
    guest, source = new_guest(power=power), any_fleet.drivers[0]
    source.spawn(replace(guest, power="shutdown"), any_fleet.image, EPOCH)
    any_fleet.lab.hosts[1].disconnect()
    try:
        with pytest.raises(Refused, match="Cannot connect") as refused:
            source.migrate(guest, any_fleet.lab.hosts[1].address, EPOCH, live=False)
    finally:
        any_fleet.lab.hosts[1].reconnect()
    assert refused.value.kind == "HypervisorFault"
    assert any_fleet.where(guest.id) == {"hv1": power == "running"}


def test_outcome_of_a_move_is_unknown_until_the_destination_answers(fleet: Fleet, guest: Guest) -> None:
    """The source went down after the live migration had begun."""
    running(fleet, guest)
    host, source, address = fleet.lab.hosts[1], fleet.drivers[0], fleet.lab.hosts[1].address
    fleet.lab.hosts[0].mark_as_moving(guest.id, address)
    source.power(guest.id, "stop_hard", EPOCH)
    host.disconnect()
    try:
        with pytest.raises(Refused, match="It is unknown where") as refused:
            source.migrate(guest, address, EPOCH, live=True)
    finally:
        host.reconnect()
    assert refused.value.kind == "OutcomeUnknown"
    source.migrate(guest, address, EPOCH, live=True)
    assert fleet.where(guest.id) == {"hv2": True}


def test_guest_whose_destination_was_fenced_runs_on_its_host_again(fleet: Fleet, guest: Guest) -> None:
    running(fleet, guest)
    host, source, address = fleet.lab.hosts[1], fleet.drivers[0], fleet.lab.hosts[1].address
    fleet.lab.hosts[0].mark_as_moving(guest.id, address)
    source.power(guest.id, "stop_hard", EPOCH)
    host.disconnect()
    try:
        with pytest.raises(Refused) as refused:
            source.migrate(guest, address, EPOCH, live=False, fenced=True)
        assert refused.value.kind == "HypervisorFault"
        assert fleet.where(guest.id) == {"hv1": True}
        source.destroy(guest.id, EPOCH)
        source.migrate(guest, address, EPOCH, live=False, fenced=True)  # it had arrived, for it is not here
    finally:
        host.reconnect()


HUGE = GuestFlavor("huge", 1, 1 << 24, 1)  # no host has 16 TiB


@pytest.mark.parametrize("power", ["running", "shutdown"])
def test_guest_that_does_not_start_on_the_other_host_comes_back(
    any_fleet: Fleet, new_guest: Callable[..., Guest], power: str
) -> None:
    guest, source, other = new_guest(), any_fleet.drivers[0], any_fleet.lab.hosts[1]
    running(any_fleet, guest)
    if power == "shutdown":
        source.power(guest.id, "stop_hard", EPOCH)
    with pytest.raises(Refused) as refused:
        source.migrate(replace(guest, flavor=HUGE), other.address, EPOCH + 1, live=False)
    assert refused.value.kind == "HypervisorFault"
    wait_for(lambda: any_fleet.boots(guest.id) == 2)
    assert any_fleet.where(guest.id) == {"hv1": True}
    assert 'flavor="nano"' in any_fleet.lab.hosts[0].xml(guest.id)
    assert not (other.directory / f"local/instances/{guest.id}/disk").exists()
    source.migrate(guest, other.address, EPOCH + 2, live=False)
    wait_for(lambda: any_fleet.boots(guest.id) == 3)
    assert any_fleet.where(guest.id) == {"hv2": True}


def test_guest_that_does_not_start_with_its_new_flavor_on_its_host_keeps_the_old_one(
    fleet: Fleet, guest: Guest
) -> None:
    running(fleet, guest)
    with pytest.raises(Refused):
        fleet.drivers[0].migrate(replace(guest, flavor=HUGE), fleet.lab.hosts[0].address, EPOCH, live=False)
    wait_for(lambda: fleet.boots(guest.id) == 2)
    assert 'flavor="nano"' in fleet.lab.hosts[0].xml(guest.id)


def test_move_whose_agent_was_killed_keeps_the_data_of_a_guest_that_ran_on_the_other_host(
    local_fleet: Fleet, guest: Guest
) -> None:
    """The guest ended there before the next agent of the source looked."""
    host, source, destination = local_fleet.lab.hosts[1], local_fleet.drivers[0], local_fleet.drivers[1]
    running(local_fleet, guest)
    source.power(guest.id, "stop_hard", EPOCH)
    local_fleet.lab.hosts[0].mark_as_moving(guest.id, host.address)
    destination.spawn(guest, local_fleet.image, EPOCH)
    for number in (1, 2):
        wait_for(lambda number=number: boots(destination.console_log(guest.id, None)) == number)  # type: ignore[misc]
        destination.power(guest.id, "reboot_hard" if number == 1 else "stop_hard", EPOCH)
    source.migrate(guest, host.address, EPOCH + 1, live=False)
    wait_for(lambda: boots(destination.console_log(guest.id, None)) == 3)
    assert local_fleet.where(guest.id) == {"hv2": True}


@pytest.fixture(scope="module")
def slow_fleet(lab: Lab, local_fleet: Fleet) -> Iterator[Fleet]:
    """The source copies four MiB a second of a disk that has 32."""
    image = lab.shared / "heavy.qcow2"
    make_image(image, os.urandom(32 << 20))
    source = DriverProcess(lab.hosts[0], local_fleet.drivers[0].settings | {"migration_bandwidth_mib": 4})
    with source:
        yield replace(local_fleet, drivers=(source, *local_fleet.drivers[1:]), image=image)


@pytest.fixture
def heavy(new_guest: Callable[..., Guest]) -> Guest:
    return new_guest(flavor=GuestFlavor("heavy", 1, 16, 0))  # the disk has the image's size


def test_aborted_live_migration_leaves_the_guest_where_it_was(slow_fleet: Fleet, heavy: Guest) -> None:
    guest = heavy
    running(slow_fleet, guest)
    source, failed = slow_fleet.drivers[0], []
    move = threading.Thread(target=lambda: failed.append(_fault_of(slow_fleet, guest)))
    move.start()
    progress = wait_for(lambda: _some_progress(source, guest.id))
    assert progress is not None
    assert 0 < progress.processed_bytes < progress.total_bytes
    source.abort(guest.id)
    move.join()
    assert isinstance(failed[0], Refused)
    assert slow_fleet.where(guest.id) == {"hv1": True}
    assert not (slow_fleet.lab.hosts[1].directory / f"local/instances/{guest.id}/disk").exists()
    assert source.progress(guest.id) is None
    source.abort(guest.id)
    tick = last(slow_fleet.console(guest.id))[1]
    wait_for(lambda: last(slow_fleet.console(guest.id)) > (1, tick + 2))


def test_aborted_cold_copy_leaves_the_guest_where_it_was(slow_fleet: Fleet, heavy: Guest) -> None:
    """The service asks for it when the other host is fenced, with each renewal of the call."""
    guest = heavy
    running(slow_fleet, guest)
    source, failed = slow_fleet.drivers[0], []
    move = threading.Thread(target=lambda: failed.append(_fault_of(slow_fleet, guest, live=False)))
    move.start()
    while move.is_alive():
        source.abort(guest.id)
        move.join(0.01)
    assert "aborted" in str(failed[0])
    assert slow_fleet.where(guest.id) == {"hv1": True}
    assert not (slow_fleet.lab.hosts[1].directory / f"local/instances/{guest.id}/disk").exists()
    wait_for(lambda: slow_fleet.boots(guest.id) == 2)


def test_live_migration_continues_when_the_agent_is_killed(slow_fleet: Fleet, heavy: Guest) -> None:
    """The next agent waits for the end of the migration in place of starting a second one."""
    guest = heavy
    running(slow_fleet, guest)
    source = slow_fleet.drivers[0]
    move = threading.Thread(target=_fault_of, args=(slow_fleet, guest))
    move.start()
    wait_for(lambda: _some_progress(source, guest.id))
    source.kill()
    move.join()
    source.start()
    assert source.progress(guest.id) is not None
    source.migrate(guest, slow_fleet.lab.hosts[1].address, EPOCH + 1, live=True)
    assert slow_fleet.where(guest.id) == {"hv2": True}
    assert slow_fleet.boots(guest.id) == 1
    assert not (slow_fleet.lab.hosts[0].directory / f"local/instances/{guest.id}").exists()


def _some_progress(driver: DriverProcess, server: str) -> Progress | None:
    found: Progress | None = driver.progress(server)
    return found if found and found.processed_bytes else None


def _fault_of(fleet: Fleet, guest: Guest, *, live: bool = True) -> BaseException | None:
    try:
        fleet.drivers[0].migrate(guest, fleet.lab.hosts[1].address, EPOCH, live=live)
    except (Refused, EOFError, ConnectionError) as error:
        return error
    return None
