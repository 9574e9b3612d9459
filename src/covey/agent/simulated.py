"""The simulated hypervisor: guests are rows, with a configurable latency and failure rate."""

import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from covey.agent.guests import Guest
from covey.agent.hypervisor import HypervisorFault, ObservedGuest, Progress, StaleEpoch
from covey.agent.simulated_world import World

SHARED = ""  # the host of a disk that all hosts share
_BYTES_PER_MB = 1 << 20


@dataclass(frozen=True, slots=True)
class SimulatedSize:
    """What a simulated host has."""

    vcpus: int = 16
    memory_mb: int = 65536
    disk_gb: int = 1000


@dataclass(slots=True)
class _Migration:
    """A migration under way; it takes as long as the latency."""

    total_bytes: int
    began: float = field(default_factory=time.monotonic)
    aborted: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class Simulated:
    """One simulated host. Each verb takes `latency_s` and fails with probability `failure_rate`."""

    host: str
    world: World
    size: SimulatedSize = field(default_factory=SimulatedSize)
    shares_disks: bool = True
    latency_s: float = 0.0
    failure_rate: float = 0.0
    seed: int | None = None
    kind: str = "simulated"
    _random: random.Random = field(init=False)
    _migrations: dict[str, _Migration] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 -- not for secrets

    def settle(self) -> None:
        """Return at once: the world has no recovery of its own."""

    def address(self) -> str:
        return self.host

    def inventories(self) -> dict[str, int]:
        return {"VCPU": self.size.vcpus, "MEMORY_MB": self.size.memory_mb, "DISK_GB": self.size.disk_gb}

    def traits(self) -> frozenset[str]:
        return frozenset()

    def observed(self) -> list[ObservedGuest]:
        rows = self.world.read("SELECT server, power, epoch FROM guests WHERE host = ?", self.host)
        return [ObservedGuest(row["server"], row["power"], row["epoch"]) for row in rows]

    def stored(self) -> frozenset[str]:
        rows = self.world.read("SELECT server FROM disks WHERE host = ?", self._disk_host)
        return frozenset(row["server"] for row in rows)

    def has_disk(self, server: str) -> bool:
        return server in self.stored()

    def images_in_use(self) -> frozenset[str]:
        rows = self.world.read("SELECT DISTINCT image FROM disks WHERE host IN (?, ?)", self.host, SHARED)
        return frozenset(row["image"] for row in rows if row["image"])

    def spawn(self, guest: Guest, image: Path | None, epoch: int) -> None:
        name = None if image is None else image.name
        self._operate(f"{self.host} could not start {guest.id}")
        with self._fenced(guest.id, epoch) as connection:
            row = (self._disk_host, guest.id, name)
            connection.execute("INSERT OR IGNORE INTO disks (host, server, image) VALUES (?, ?, ?)", row)
            size = (guest.flavor.vcpus, guest.flavor.memory_mb)
            connection.execute(
                "INSERT INTO guests (host, server, power, epoch, vcpus, memory_mb, image)"
                " VALUES (?, ?, 'shutdown', ?, ?, ?, ?) ON CONFLICT DO UPDATE SET epoch = excluded.epoch,"
                " vcpus = excluded.vcpus, memory_mb = excluded.memory_mb",
                (self.host, guest.id, epoch, *size, name),
            )
            if guest.power == "running":
                self._start(connection, guest.id)

    def fetch(self, guest: Guest, image: Path | None, address: str, epoch: int) -> None:
        if self.shares_disks:
            return
        name = None if image is None else image.name
        with self._fenced(guest.id, epoch) as connection:
            if self._epoch(connection, guest.id) is None:
                copied = connection.execute(
                    "INSERT OR REPLACE INTO disks (host, server, image, boots, console)"
                    " SELECT ?, server, ?, boots, console FROM disks WHERE host = ? AND server = ?",
                    (self.host, name, address, guest.id),
                )
                if not copied.rowcount:
                    raise HypervisorFault(f"{address} has no data of server {guest.id}.")

    def destroy(self, server: str, epoch: int) -> None:
        self._wait()
        with self._fenced(server, epoch) as connection:
            connection.execute("DELETE FROM guests WHERE host = ? AND server = ?", (self.host, server))
            connection.execute("DELETE FROM disks WHERE host = ? AND server = ?", (self._disk_host, server))

    def detach(self, server: str, epoch: int) -> None:
        self._wait()
        with self._fenced(server, epoch) as connection:
            connection.execute("DELETE FROM guests WHERE host = ? AND server = ?", (self.host, server))

    def power(self, server: str, verb: str, epoch: int) -> None:
        if verb != "stop_hard":
            self._operate(f"{self.host} could not {verb} {server}")
        with self._fenced(server, epoch) as connection:
            if self._epoch(connection, server) is None:
                raise HypervisorFault(f"Server {server} is not on {self.host}.")
            if verb.startswith(("stop", "reboot")):
                self._set(connection, server, "shutdown")
            if not verb.startswith("stop"):
                self._start(connection, server)

    def processes(self) -> frozenset[str]:
        here = "SELECT server FROM guests WHERE host = ? AND power IN ('running', 'paused')"
        return frozenset(row["server"] for row in self.world.read(here, self.host))

    def kill(self, server: str) -> None:
        with self.world.transaction() as connection:
            connection.execute(
                "UPDATE guests SET power = 'crashed' WHERE host = ? AND server = ? AND power IN ('running', 'paused')",
                (self.host, server),
            )

    def migrate(
        self,
        guest: Guest,
        address: str,
        epoch: int,
        *,
        live: bool,
        fenced: bool = False,  # noqa: ARG002 -- every host of the world answers
    ) -> None:
        migration = self._migrations[guest.id] = _Migration(guest.flavor.memory_mb * _BYTES_PER_MB)
        try:
            if migration.aborted.wait(self.latency_s):
                raise HypervisorFault(f"The migration of {guest.id} to {address} was aborted.")
        finally:
            del self._migrations[guest.id]
        self._fail_by_chance(f"{guest.id} could not be moved from {self.host} to {address}")
        with self._fenced(guest.id, epoch) as connection:
            self._move(connection, guest, address, epoch, live=live)

    def _move(self, connection: sqlite3.Connection, guest: Guest, address: str, epoch: int, *, live: bool) -> None:
        there = "SELECT power FROM guests WHERE host = ? AND server = ?"
        power = connection.execute(there, (self.host, guest.id)).fetchone()
        if power is None:
            if connection.execute(there, (address, guest.id)).fetchone() is None:
                raise HypervisorFault(f"Server {guest.id} is neither on {self.host} nor on {address}.")
            return
        if live and power["power"] != "running":
            raise HypervisorFault(f"Server {guest.id} does not run on {self.host}; it cannot be migrated live.")
        connection.execute("DELETE FROM guests WHERE host = ? AND server = ?", (address, guest.id))
        connection.execute(
            "UPDATE guests SET host = ?, epoch = ?, vcpus = ?, memory_mb = ? WHERE host = ? AND server = ?",
            (address, epoch, guest.flavor.vcpus, guest.flavor.memory_mb, self.host, guest.id),
        )
        if not self.shares_disks:
            connection.execute("DELETE FROM disks WHERE host = ? AND server = ?", (address, guest.id))
            moved = (address, self.host, guest.id)
            connection.execute("UPDATE disks SET host = ? WHERE host = ? AND server = ?", moved)
        if not live:
            self._set(connection, guest.id, "shutdown", address)
            if guest.power == "running":
                self._start(connection, guest.id, address)

    def progress(self, server: str) -> Progress | None:
        migration = self._migrations.get(server)
        if migration is None or not self.latency_s:
            return None
        share = min(1.0, (time.monotonic() - migration.began) / self.latency_s)
        processed = int(migration.total_bytes * share)
        return Progress(processed, migration.total_bytes - processed, migration.total_bytes)

    def abort(self, server: str) -> None:
        migration = self._migrations.get(server)
        if migration is not None:
            migration.aborted.set()

    def console_log(self, server: str, lines: int | None) -> str:
        disk = (self._disk_host, server)
        found = self.world.read("SELECT console FROM disks WHERE host = ? AND server = ?", *disk)
        if not found:
            raise HypervisorFault(f"Server {server} is not on {self.host}.")
        text: str = found[0]["console"]
        return text if lines is None else "".join(text.splitlines(keepends=True)[-lines:] if lines else [])

    def watch(self, changed: Callable[[str, str], None]) -> None:
        self.world.watch(self.host, changed)

    @property
    def _disk_host(self) -> str:
        return SHARED if self.shares_disks else self.host

    def _start(self, connection: sqlite3.Connection, server: str, host: str | None = None) -> None:
        """Start a guest that does not run, and count its boot on its disk."""
        here = host or self.host
        started = connection.execute(
            "UPDATE guests SET power = 'running' WHERE host = ? AND server = ? AND power <> 'running'", (here, server)
        )
        if started.rowcount:
            connection.execute(
                "UPDATE disks SET boots = boots + 1, console = console || ? || (boots + 1) || ?"
                " WHERE host = ? AND server = ?",
                (f"{server} on {here}, boot ", "\n", SHARED if self.shares_disks else here, server),
            )

    def _set(self, connection: sqlite3.Connection, server: str, power: str, host: str | None = None) -> None:
        where = (power, host or self.host, server, power)
        connection.execute("UPDATE guests SET power = ? WHERE host = ? AND server = ? AND power <> ?", where)

    @contextmanager
    def _fenced(self, server: str, epoch: int) -> Iterator[sqlite3.Connection]:
        """Open a transaction that keeps the epoch with the guest. Raises StaleEpoch for a smaller one."""
        with self.world.transaction() as connection:
            newest = self._epoch(connection, server)
            if newest is not None and epoch < newest:
                raise StaleEpoch(server, epoch, newest)
            connection.execute("UPDATE guests SET epoch = ? WHERE host = ? AND server = ?", (epoch, self.host, server))
            yield connection

    def _epoch(self, connection: sqlite3.Connection, server: str) -> int | None:
        here = (self.host, server)
        row = connection.execute("SELECT epoch FROM guests WHERE host = ? AND server = ?", here).fetchone()
        return None if row is None else int(row["epoch"])

    def _operate(self, failure: str) -> None:
        self._wait()
        self._fail_by_chance(failure)

    def _fail_by_chance(self, failure: str) -> None:
        if self.failure_rate and self._random.random() < self.failure_rate:
            raise HypervisorFault(failure)

    def _wait(self) -> None:
        if self.latency_s:
            time.sleep(self.latency_s)
