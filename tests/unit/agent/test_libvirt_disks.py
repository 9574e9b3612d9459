"""The files of guests on a libvirt host."""

import os
import struct
from pathlib import Path

import pytest

from covey.agent.guests import GuestImage
from covey.agent.hypervisor import HypervisorFault
from covey.agent.libvirt.disks import Disks
from tests.unit.agent.build import a_guest

SERVER = "5b9a4f6e-8a0e-4f0c-9a0d-0c1f4e0d7a11"
OTHER = "6c9a4f6e-8a0e-4f0c-9a0d-0c1f4e0d7a12"


def test_servers_with_files_are_found_and_nothing_else(tmp_path: Path) -> None:
    disks = Disks(tmp_path, are_shared=True)
    for server in (SERVER, OTHER):
        disks.files(server).directory.mkdir()
    disks.files(SERVER).disk.touch()
    (disks.files(OTHER).directory / "disk.0123.part").touch()  # of an agent that was killed
    (tmp_path / "_base").mkdir()
    (tmp_path / "_base" / "disk").touch()
    assert sorted(disks.servers()) == [SERVER, OTHER]
    disks.remove(SERVER)
    assert disks.servers() == [OTHER]


@pytest.mark.needs_program("libvirt")  # for qemu-img
def test_repeated_making_of_a_disk_removes_what_was_left_of_the_first(tmp_path: Path) -> None:
    disks = Disks(tmp_path)
    files = disks.files(SERVER)
    files.directory.mkdir()
    files.config_drive.touch()
    (files.directory / "disk.0123.part").touch()
    assert disks.make(a_guest(SERVER), None)
    assert sorted(path.name for path in files.directory.iterdir()) == ["disk", "disk.config"]


def disk_on(disks: Disks, server: str, base: Path) -> None:
    """Write the header of a qcow2 file that builds on an image."""
    name = os.fsencode(base)
    path = disks.files(server).disk
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack(">4sIQI", b"QFI\xfb", 3, 512, len(name)).ljust(512, b"\0") + name)


def shared(tmp_path: Path, *images: str) -> tuple[Disks, dict[str, Path]]:
    """Return shared disks, and old copies of these images."""
    disks, bases = Disks(tmp_path / "instances", are_shared=True), {}
    for image in images:
        (tmp_path / image).write_bytes(image.encode())
        bases[image] = disks._base(tmp_path / image)
    for base in bases.values():
        os.utime(base, (0, 0))
    return disks, bases


def test_copies_of_images_that_no_disk_builds_on_are_removed(tmp_path: Path) -> None:
    disks, bases = shared(tmp_path, "used", "unused", "recent")
    disk_on(disks, SERVER, bases["used"])
    os.utime(bases["recent"])
    disks.sweep()
    assert {path.name for path in (disks.root / "_base").iterdir()} == {"used", "recent"}
    disks.remove(SERVER)
    disks.sweep()
    assert {path.name for path in (disks.root / "_base").iterdir()} == {"recent"}


def test_copy_that_a_killed_agent_was_removing_is_restored_for_its_disk(tmp_path: Path) -> None:
    """Another host has built a disk on it before it went."""
    disks, bases = shared(tmp_path, "used", "unused")
    for base in bases.values():
        base.rename(base.with_name(f"{base.name}.0123.removed"))
    disk_on(disks, SERVER, bases["used"])
    disks.sweep()
    assert [path.name for path in (disks.root / "_base").iterdir()] == ["used"]
    assert bases["used"].read_bytes() == b"used"


def test_new_disk_finds_its_image_although_another_host_removed_the_copy(tmp_path: Path) -> None:
    disks, bases = shared(tmp_path, "image")
    bases["image"].unlink()
    assert disks._base(tmp_path / "image").read_bytes() == b"image"


def test_no_empty_disk_is_made_for_a_server_whose_image_is_deleted(tmp_path: Path) -> None:
    disks, guest = Disks(tmp_path), a_guest(SERVER, image=GuestImage("i1"))
    with pytest.raises(HypervisorFault, match="Image i1 has no data, or is deleted"):
        disks.make(guest, None)
    assert not disks.files(guest.id).directory.exists()
    disks.files(guest.id).directory.mkdir()
    disks.files(guest.id).disk.write_bytes(b"its data")
    assert not disks.make(guest, None)
