"""What an agent keeps on its host between two runs: its lock, its last contact, and the guests that it has stopped."""

import fcntl
import os
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

_RECORD_BYTES = 128
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class AlreadyRunning(Exception):
    """Another agent of this host runs."""


class StateNotWritable(Exception):
    """The agent could not keep its last contact."""


def boot_time_s() -> float:
    """Return the seconds since the host's boot. It never jumps, and also counts while the host is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(slots=True)
class StateDirectory:
    """A directory of one host's agent."""

    path: Path
    _lock: int | None = field(default=None, init=False)

    def lock(self) -> None:
        """Make this process the host's only agent until it ends. Raises AlreadyRunning, and StateNotWritable."""
        self.path.mkdir(parents=True, exist_ok=True)
        file = self.path / "agent.lock"
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            pid = os.read(descriptor, 32).decode().strip()
            os.close(descriptor)
            raise AlreadyRunning(
                f"Another agent of this host runs already (process {pid or 'unknown'}); it holds {file}."
            ) from error
        owner = f"{os.getpid()}\n".encode()
        os.pwrite(descriptor, owner, 0)  # before it is truncated, so that a full disk has the room
        os.ftruncate(descriptor, len(owner))
        self._lock = descriptor
        self._reserve_contact()

    def holder(self) -> int | None:
        """Return the process id of the agent that runs, or None."""
        try:
            descriptor = os.open(self.path / "agent.lock", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(os.read(descriptor, 32).decode() or 0)
        finally:
            os.close(descriptor)
        return None

    def _reserve_contact(self) -> None:
        """Make sure that contacts can be stored: without one, no guardian knows when the host's lease ends."""
        file = self.path / "contact.json"
        try:
            if not file.exists() or file.stat().st_size < _RECORD_BYTES:
                self._store_contact(b"")
        except OSError as error:
            raise StateNotWritable(f"The agent cannot write {file}: {error}.") from error

    def save_contact(self, at_s: float) -> None:
        """Store the time of the last request that the service answered, by the clock of this boot."""
        self._store_contact(msgspec.json.encode({"boot": _boot_id(), "at_s": at_s}))

    def _store_contact(self, record: bytes) -> None:
        """Overwrite the record in place, so that a disk that is full is no loss of contact."""
        descriptor = os.open(self.path / "contact.json", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.pwrite(descriptor, record.ljust(_RECORD_BYTES), 0)
        finally:
            os.close(descriptor)

    def last_contact(self) -> float | None:
        """Return the last contact of an agent since the host's boot, or None."""
        found = self._read("contact.json")
        return float(found["at_s"]) if found.get("boot") == _boot_id() and "at_s" in found else None

    def forget_contact(self) -> None:
        """Forget the contact of an agent whose stop the service has recorded. The file stays, for the next agent."""
        self._store_contact(b"")

    def save_fenced(self, servers: Collection[str]) -> None:
        """Store the guests that self-fencing has stopped: they start again if they still belong here."""
        self._write("fenced.json", {"servers": sorted(servers)})

    def fenced(self) -> frozenset[str]:
        return frozenset(self._read("fenced.json").get("servers", ()))

    def _write(self, name: str, document: object) -> None:
        partial = self.path / f"{name}.partial"
        partial.write_bytes(msgspec.json.encode(document))
        partial.replace(self.path / name)

    def _read(self, name: str) -> dict[str, Any]:
        try:
            return msgspec.json.decode((self.path / name).read_bytes(), type=dict[str, Any])
        except (FileNotFoundError, msgspec.DecodeError):
            return {}


def _boot_id() -> str:
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""
