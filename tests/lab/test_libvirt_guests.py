"""Guests on one real hypervisor: each verb, repeated, by many at once, and with an old epoch."""

import json
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from covey.agent.guests import Guest, GuestFlavor, GuestImage
from tests.lab.conftest import EPOCH, Fleet
from tests.lab.driver_process import Refused
from tests.lab.hosts import wait_for
from tests.lab.sectors import make_image

pytestmark = pytest.mark.needs_program("libvirt")


def disk_of(fleet: Fleet, guest: Guest) -> Path:
    return fleet.lab.shared / "instances" / guest.id / "disk"


def disk_size(disk: Path) -> int:
    found = subprocess.check_output(["qemu-img", "info", "-U", "--output=json", disk])
    size: int = json.loads(found)["virtual-size"]
    return size


def test_guest_spawned_twice_boots_once(fleet: Fleet, guest: Guest) -> None:
    driver = fleet.drivers[0]
    driver.spawn(guest, fleet.image, EPOCH)
    driver.spawn(guest, fleet.image, EPOCH + 1)
    wait_for(lambda: fleet.boots(guest.id) == 1)
    assert fleet.where(guest.id) == {"hv1": True}
    assert (guest.id, "running", EPOCH + 1) in driver.observed()


def test_guest_spawned_by_many_at_once_boots_once(fleet: Fleet, guest: Guest) -> None:
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: fleet.drivers[0].spawn(guest, fleet.image, EPOCH), range(6)))
    wait_for(lambda: fleet.boots(guest.id) == 1)
    time.sleep(0.3)
    assert fleet.boots(guest.id) == 1


def test_guest_has_its_flavor_and_the_metadata_of_its_server(fleet: Fleet, new_guest: Callable[..., Guest]) -> None:
    guest = new_guest(group_id="g1", flavor=GuestFlavor("small", 2, 24, 3))
    fleet.drivers[0].spawn(guest, fleet.image, EPOCH)
    xml = fleet.lab.hosts[0].xml(guest.id)
    assert "<vcpu placement='static'>2</vcpu>" in xml
    assert f"<memory unit='KiB'>{24 << 10}</memory>" in xml
    assert disk_size(disk_of(fleet, guest)) == 3 << 30
    for words in (f'epoch="{EPOCH}"', 'project="p1"', 'flavor="small"', 'group="g1"'):
        assert words in xml


def test_guest_that_should_be_shut_down_is_defined_and_does_not_run(
    fleet: Fleet, new_guest: Callable[..., Guest]
) -> None:
    guest = new_guest(power="shutdown")
    fleet.drivers[0].spawn(guest, fleet.image, EPOCH)
    assert fleet.where(guest.id) == {"hv1": False}
    assert (guest.id, "shutdown", EPOCH) in fleet.drivers[0].observed()


def test_guest_destroyed_twice_leaves_nothing(fleet: Fleet, guest: Guest) -> None:
    driver = fleet.drivers[0]
    driver.spawn(guest, fleet.image, EPOCH)
    driver.destroy(guest.id, EPOCH)
    driver.destroy(guest.id, EPOCH)
    assert fleet.where(guest.id) == {}
    assert not disk_of(fleet, guest).parent.exists()


def test_detached_guest_keeps_its_disk_and_starts_on_another_host(fleet: Fleet, guest: Guest) -> None:
    fleet.drivers[0].spawn(guest, fleet.image, EPOCH)
    wait_for(lambda: fleet.boots(guest.id) == 1)
    fleet.drivers[0].detach(guest.id, EPOCH + 1)
    fleet.drivers[0].detach(guest.id, EPOCH + 1)
    assert fleet.where(guest.id) == {}
    fleet.drivers[1].spawn(guest, fleet.image, EPOCH + 2)
    wait_for(lambda: fleet.boots(guest.id) == 2)
    assert fleet.where(guest.id) == {"hv2": True}


def test_call_of_an_ended_lease_changes_nothing(fleet: Fleet, guest: Guest) -> None:
    driver = fleet.drivers[0]
    driver.spawn(guest, fleet.image, EPOCH)
    driver.power(guest.id, "start", EPOCH + 5)
    late = EPOCH + 4
    calls: list[Callable[[], None]] = [
        lambda: driver.destroy(guest.id, late),
        lambda: driver.detach(guest.id, late),
        lambda: driver.power(guest.id, "stop", late),
        lambda: driver.spawn(guest, fleet.image, late),
        lambda: driver.migrate(guest, fleet.lab.hosts[1].address, late, live=True),
    ]
    for call in calls:
        with pytest.raises(Refused) as refused:
            call()
        assert refused.value.kind == "StaleEpoch"
    assert fleet.where(guest.id) == {"hv1": True}


def test_epoch_of_a_destroyed_guest_keeps_a_late_spawn_out(fleet: Fleet, guest: Guest) -> None:
    driver = fleet.drivers[0]
    driver.spawn(guest, fleet.image, EPOCH)
    driver.destroy(guest.id, EPOCH + 2)
    with pytest.raises(Refused) as refused:
        driver.spawn(guest, fleet.image, EPOCH + 1)
    assert refused.value.kind == "StaleEpoch"
    assert fleet.where(guest.id) == {}


def test_epoch_outlives_the_process(fleet: Fleet, guest: Guest) -> None:
    driver = fleet.drivers[0]
    driver.spawn(guest, fleet.image, EPOCH + 5)
    driver.kill()
    driver.start()
    with pytest.raises(Refused) as refused:
        driver.destroy(guest.id, EPOCH + 4)
    assert refused.value.kind == "StaleEpoch"
    assert fleet.where(guest.id) == {"hv1": True}


def test_power(fleet: Fleet, guest: Guest) -> None:
    driver = fleet.drivers[0]
    driver.spawn(guest, fleet.image, EPOCH)
    wait_for(lambda: fleet.boots(guest.id) == 1)
    for verb in ("stop", "stop", "stop_hard"):
        driver.power(guest.id, verb, EPOCH)
        assert fleet.where(guest.id) == {"hv1": False}
    driver.power(guest.id, "start", EPOCH)
    driver.power(guest.id, "start", EPOCH)
    wait_for(lambda: fleet.boots(guest.id) == 2)
    for number, verb in enumerate(("reboot", "reboot_hard"), 3):
        driver.power(guest.id, verb, EPOCH)
        wait_for(lambda: fleet.boots(guest.id) == number)  # noqa: B023 -- called in this turn


def test_console_log_is_its_last_lines(fleet: Fleet, guest: Guest) -> None:
    driver = fleet.drivers[0]
    driver.spawn(guest, fleet.image, EPOCH)
    wait_for(lambda: driver.console_log(guest.id, None).count("GUEST boot=0001") >= 3)
    driver.power(guest.id, "stop", EPOCH)
    whole = driver.console_log(guest.id, None).splitlines()
    assert driver.console_log(guest.id, 2).splitlines() == whole[-2:]
    assert driver.console_log(guest.id, 0) == ""


def test_disk_in_use_is_not_started_twice_and_the_failed_spawn_leaves_nothing(fleet: Fleet, guest: Guest) -> None:
    fleet.drivers[0].spawn(guest, fleet.image, EPOCH)
    wait_for(lambda: fleet.boots(guest.id) == 1)
    with pytest.raises(Refused, match="lock"):
        fleet.drivers[1].spawn(guest, fleet.image, EPOCH)
    assert fleet.where(guest.id) == {"hv1": True}
    assert disk_of(fleet, guest).exists()
    fleet.drivers[0].destroy(guest.id, EPOCH)
    assert not disk_of(fleet, guest).exists(), "the host whose guest it is still owns the disk"


def test_image_that_reads_another_file_of_the_host_is_refused(fleet: Fleet, guest: Guest) -> None:
    crafted = fleet.lab.shared / "crafted.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", "/etc/shadow", crafted], check=True)
    with pytest.raises(Refused, match="refers to another file"):
        fleet.drivers[0].spawn(guest, crafted, EPOCH)
    assert fleet.where(guest.id) == {}


def test_image_larger_than_the_flavor_is_refused(fleet: Fleet, guest: Guest) -> None:
    large = fleet.lab.shared / "large.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", large, "2G"], check=True)
    with pytest.raises(Refused, match=r"needs a disk of 2\.00 GiB; the flavor has 1 GiB"):
        fleet.drivers[0].spawn(guest, large, EPOCH)


def test_unknown_format_is_refused(fleet: Fleet, new_guest: Callable[..., Guest]) -> None:
    guest = new_guest(image=GuestImage("i1", disk_format="vhd"))
    with pytest.raises(Refused, match="vhd are not supported; use raw, iso, qcow2"):
        fleet.drivers[0].spawn(guest, fleet.image, EPOCH)


def test_cache_keeps_the_images_that_disks_build_on(fleet: Fleet, guest: Guest) -> None:
    other = fleet.lab.shared / f"{guest.id}.image"
    make_image(other)
    fleet.drivers[0].spawn(guest, other, EPOCH)
    assert other.name in fleet.drivers[0].images_in_use()
    fleet.drivers[0].destroy(guest.id, EPOCH)
    assert other.name not in fleet.drivers[0].images_in_use()


def test_domains_of_others_are_neither_seen_nor_touched(fleet: Fleet, guest: Guest) -> None:
    host, driver = fleet.lab.hosts[0], fleet.drivers[0]
    host.define_foreign(guest.id)
    assert guest.id not in {observed.id for observed in driver.observed()}
    with pytest.raises(Refused, match="not managed by Covey"):
        driver.destroy(guest.id, EPOCH)
    assert fleet.where(guest.id) == {"hv1": False}


def test_host_reports_its_inventory_and_the_features_of_its_cpu(fleet: Fleet) -> None:
    found = fleet.drivers[0].inventories()
    assert set(found) == {"VCPU", "MEMORY_MB", "DISK_GB"}
    assert all(amount > 0 for amount in found.values())
    traits = fleet.drivers[0].traits()
    assert {"HW_CPU_X86_SSE", "HW_CPU_X86_SSE2", "HW_CPU_X86_SSE3"} <= traits
    assert "HW_CPU_X86_AVX512F" not in traits  # qemu64 has it not, whatever the machine has


def test_larger_flavor_of_an_existing_disk_is_kept(fleet: Fleet, guest: Guest) -> None:
    driver = fleet.drivers[0]
    driver.spawn(replace(guest, flavor=GuestFlavor("wide", 1, 16, 2)), fleet.image, EPOCH)
    driver.detach(guest.id, EPOCH)
    driver.spawn(guest, fleet.image, EPOCH)
    assert disk_size(disk_of(fleet, guest)) == 2 << 30
