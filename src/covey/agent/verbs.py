"""What each verb of a call does on the hypervisor."""

from dataclasses import dataclass, replace
from typing import cast

import structlog

from covey.agent.guests import Guest
from covey.agent.hypervisor import Hypervisor, HypervisorFault, ObservedGuest, OutcomeUnknown, StaleEpoch
from covey.agent.image_cache import ImageCache
from covey.agent.service_api import Call
from covey.model.agents import ARRIVED

log = structlog.get_logger()

_DEFINING = {"start", "reboot_hard"}  # they define a guest whose definition is lost, as Nova's hard reboot does


@dataclass(frozen=True, slots=True)
class Verbs:
    """Carries out calls. Every verb may be repeated."""

    hypervisor: Hypervisor
    images: ImageCache

    def carry_out(self, call: Call) -> str | None:
        """Return the result of a call, if its verb has one. Raises HypervisorFault, and StaleEpoch for an old epoch."""
        hypervisor, arguments = self.hypervisor, call.arguments
        match call.verb:
            case "spawn" if "data" in arguments:
                self._unshelve(call, cast("dict[str, str]", arguments["data"])["address"])
            case "spawn" | "evacuate":
                if call.verb == "evacuate" and not hypervisor.shares_disks:
                    self._remove_older(call)
                self._require_disk(call)
                self.spawn(call.guest, call.epoch)
            case "destroy":
                hypervisor.destroy(call.server, call.epoch)
            case "detach" if arguments.get("unless") == ARRIVED and self._has_arrived(call):
                return ARRIVED
            case "detach":
                hypervisor.detach(call.server, call.epoch)
            case "power":
                self._power(call, str(arguments["verb"]))
            case "migrate":
                destination = cast("dict[str, str]", arguments["destination"])
                live, fenced = bool(arguments.get("live")), bool(destination.get("fenced"))
                hypervisor.migrate(call.guest, destination["address"], call.epoch, live=live, fenced=fenced)
            case "console_log":
                lines = arguments.get("lines")
                return hypervisor.console_log(call.server, None if lines is None else int(cast("int", lines)))
            case verb:
                raise HypervisorFault(f"The agent does not know the verb {verb}; it is older than the service.")
        return None

    def _require_disk(self, call: Call) -> None:
        """Raise HypervisorFault if a server that has data would start on a new disk, which it would then keep."""
        if call.arguments.get("has_data") or (call.verb == "evacuate" and self.hypervisor.shares_disks):
            self._find_disk(call.server)

    def _find_disk(self, server: str) -> None:
        if not self.hypervisor.has_disk(server):
            where = "the storage that hosts share. Is it mounted?" if self.hypervisor.shares_disks else "this host."
            raise HypervisorFault(f"The disk of server {server} is not on {where}")

    def _remove_older(self, call: Call) -> None:
        """Remove what an earlier operation has left here of a server: an evacuated one starts from its image."""
        found = self._observe(call.server)
        if "since" not in call.arguments or (found is not None and _is_since(found, call)):
            return
        if call.arguments.get("has_data"):  # the newest of all hosts
            self.hypervisor.detach(call.server, call.epoch)
        else:
            self.hypervisor.destroy(call.server, call.epoch)

    def _has_arrived(self, call: Call) -> bool:
        """Whether the guest has arrived, and does not only begin to run: before, one that moves live is starting.

        One that does not run must be of this move, which defines it once its data is here. One that should run is
        started, since its source has ended. If it does not start it has arrived nevertheless: its data is here.
        """
        found = self._observe(call.server)
        if found is None or found.power in {"running", "starting"}:
            return found is not None and found.power == "running"
        if not _is_since(found, call):
            return False
        if call.guest.power == "running":
            self._start_arrived(call)
        return True

    def _observe(self, server: str) -> ObservedGuest | None:
        return next((guest for guest in self.hypervisor.observed() if guest.id == server), None)

    def _start_arrived(self, call: Call) -> None:
        try:
            self.hypervisor.power(call.server, "start", call.epoch)
        except (StaleEpoch, OutcomeUnknown):
            raise
        except HypervisorFault as fault:
            log.warning("guest.not_started", server=call.server, reason=fault.message)

    def spawn(self, guest: Guest, epoch: int) -> None:
        """Start a guest on its disk, or on a new one of its image."""
        with self.images.fetched(guest.image) as image:
            self.hypervisor.spawn(guest, image, epoch)

    def start_again(self, guest: Guest, epoch: int) -> None:
        """Start a guest that was here before, on its disk. Raises HypervisorFault without one: it has data."""
        self._find_disk(guest.id)
        self.spawn(guest, epoch)

    def _unshelve(self, call: Call, address: str) -> None:
        """Start a guest whose data may be on another host. If it does not start, the data stays there only."""
        with self.images.fetched(call.guest.image) as image:
            self.hypervisor.fetch(call.guest, image, address, call.epoch)
            try:
                self.hypervisor.spawn(call.guest, image, call.epoch)
            except (StaleEpoch, OutcomeUnknown):
                raise
            except HypervisorFault:
                if not self.hypervisor.shares_disks:
                    self.hypervisor.destroy(call.server, call.epoch)
                raise

    def _power(self, call: Call, verb: str) -> None:
        if verb in _DEFINING and self._observe(call.server) is None:
            self.start_again(replace(call.guest, power="running"), call.epoch)
        else:
            self.hypervisor.power(call.server, verb, call.epoch)


def _is_since(guest: ObservedGuest, call: Call) -> bool:
    """Whether the guest is of the call's operation, and not left by an earlier one."""
    since = call.arguments.get("since")
    return since is not None and guest.epoch >= int(cast("int", since))
