"""The port to what runs guests on a host: libvirt, or a simulation."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from covey.agent.guests import Guest


class HypervisorFault(Exception):
    """An operation of the hypervisor failed. The message is shown to operators, and becomes the server's fault."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class StaleEpoch(HypervisorFault):
    """The guest's metadata has a larger epoch than the call: a newer lease owns the server, and nothing was done."""

    def __init__(self, server: str, epoch: int, newest: int) -> None:
        super().__init__(f"Epoch {epoch} of server {server} is older than epoch {newest}, which the host has seen.")


class OutcomeUnknown(HypervisorFault):
    """Whether the operation succeeded is unknown. It counts neither as done nor as failed, and is repeated."""


class HypervisorLost(OutcomeUnknown):
    """The connection to the host's hypervisor broke during the operation, which may complete or be undone."""


class ObservedGuest(NamedTuple):
    """A guest that Covey defined on this host, by its metadata, in any power state."""

    id: str
    power: str  # running, paused, shutdown, crashed or starting
    epoch: int


class Progress(NamedTuple):
    """How far a migration is, in bytes of memory and local disks."""

    processed_bytes: int
    remaining_bytes: int
    total_bytes: int

    @property
    def percent(self) -> int:
        """From 0 to 100."""
        return min(100, 100 * self.processed_bytes // self.total_bytes) if self.total_bytes else 0


class Hypervisor(Protocol):
    """Runs guests. Every method may be called from several threads, for one guest from one thread at a time.

    `progress` and `abort` are called while `migrate` of the same guest runs in another thread. Every verb is
    idempotent: the agent repeats it after a crash. `epoch` is that of the caller's lease; a guest keeps the largest one
    in its metadata. A verb with a smaller epoch raises StaleEpoch and does nothing. Every method raises
    HypervisorFault. A verb that fails leaves the guest as it was, or raises OutcomeUnknown.
    """

    @property
    def kind(self) -> str:
        """Nova's hypervisor type, such as "QEMU" or "simulated"."""

    @property
    def shares_disks(self) -> bool:
        """Whether other hosts run guests from the same disks. If not, a guest that left this host left a stale disk."""

    def settle(self) -> None:
        """Return when the hypervisor answers and has finished its own recovery."""

    def address(self) -> str:
        """Return where the agents of other hosts migrate guests to."""

    def inventories(self) -> dict[str, int]:
        """Return totals by resource class: VCPU, MEMORY_MB, DISK_GB."""

    def traits(self) -> frozenset[str]:
        """Return the host's traits, in the names of os-traits."""

    def observed(self) -> list[ObservedGuest]:
        """Return all guests that Covey defined on this host, those that do not run among them."""

    def stored(self) -> frozenset[str]:
        """Return the servers whose data this host has, with or without a guest; on shared disks, had last."""

    def has_disk(self, server: str) -> bool:
        """Whether the server has a disk that this host can use: its own, or a shared one that any host had last."""

    def images_in_use(self) -> frozenset[str]:
        """Return the file names of cached images that disks on this host build on. The cache keeps these."""

    def spawn(self, guest: Guest, image: Path | None, epoch: int) -> None:
        """Define the guest, and start it unless it should be shut down. `image` is a cached, checked file.

        A disk that is already there is kept. Does nothing if the guest already runs.
        """

    def fetch(self, guest: Guest, image: Path | None, address: str, epoch: int) -> None:
        """Copy the data of a guest that is not defined anywhere from the host at this address, which keeps it.

        Does nothing if this host has the guest, or shares its disks with others.
        """

    def destroy(self, server: str, epoch: int) -> None:
        """Stop the guest hard, and remove it with its data. Does nothing if it is not there."""

    def detach(self, server: str, epoch: int) -> None:
        """Stop the guest hard, and remove its definition; its data stays. Does nothing if it is not there."""

    def power(self, server: str, verb: str, epoch: int) -> None:
        """Start, stop, stop_hard, reboot or reboot_hard the guest. Does nothing if it is already in that state.

        `stop_hard` is self-fencing: it does not ask the guest, and returns when the guest no longer runs.
        """

    def processes(self) -> frozenset[str]:
        """Return the guests that run by what the host's kernel says: the hypervisor may hang, and is not asked."""

    def kill(self, server: str) -> None:
        """End a guest by its process, without the hypervisor. Does nothing if it does not run."""

    def migrate(self, guest: Guest, address: str, epoch: int, *, live: bool, fenced: bool = False) -> None:
        """Move the guest to the host at this address, and return when nothing of it is left here.

        Does nothing if the guest is already there. If the other host does not answer, its agent is asked again, unless
        it is `fenced`, so that no guest runs there. An aborted migration raises HypervisorFault, and the guest stays.
        """

    def progress(self, server: str) -> Progress | None:
        """Return how far the guest's migration is, or None if none runs."""

    def abort(self, server: str) -> None:
        """Abort the guest's migration. Does nothing if none runs."""

    def console_log(self, server: str, lines: int | None) -> str:
        """Return the end of the serial console's log, all of it without a number of lines."""

    def watch(self, changed: Callable[[str, str], None]) -> None:
        """Call `changed(server, power)` within a second of a guest's start, end or crash, from another thread.

        Returns at once.
        """
