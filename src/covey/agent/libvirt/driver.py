"""The hypervisor port on libvirt: each server is a domain with the server's id as its uuid."""

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import libvirt

from covey.agent import config_drive
from covey.agent.guests import Guest
from covey.agent.hypervisor import HypervisorFault, HypervisorLost, ObservedGuest, OutcomeUnknown, Progress, StaleEpoch
from covey.agent.libvirt import capabilities, domains, metadata
from covey.agent.libvirt.connections import Connection
from covey.agent.libvirt.disks import Disks
from covey.agent.libvirt.domains import NAME_PREFIX, Platform, domain_xml, find, power_of
from covey.agent.libvirt.events import Events
from covey.agent.libvirt.migrations import Migrations
from covey.agent.libvirt.new_files import new_file
from covey.agent.libvirt.settings import LibvirtSettings

_POLL_S = 0.1
_KILLED_WITHIN_S = 5.0
_MAX_EPOCHS = 10_000
_KILL_POLL_S = 0.02
_PROCESS_NAME = re.compile(rb"\0-name\0(?:[^\0]*,)?guest=" + NAME_PREFIX.encode() + rb"([0-9a-f-]{36})[,\0]")


class Libvirt:
    """Runs guests by this host's libvirt. Every verb checks the present state first, so it is idempotent."""

    kind = "QEMU"

    def __init__(self, settings: LibvirtSettings) -> None:
        self._settings = settings
        self._connection = Connection(settings.uri)
        self._disks = Disks(settings.instances, settings.shared_disks)
        self._migrations = Migrations(self._connection, self._disks, lambda: self._platform, settings)
        self._events = Events(self._connection)
        self._processes = Processes(settings.instances)
        self._leases = _Leases()

    @cached_property
    def _platform(self) -> Platform:
        return capabilities.platform(self._connection.get(), self._settings)

    @property
    def shares_disks(self) -> bool:
        return self._settings.shared_disks

    def settle(self) -> None:
        """Return when libvirt answers, and no guest of Covey's is half started: a restarted libvirtd ends those."""
        self._disks.sweep()
        deadline = time.monotonic() + self._settings.start_timeout_s
        while True:
            try:
                if not any(guest.power == "starting" for guest in self.observed()):
                    return
            except HypervisorFault:
                if time.monotonic() > deadline:
                    raise
            if time.monotonic() > deadline:
                return
            time.sleep(_POLL_S)

    def address(self) -> str:
        return self._settings.address

    def inventories(self) -> dict[str, int]:
        with self._faults():
            return capabilities.inventories(self._connection.get(), self._settings)

    def traits(self) -> frozenset[str]:
        with self._faults():
            return capabilities.traits(self._connection.get(), self._platform)

    def observed(self) -> list[ObservedGuest]:
        with self._faults():
            found = [
                domain for domain in self._connection.get().listAllDomains() if domain.name().startswith(NAME_PREFIX)
            ]
            return [guest for guest in map(_observe, found) if guest is not None]

    def stored(self) -> frozenset[str]:
        return frozenset(server for server in self._disks.servers() if not self._is_elsewhere(server))

    def has_disk(self, server: str) -> bool:
        return self._disks.files(server).disk.exists()

    def images_in_use(self) -> frozenset[str]:
        return self._disks.images()

    def spawn(self, guest: Guest, image: Path | None, epoch: int) -> None:
        with self._fenced(guest.id, epoch) as domain:
            if domain is None:
                self._create(guest, image, epoch)
            elif guest.power == "running":
                domains.start(domain, self._settings.start_timeout_s)

    def fetch(self, guest: Guest, image: Path | None, address: str, epoch: int) -> None:
        with self._fenced(guest.id, epoch) as domain:
            if domain is None and not self._settings.shared_disks:
                self._migrations.fetch(guest, image, address)

    def destroy(self, server: str, epoch: int) -> None:
        with self._fenced(server, epoch, record=False) as domain:
            if domain is not None:
                domains.remove(domain)
            if not self._is_elsewhere(server):
                self._disks.remove(server)

    def detach(self, server: str, epoch: int) -> None:
        with self._fenced(server, epoch, record=False) as domain:
            if domain is not None:
                domains.remove(domain)

    def power(self, server: str, verb: str, epoch: int) -> None:
        with self._fenced(server, epoch) as domain:
            if domain is None:
                raise HypervisorFault(f"The guest {server} is not here.")
            if verb != "start":
                domains.stop(domain, 0.0 if verb.endswith("_hard") else self._settings.stop_timeout_s)
            if not verb.startswith("stop"):
                domains.start(domain, self._settings.start_timeout_s)

    def processes(self) -> frozenset[str]:
        return frozenset(self._processes.find())

    def kill(self, server: str) -> None:
        self._processes.kill(server, _KILLED_WITHIN_S)

    def migrate(self, guest: Guest, address: str, epoch: int, *, live: bool, fenced: bool = False) -> None:
        try:
            self._migrate(guest, address, epoch, live=live, fenced=fenced)
        except _NoSuchDomain:  # a migration that an earlier agent started ended between two checks
            self._migrate(guest, address, epoch, live=live, fenced=fenced)

    def _migrate(self, guest: Guest, address: str, epoch: int, *, live: bool, fenced: bool) -> None:
        with self._faults():
            self._migrations.wait_for_job(guest.id)  # libvirt rejects changes of the metadata until it ends
        with self._fenced(guest.id, epoch):
            self._migrations.migrate(guest, address, epoch, live=live, fenced=fenced)

    def progress(self, server: str) -> Progress | None:
        with self._faults():
            return self._migrations.progress(server)

    def abort(self, server: str) -> None:
        with self._faults():
            self._migrations.abort(server)

    def console_log(self, server: str, lines: int | None) -> str:
        return self._disks.console_log(server, lines)

    def watch(self, changed: Callable[[str, str], None]) -> None:
        self._events.watch(changed)

    def _create(self, guest: Guest, image: Path | None, epoch: int) -> None:
        """Define and start the guest. Of a guest that does not start, nothing stays but a disk that was there.

        Raises OutcomeUnknown if it cannot be removed.
        """
        files = self._disks.files(guest.id)
        made, owner = self._disks.make(guest, image), self._disks.owner(guest.id)
        if self._settings.shared_disks:
            self._disks.own(guest.id, self._settings.address)
        if guest.config_drive and self._settings.config_drive != "none":
            with new_file(files.config_drive, replace=True) as part:
                config_drive.write(guest, part, self._settings.config_drive)
        domain = self._connection.get().defineXML(domain_xml(guest, epoch, files, self._platform))
        if guest.power != "running":
            return
        try:
            domains.start(domain, self._settings.start_timeout_s)
        except (libvirt.libvirtError, HypervisorFault):
            self._remove_failed(domain, guest.id, owner, with_disk=made)
            raise

    def _remove_failed(self, domain: libvirt.virDomain, server: str, owner: str | None, *, with_disk: bool) -> None:
        try:
            domains.remove(domain)
            if with_disk:
                self._disks.remove(server)
            elif owner is not None:
                self._disks.own(server, owner)
        except (libvirt.libvirtError, HypervisorFault) as error:
            raise OutcomeUnknown(f"The guest {server} did not start, and cannot be removed: {error}") from error

    def _is_elsewhere(self, server: str) -> bool:
        """Whether another of the hosts that share disks has the guest now."""
        owner = self._disks.owner(server) if self._settings.shared_disks else None
        return owner not in {None, self._settings.address}

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Turn errors of libvirt and of the system into the port's. Raises HypervisorLost if the connection broke."""
        used: libvirt.virConnect | None = None
        try:
            used = self._connection.get()
            yield
        except StaleEpoch:
            raise
        except (libvirt.libvirtError, HypervisorFault, OSError) as error:
            if used is None or not used.isAlive():
                raise HypervisorLost(str(error)) from error
            if isinstance(error, HypervisorFault):
                raise
            is_gone = isinstance(error, libvirt.libvirtError) and error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN
            raise (_NoSuchDomain if is_gone else HypervisorFault)(str(error)) from error

    @contextmanager
    def _fenced(self, server: str, epoch: int, *, record: bool = True) -> Iterator[libvirt.virDomain | None]:
        """Return the domain, which records the epoch. Raises StaleEpoch if this host has seen a larger one."""
        with self._faults(), self._leases.hold(server, epoch):
            domain = find(self._connection.get(), server)
            known = None if domain is None else metadata.read(domain)
            if known is None:
                domain = find(self._connection.get(), server)  # the end of a migration removes it
            if domain is not None:
                if known is None:
                    raise HypervisorFault(f"The domain {server} is not managed by Covey.")
                if known.epoch > epoch:
                    raise StaleEpoch(server, epoch, known.epoch)
                if record and known.epoch < epoch:
                    metadata.write(domain, replace(known, epoch=epoch))
            yield domain


@dataclass(frozen=True, slots=True)
class Processes:
    """The QEMU processes of guests, as the kernel shows them: libvirt, which may hang, is not asked.

    Those that run from a disk below one directory: a guest of others may have a name like one of Covey's.
    """

    instances: Path
    proc: Path = Path("/proc")

    def find(self) -> dict[str, int]:
        """Return the process id of each guest that runs, by server."""
        found: dict[str, int] = {}
        for entry in self.proc.iterdir():
            if entry.name.isdigit():
                server = self._server(entry)
                if server is not None:
                    found[server] = int(entry.name)
        return found

    def kill(self, server: str, timeout_s: float) -> None:
        """Return when the process of a guest has ended. Raises HypervisorFault if it does not end in time."""
        pid = self.find().get(server)
        if pid is None:
            return
        deadline = time.monotonic() + timeout_s
        try:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        except PermissionError as error:
            raise HypervisorFault(f"The agent may not kill process {pid} of the guest {server}.") from error
        while self._server(self.proc / str(pid)) == server:
            if time.monotonic() > deadline:
                raise HypervisorFault(f"Process {pid} of the guest {server} does not end.")
            time.sleep(_KILL_POLL_S)

    def _server(self, process: Path) -> str | None:
        """Return whose guest a process is; None for another process, and for one that has ended."""
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            return None
        named = _PROCESS_NAME.search(command)
        if named is None:
            return None
        server = named[1].decode()
        return server if os.fsencode(f"{self.instances}/{server}/") in command else None


class _NoSuchDomain(HypervisorFault):
    """The domain went while it was used."""


class _Leases:
    """One verb at a time for each server, and its largest epoch, which outlives the domain while this process runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._epochs: dict[str, int] = {}

    @contextmanager
    def hold(self, server: str, epoch: int) -> Iterator[None]:
        """Raises StaleEpoch if a verb with a larger epoch was here before."""
        with self._lock:
            lock = self._locks.setdefault(server, threading.Lock())
        with lock:
            newest = self._epochs.get(server, 0)
            if newest > epoch:
                raise StaleEpoch(server, epoch, newest)
            self._remember(server, epoch)
            yield

    def _remember(self, server: str, epoch: int) -> None:
        with self._lock:
            self._epochs[server] = epoch
            if len(self._epochs) > _MAX_EPOCHS:
                oldest = next(iter(self._epochs))
                del self._epochs[oldest]
                self._locks.pop(oldest, None)


def _observe(domain: libvirt.virDomain) -> ObservedGuest | None:
    """Return the state of one of Covey's domains; None for any other domain, or one that has just gone."""
    try:
        known = metadata.read(domain)
        return ObservedGuest(domain.UUIDString(), power_of(domain), known.epoch) if known is not None else None
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise
