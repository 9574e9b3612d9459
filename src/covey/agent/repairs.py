"""Reconciles a host with the service: adopts, starts, reports or removes each of its guests."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count

import structlog

from covey.agent import reconciliation
from covey.agent.call_runner import CallRunner
from covey.agent.hypervisor import Hypervisor, HypervisorFault, ObservedGuest, StaleEpoch
from covey.agent.power_reports import PowerReports
from covey.agent.reconciliation import Repair, RepairAction
from covey.agent.self_fencing import SelfFencing
from covey.agent.service_api import ServiceApi
from covey.agent.verbs import Verbs

log = structlog.get_logger()

_AT_ONCE = 8
_SWEEPS_PER_FULL = 4  # one sweep of these asks about all guests


@dataclass(frozen=True, slots=True)
class Repairs:
    """Carries out what reconciliation decides, except for servers with a running call."""

    service: ServiceApi
    hypervisor: Hypervisor
    verbs: Verbs
    runner: CallRunner
    power: PowerReports
    fencing: SelfFencing
    resume_guests: bool
    newest_epoch: Callable[[str], int]  # of the calls of a server that this agent has seen; 0 without one
    _confirmed: dict[str, int] = field(default_factory=dict)  # epochs of guests that the service has here
    _sweeps: Iterator[int] = field(default_factory=count)

    def reconcile(self) -> None:
        """Make the host agree with the service.

        Raises HypervisorFault if an orphan could not be removed, ForeignService, and what the service's API raises.
        """
        observed = self.hypervisor.observed()  # before the servers: the service then has the row of each guest
        expected = self.service.servers()
        orphan_ids = reconciliation.find_orphans(observed, expected)
        leftovers = reconciliation.find_leftovers(self.hypervisor.stored(), observed, expected)
        found = reconciliation.repairs(
            observed,
            expected,
            self.service.locations(orphan_ids),
            resumed=None if self.resume_guests else self.fencing.resumed(),
            shares_disks=self.hypervisor.shares_disks,
        )
        found += self._cleanups(leftovers)
        log.info(
            "agent.reconciling",
            guests=len(observed),
            servers=len(expected),
            orphans=len(orphan_ids),
            repairs=len(found),
        )
        faults = self._carry_out(found)
        if faults:
            raise faults[0]
        self.power.observe()
        self.fencing.forget()

    def sweep(self, observed: Sequence[ObservedGuest]) -> None:
        """Remove guests, and data on local disks, that the service has elsewhere: what an operation has left.

        The service is asked about a guest until it has it here, and again after each change of its epoch. Every few
        sweeps it is asked about all: an operator may have forced this host down, and evacuated it, while it reported.
        The next sweep tries again what cannot be removed. Raises what the service's API raises.
        """
        if next(self._sweeps) % _SWEEPS_PER_FULL == 0:
            self._confirmed.clear()
        unsure = [guest for guest in observed if self._confirmed.get(guest.id) != guest.epoch]
        locations = self.service.locations([guest.id for guest in unsure])
        here = {guest.id: guest.epoch for guest in observed if locations.get(guest.id, "here") == "here"}
        self._confirmed.clear()
        self._confirmed.update(here)
        self._carry_out(reconciliation.removals(unsure, locations, shares_disks=self.hypervisor.shares_disks))
        if not self.hypervisor.shares_disks:
            for server in sorted(self.hypervisor.stored() - {guest.id for guest in observed}):
                self._carry_out(self._cleanups([server]))  # asked one by one: data may arrive a moment later

    def _cleanups(self, leftovers: Sequence[str]) -> list[Repair]:
        epochs = {server: self.newest_epoch(server) for server in leftovers}
        locations = self.service.locations(leftovers)
        return reconciliation.cleanups(locations, epochs, shares_disks=self.hypervisor.shares_disks)

    def _carry_out(self, repairs: Sequence[Repair]) -> list[HypervisorFault]:
        """Return the faults that keep the host from reporting up."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return [fault for fault in pool.map(self._repair, repairs) if fault is not None]

    def _repair(self, repair: Repair) -> HypervisorFault | None:
        """Repair one guest, unless a call has it. Return the fault that keeps the host from reporting up."""
        with self.runner.holding(repair.server) as free:
            if not free:
                return None
            log.info("agent.repairs", server=repair.server, action=repair.action)
            try:
                self._apply(repair)
            except StaleEpoch:  # a newer call has been here
                return None
            except HypervisorFault as fault:
                log.warning("agent.repair_failed", server=repair.server, action=repair.action, reason=fault.message)
                if repair.action is not RepairAction.START:
                    return fault
                self.power.changed(repair.server, "shutdown", is_missing=repair.is_missing)
        return None

    def _apply(self, repair: Repair) -> None:
        match repair.action:
            case RepairAction.DESTROY:
                self.hypervisor.destroy(repair.server, repair.epoch)
            case RepairAction.DETACH:
                self.hypervisor.detach(repair.server, repair.epoch)
            case RepairAction.REPORT:
                self.power.changed(repair.server, repair.power, is_missing=repair.is_missing)
            case RepairAction.START if repair.guest is not None:
                self.verbs.start_again(repair.guest, repair.epoch)
