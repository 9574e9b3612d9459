"""Files of guests: a directory for each, with a qcow2 overlay on the cached image, config drive and console log."""

import json
import os
import shutil
import struct
import subprocess
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from covey.agent.guests import Guest
from covey.agent.hypervisor import HypervisorFault
from covey.agent.libvirt.base_images import BaseImages
from covey.agent.libvirt.new_files import file_fault, new_file

GIB = 1 << 30
_FORMATS = {"raw": "raw", "iso": "raw", "qcow2": "qcow2"}
_QCOW2 = struct.Struct(">4sIQI")  # magic, version, offset and length of the backing file's name
_TAIL_BYTES = 1 << 20
# The header of an uploaded image is hostile input: a crafted one must not exhaust the host.
_INSPECT = ("prlimit", f"--as={GIB}", "--cpu=30", "qemu-img", "info", "--force-share", "--output=json")


@dataclass(frozen=True, slots=True)
class Files:
    """The paths of one guest's files, which are the same on every host."""

    directory: Path

    @property
    def disk(self) -> Path:
        return self.directory / "disk"

    @property
    def config_drive(self) -> Path:
        return self.directory / "disk.config"

    @property
    def console(self) -> Path:
        return self.directory / "console.log"

    @property
    def owner(self) -> Path:
        return self.directory / "owner"


@dataclass(frozen=True, slots=True)
class Disks:
    """The files of all guests below one directory. Every method raises HypervisorFault."""

    root: Path
    are_shared: bool = False

    def files(self, server: str) -> Files:
        return Files(self.root / str(uuid.UUID(server)))

    def make(self, guest: Guest, image: Path | None) -> bool:
        """Make the guest's disk unless it is there. Return whether it was made."""
        files = self.files(guest.id)
        if files.disk.exists():
            return False
        if guest.image is not None and image is None:
            raise HypervisorFault(
                f"Image {guest.image.id} has no data, or is deleted; the server needs it, since it has no disk yet."
            )
        self._remove_unfinished(guest.id)
        size = guest.flavor.disk_gb * GIB
        base: tuple[str, ...] = ()
        if image is not None:
            kind = _format(guest)
            least = _checked(image, kind)
            if size and size < least:
                raise HypervisorFault(
                    f"The image needs a disk of {least / GIB:.2f} GiB; the flavor has {guest.flavor.disk_gb} GiB."
                )
            base, size = ("-F", kind, "-b", str(self._base(image))), max(size, least)
        with new_file(files.disk) as part:
            _run("qemu-img", "create", "-q", "-f", "qcow2", *base, str(part), str(size or GIB))
        if image is not None:
            self._base(image)  # another host may have removed it before the disk was there
        return True

    def receive(self, guest: Guest, image: Path | None, download: Callable[[Path], None]) -> None:
        """Make the guest's disk of a copy from another host, in place of one that is there. `image` is this host's."""
        with new_file(self.files(guest.id).disk, replace=True) as part:
            download(part)
            if backing_file(part) is None:
                return
            if image is None:
                raise HypervisorFault(
                    "The disk builds on an image that is deleted; unshelve it on the host that has it."
                )
            base = ("-F", _format(guest), "-b", str(self._base(image)))
            _run("qemu-img", "rebase", "-q", "-u", "-f", "qcow2", *base, str(part))

    def _base(self, image: Path) -> Path:
        """Return the file that disks build on. Hosts that share disks need it too: it is beside them."""
        return self._bases.add(image) if self.are_shared else image

    def sweep(self) -> None:
        """Remove copies of images that no disk builds on."""
        if self.are_shared:
            self._bases.sweep()

    @property
    def _bases(self) -> BaseImages:
        return BaseImages(self.root / "_base", self.images)

    def grow(self, guest: Guest) -> None:
        """Give the disk of a stopped guest its flavor's size. A larger disk keeps its size."""
        disk, wanted = self.files(guest.id).disk, guest.flavor.disk_gb * GIB
        if disk.exists() and self.size(guest.id) < wanted:
            _run("qemu-img", "resize", "-q", "-f", "qcow2", str(disk), str(wanted))

    def size(self, server: str) -> int:
        """Return the size of the disk as the guest sees it, in bytes."""
        size: int = _info(self.files(server).disk, "qcow2")["virtual-size"]
        return size

    def flatten(self, server: str, path: Path) -> None:
        """Copy the disk of a stopped guest, without an image below it."""
        self._remove_unfinished(server)
        _run("qemu-img", "convert", "-q", "-f", "qcow2", "-O", "qcow2", str(self.files(server).disk), str(path))

    def _remove_unfinished(self, server: str) -> None:
        """Remove what attempts that were killed have left: one verb at a time works on a guest."""
        for left in self.files(server).directory.glob("disk.*.*"):
            left.unlink(missing_ok=True)

    def remove(self, server: str) -> None:
        """Remove all files of a guest. Does nothing if there are none."""
        with suppress(FileNotFoundError), file_fault("remove the files of", server):
            shutil.rmtree(self.files(server).directory)

    def owner(self, server: str) -> str | None:
        """Return the address of the host that last had the guest, of those that share this directory."""
        try:
            return self.files(server).owner.read_text()
        except FileNotFoundError:
            return None

    def own(self, server: str, address: str) -> None:
        """Record which host has the guest: only that one may remove the files."""
        if self.owner(server) != address:
            with new_file(self.files(server).owner, replace=True) as part:
                part.write_text(address)

    def servers(self) -> list[str]:
        """Return the servers that have files here: a disk, or what a killed agent has left of its making."""
        return [path.name for path in self.root.glob("*-*-*-*-*") if path.is_dir()]

    def images(self) -> frozenset[str]:
        """Return the names of the image files that disks here build on."""
        return frozenset(path.name for path in map(backing_file, self.root.glob("*/disk")) if path is not None)

    def console_log(self, server: str, lines: int | None) -> str:
        """Return the end of what the guest wrote to its console."""
        try:
            with self.files(server).console.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
                text = log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
        return text if lines is None else "".join(text.splitlines(keepends=True)[-lines:] if lines else ())


def backing_file(disk: Path) -> Path | None:
    """Return the image that a qcow2 file builds on, from its header."""
    with suppress(OSError), disk.open("rb") as file:
        magic, _, offset, length = _QCOW2.unpack(file.read(_QCOW2.size))
        if magic == b"QFI\xfb" and offset:
            file.seek(offset)
            return Path(os.fsdecode(file.read(length)))
    return None


def _format(guest: Guest) -> str:
    declared = guest.image.disk_format if guest.image else None
    kind = _FORMATS.get(declared or "")
    if kind is None:
        raise HypervisorFault(f"Images of the format {declared} are not supported; use {', '.join(_FORMATS)}.")
    return kind


def _checked(image: Path, kind: str) -> int:
    """Return the size of an image's disk. Raises HypervisorFault for one that would read other files of the host."""
    found = _info(image, kind)
    details = found.get("format-specific", {}).get("data", {})
    if "backing-filename" in found or "data-file" in details:
        raise HypervisorFault("The image refers to another file.")
    size: int = found["virtual-size"]
    return size


def _info(path: Path, kind: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(_run(*_INSPECT, "-f", kind, str(path)))
    return document


def _run(*command: str) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603
    except subprocess.CalledProcessError as error:
        raise HypervisorFault(f"{command[0]} failed: {error.stderr.strip()}") from error
    except OSError as error:
        raise HypervisorFault(f"{command[0]} cannot be run: {error}") from error
