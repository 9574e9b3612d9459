"""Moves of a guest to another host, live and cold, with shared and with local disks.

The source carries out all steps, and checks both hosts first. A repeated move continues where the last one ended: the
libvirt of the source continues a live migration when the agent dies.
"""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path

import libvirt

from covey.agent.guests import Guest
from covey.agent.hypervisor import HypervisorFault, OutcomeUnknown, Progress
from covey.agent.libvirt import domains, metadata
from covey.agent.libvirt.connections import Connection, peer
from covey.agent.libvirt.disks import Disks
from covey.agent.libvirt.domains import Platform, domain_xml, find, power_of
from covey.agent.libvirt.remote_directories import RemoteDirectory, remote_directory
from covey.agent.libvirt.settings import LibvirtSettings

_POLL_S = 0.1
_FLAGS = (
    libvirt.VIR_MIGRATE_LIVE
    | libvirt.VIR_MIGRATE_PEER2PEER
    | libvirt.VIR_MIGRATE_PERSIST_DEST
    | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
    | libvirt.VIR_MIGRATE_ABORT_ON_ERROR
    | libvirt.VIR_MIGRATE_AUTO_CONVERGE
)
# libvirt does not recognise every shared file system. The operator has set shared_disks.
_SHARED, _LOCAL = libvirt.VIR_MIGRATE_UNSAFE, libvirt.VIR_MIGRATE_NON_SHARED_DISK
_ENDS = {libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN, libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED, libvirt.VIR_DOMAIN_SHUTOFF_CRASHED}
_NO_JOB = {libvirt.VIR_DOMAIN_JOB_NONE, libvirt.VIR_DOMAIN_JOB_COMPLETED}


class _CopyProgress:
    """How far the copy of a cold move is; `abort` ends it."""

    def __init__(self) -> None:
        self.total = self.sent = 0
        self.aborted = False

    def advance(self, count: int) -> None:
        """Raises HypervisorFault when the copy was aborted."""
        self.sent += count
        if self.aborted:
            raise HypervisorFault("The migration was aborted.")


class Migrations:
    """Moves guests from this host. Every method raises HypervisorFault or libvirtError."""

    def __init__(
        self, connection: Connection, disks: Disks, platform: Callable[[], Platform], settings: LibvirtSettings
    ) -> None:
        self._connection = connection
        self._disks = disks
        self._platform = platform
        self._settings = settings
        self._copying: dict[str, _CopyProgress] = {}

    def migrate(self, guest: Guest, address: str, epoch: int, *, live: bool, fenced: bool = False) -> None:
        """Move the guest, and return when nothing of it is left here.

        A move that fails leaves the guest here as it was, also one that does not start there. Raises OutcomeUnknown if
        that cannot be done: then it is repeated. With shared disks, a `fenced` destination needs not answer: a guest
        that is here can run here, and one that is not has arrived. With local disks, it may have the newest data.
        """
        if address == self._settings.address:
            self._resize_here(guest, epoch)
            return
        try:
            with self._peer(address) as other:
                self._move(guest, address, other, epoch, live=live)
        except (libvirt.libvirtError, HypervisorFault) as fault:
            fenced = fenced and self._settings.shared_disks
            try:
                self._restore(guest, address, str(fault), fenced=fenced)
            except OutcomeUnknown:
                if fenced and find(self._connection.get(), guest.id) is None:
                    return  # it had arrived
                raise
            raise

    def _peer(self, address: str) -> AbstractContextManager[libvirt.virConnect]:
        return peer(self._settings.uri_of(address), self._settings.connect_timeout_s)

    def _move(self, guest: Guest, address: str, other: libvirt.virConnect, epoch: int, *, live: bool) -> None:
        here, there = find(self._connection.get(), guest.id), self._arrived(other, guest.id)
        if here is None and there is None:
            raise HypervisorFault(f"The guest {guest.id} is neither here nor at {address}.")
        if here is not None and not _has_arrived(here, there, address):
            if live and here.isActive():
                _resume(here)
                metadata.mark(here, address)
                self._live(here, guest, address, other)
            else:
                self._cold(here, there, guest, epoch, address, other)
        self._finish(guest, address, other)

    def _restore(self, guest: Guest, address: str, reason: str, *, fenced: bool) -> None:
        """After a failed move, make sure that the guest is on this host only, in its previous state.

        Raises OutcomeUnknown, and HypervisorFault if the guest does not start here either. A guest that is still here
        can run there only after its definition here was marked. If the destination does not respond, its agent removes
        the remains.
        """
        here = find(self._connection.get(), guest.id)
        runs_here = here is not None and power_of(here) == "running"
        may_run_there = here is None or (not fenced and not runs_here and _is_marked(here, address))
        try:
            with self._peer(address) as other:
                self._remove_there(guest, other, keep=here is None, may_run=not runs_here)
        except OutcomeUnknown:
            raise
        except (libvirt.libvirtError, HypervisorFault) as error:
            if may_run_there:  # now or soon
                raise OutcomeUnknown(f"It is unknown where the guest {guest.id} is: {error}") from error
        if here is None:
            return
        metadata.mark(here, "")
        if self._settings.shared_disks:
            self._disks.own(guest.id, self._settings.address)
        if guest.power == "running":
            self._start_again(here, reason)

    def _start_again(self, here: libvirt.virDomain, reason: str) -> None:
        try:
            _resume(here)
            domains.start(here, self._settings.start_timeout_s)
        except (libvirt.libvirtError, HypervisorFault) as error:
            raise HypervisorFault(f"{reason}. The guest does not start again on its host either: {error}") from error

    def _remove_there(self, guest: Guest, other: libvirt.virConnect, *, keep: bool, may_run: bool) -> None:
        """Remove what a move has left on the other host. Raises OutcomeUnknown if the guest has arrived after all."""
        there = self._arrived(other, guest.id)
        if there is not None:
            if keep or (may_run and (power_of(there) == "running" or _has_run(there))):
                raise OutcomeUnknown(f"The guest {guest.id} is on the other host.")
            domains.remove(there)
        if not keep and not self._settings.shared_disks:
            with remote_directory(other, self._disks.files(guest.id)) as target:
                target.remove()

    def fetch(self, guest: Guest, image: Path | None, address: str) -> None:
        """Copy the disk of a guest that no host has defined. The copy replaces one that an earlier attempt has left."""
        files = self._disks.files(guest.id)
        with self._peer(address) as other, remote_directory(other, files) as source:
            self._disks.receive(guest, image, partial(source.get, files.disk.name))

    def progress(self, server: str) -> Progress | None:
        """Return how far the guest's migration is, or None."""
        copying = self._copying.get(server)
        if copying is not None:
            return Progress(copying.sent, copying.total - copying.sent, copying.total)
        stats: dict[str, int] = {}
        domain = find(self._connection.get(), server)
        with suppress(libvirt.libvirtError):  # it has just ended
            stats = domain.jobStats() if domain is not None and domain.isActive() else {}
        if stats.get("type", libvirt.VIR_DOMAIN_JOB_NONE) in _NO_JOB:
            return None
        return Progress(*(stats.get(f"data_{key}", 0) for key in ("processed", "remaining", "total")))

    def abort(self, server: str) -> None:
        """Abort the guest's migration, if one runs."""
        copying = self._copying.get(server)
        if copying is not None:
            copying.aborted = True
        domain = find(self._connection.get(), server)
        if domain is not None:
            with suppress(libvirt.libvirtError):
                domain.abortJob()

    def wait_for_job(self, server: str) -> None:
        """Return when no migration of the guest runs: an agent that died may have started one."""
        while self._has_job(server):
            time.sleep(_POLL_S)

    def _has_job(self, server: str) -> bool:
        domain = find(self._connection.get(), server)
        try:
            return domain is not None and bool(domain.isActive()) and domain.jobInfo()[0] not in _NO_JOB
        except libvirt.libvirtError:  # it has just gone
            return False

    def _arrived(self, other: libvirt.virConnect, server: str) -> libvirt.virDomain | None:
        """Return the domain on the other host, once it has arrived or ended."""
        deadline = time.monotonic() + self._settings.start_timeout_s
        while (there := find(other, server)) is not None and power_of(there) == "starting":
            if time.monotonic() > deadline:
                raise HypervisorFault(f"The guest {server} does not come up on the other host.")
            time.sleep(_POLL_S)
        return there

    def _live(self, here: libvirt.virDomain, guest: Guest, address: str, other: libvirt.virConnect) -> None:
        uri, bandwidth = self._settings.uri_of(address), self._settings.migration_bandwidth_mib
        parameters = {libvirt.VIR_MIGRATE_PARAM_BANDWIDTH: bandwidth} if bandwidth else {}
        if self._settings.shared_disks:
            here.migrateToURI3(uri, parameters, _FLAGS | _SHARED)
            return
        files = self._disks.files(guest.id)
        with self._remote_directory(other, guest) as target:
            target.make_disk(files.disk.name, self._disks.size(guest.id))
            self._put_config_drive(target, guest, _CopyProgress())
            here.migrateToURI3(uri, parameters, _FLAGS | _LOCAL)

    def _cold(
        self,
        here: libvirt.virDomain,
        there: libvirt.virDomain | None,
        guest: Guest,
        epoch: int,
        address: str,
        other: libvirt.virConnect,
    ) -> None:
        """Stop the guest, and define it on the other host with its present flavor: then its data is complete there.

        The definition here stays until the guest has started there: if it does not start, it comes back.
        """
        domains.stop(here, self._settings.stop_timeout_s)
        self._disks.grow(guest)
        if there is not None:
            domains.remove(there)
        if not self._settings.shared_disks:
            self._copy(guest, other)
        other.defineXML(domain_xml(guest, epoch, self._disks.files(guest.id), self._platform()))
        if self._settings.shared_disks:
            self._disks.own(guest.id, address)
        metadata.mark(here, address)

    def _copy(self, guest: Guest, other: libvirt.virConnect) -> None:
        files = self._disks.files(guest.id)
        flat = files.directory / f"disk.{uuid.uuid4().hex}.flat"  # a killed agent's qemu-img may still write its own
        copying = self._copying.setdefault(guest.id, _CopyProgress())
        try:
            self._disks.flatten(guest.id, flat)
            copying.total = flat.stat().st_size
            with self._remote_directory(other, guest) as target:
                target.put(flat, files.disk.name, copying.advance)
                self._put_config_drive(target, guest, copying)
        finally:
            self._copying.pop(guest.id, None)
            flat.unlink(missing_ok=True)

    @contextmanager
    def _remote_directory(self, other: libvirt.virConnect, guest: Guest) -> Iterator[RemoteDirectory]:
        """Return the guest's directory on the other host. It is emptied if the guest does not arrive there."""
        with remote_directory(other, self._disks.files(guest.id)) as target:
            try:
                yield target
            except (libvirt.libvirtError, HypervisorFault):
                with suppress(libvirt.libvirtError):
                    if find(other, guest.id) is None:
                        target.remove()
                raise

    def _put_config_drive(self, target: RemoteDirectory, guest: Guest, copying: _CopyProgress) -> None:
        drive = self._disks.files(guest.id).config_drive
        if drive.exists():
            target.put(drive, drive.name, copying.advance)

    def _finish(self, guest: Guest, address: str, other: libvirt.virConnect) -> None:
        """Start the guest there if it should run, and leave nothing of it here.

        Files that cannot be removed stay for the agent, which removes data of servers that are elsewhere.
        """
        here, there = find(self._connection.get(), guest.id), find(other, guest.id)
        if there is None:
            raise HypervisorFault(f"The guest {guest.id} did not arrive at {address}.")
        if self._settings.shared_disks:
            self._disks.own(guest.id, address)
        if guest.power == "running":
            self._start_there(there, may_return=here is not None and not _has_run(there))
        if here is not None:
            domains.remove(here)
        if not self._settings.shared_disks:
            with suppress(HypervisorFault):
                self._disks.remove(guest.id)

    def _start_there(self, there: libvirt.virDomain, *, may_return: bool) -> None:
        """Start the guest there. One that has run there has arrived: it stays, stopped if it does not start again."""
        try:
            domains.start(there, self._settings.start_timeout_s)
        except (libvirt.libvirtError, HypervisorFault):
            if may_return:
                raise
            domains.stop(there)

    def _resize_here(self, guest: Guest, epoch: int) -> None:
        """Give the guest its present flavor on this host. One that does not start with it keeps its old one."""
        connection = self._connection.get()
        here = find(connection, guest.id)
        if here is None:
            raise HypervisorFault(f"The guest {guest.id} is not here.")
        domains.stop(here, self._settings.stop_timeout_s)
        self._disks.grow(guest)
        old = here.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)
        fresh = connection.defineXML(domain_xml(guest, epoch, self._disks.files(guest.id), self._platform()))
        if guest.power != "running":
            return
        try:
            domains.start(fresh, self._settings.start_timeout_s)
        except (libvirt.libvirtError, HypervisorFault) as fault:
            domains.stop(fresh)
            self._start_again(connection.defineXML(old), str(fault))
            raise


def _has_arrived(here: libvirt.virDomain, there: libvirt.virDomain | None, address: str) -> bool:
    """Whether the newest data is there: the guest runs there, or is defined there and may have run."""
    if there is None:
        return False
    return power_of(there) == "running" or (_is_marked(here, address) and power_of(here) != "running")


def _has_run(there: libvirt.virDomain) -> bool:
    """Whether a guest that does not run has run since it was defined. A failed start does not count."""
    state, reason = there.state()
    return state == libvirt.VIR_DOMAIN_SHUTOFF and reason in _ENDS


def _is_marked(here: libvirt.virDomain, address: str) -> bool:
    known = metadata.read(here)
    return known is not None and known.moving == address


def _resume(here: libvirt.virDomain) -> None:
    """Resume a guest that an interrupted migration has left paused. The caller knows that it does not run there."""
    if tuple(here.state()) == (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_MIGRATION):
        here.resume()
