"""A guest's directory on another host, read and written by the storage API of its libvirt, without its agent."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from xml.etree import ElementTree as ET

import libvirt

from covey.agent.libvirt.disks import Files

ProgressCallback = Callable[[int], None]
"""Called after each sent chunk with its size in bytes. Raises HypervisorFault to stop."""

_CHUNK = 1 << 18
_MODE = "0600"  # libvirt gives the files to QEMU's user when the guest starts


class RemoteDirectory:
    """The directory of one guest on another host, as a storage pool that exists while it is used."""

    def __init__(self, connection: libvirt.virConnect, pool: libvirt.virStoragePool) -> None:
        self._connection = connection
        self._pool = pool

    def make_disk(self, name: str, size: int) -> None:
        """Make an empty qcow2 disk, in place of what an earlier attempt left."""
        self._create(name, size, "qcow2")

    def put(self, path: Path, name: str, advance: ProgressCallback) -> None:
        """Upload a file."""
        size = path.stat().st_size
        volume = self._create(name, size, "raw")
        stream = self._connection.newStream()
        volume.upload(stream, 0, size)
        try:
            with path.open("rb") as source:
                while chunk := source.read(_CHUNK):
                    _send(stream, chunk)
                    advance(len(chunk))
            stream.finish()
        except BaseException:
            with suppress(libvirt.libvirtError):
                stream.abort()
            raise

    def get(self, name: str, path: Path) -> None:
        """Download a file."""
        stream = self._connection.newStream()
        self._pool.storageVolLookupByName(name).download(stream, 0, 0)
        try:
            with path.open("wb") as target:
                while chunk := stream.recv(_CHUNK):
                    target.write(chunk)
            stream.finish()
        except BaseException:
            with suppress(libvirt.libvirtError):
                stream.abort()
            raise

    def remove(self) -> None:
        """Remove all files."""
        self._pool.refresh()
        for volume in self._pool.listAllVolumes():
            volume.delete()

    def _create(self, name: str, size: int, kind: str) -> libvirt.virStorageVol:
        with suppress(libvirt.libvirtError):
            self._pool.storageVolLookupByName(name).delete()
        volume = ET.Element("volume")
        ET.SubElement(volume, "name").text = name
        ET.SubElement(volume, "capacity").text = str(size)
        ET.SubElement(volume, "allocation").text = "0"
        target = ET.SubElement(volume, "target")
        ET.SubElement(target, "format", {"type": kind})
        ET.SubElement(ET.SubElement(target, "permissions"), "mode").text = _MODE
        return self._pool.createXML(ET.tostring(volume, encoding="unicode"))


@contextmanager
def remote_directory(connection: libvirt.virConnect, files: Files) -> Iterator[RemoteDirectory]:
    """Return the guest's directory on the host of this connection, created if missing. Raises libvirtError."""
    name = f"covey-{files.directory.name}"
    try:
        pool = connection.storagePoolLookupByName(name)
        pool.refresh()
    except libvirt.libvirtError:
        pool = connection.storagePoolCreateXML(_pool_xml(name, files), libvirt.VIR_STORAGE_POOL_CREATE_WITH_BUILD)
    try:
        yield RemoteDirectory(connection, pool)
    finally:
        with suppress(libvirt.libvirtError):
            pool.destroy()  # the pool only: files stay


def _pool_xml(name: str, files: Files) -> str:
    pool = ET.Element("pool", {"type": "dir"})
    ET.SubElement(pool, "name").text = name
    ET.SubElement(pool, "uuid").text = str(uuid.uuid4())
    ET.SubElement(ET.SubElement(pool, "target"), "path").text = str(files.directory)
    return ET.tostring(pool, encoding="unicode")


def _send(stream: libvirt.virStream, chunk: bytes) -> None:
    while chunk:
        chunk = chunk[stream.send(chunk) :]
