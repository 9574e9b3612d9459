"""The work of agents: calls and reports, the servers of a host, what happens to guests, and the data of images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO, NamedTuple

import structlog

from covey.model.access import Actor
from covey.model.agents import Report, TakenCall
from covey.model.errors import Conflict, CoveyError, NotFound
from covey.model.ids import ServerId
from covey.model.servers import Power, Server, Task, VmState
from covey.model.work import JobKind
from covey.ports import Access, Clock
from covey.request_slots import RequestSlots
from covey.services.agents.call_polls import CallPolls
from covey.services.agents.guests import complete, document_of, location_of
from covey.services.agents.registrations import RULE, own_host, owned
from covey.services.agents.shared_writes import SharedWrites
from covey.storage.image_files import ImageFiles
from covey.storage.store import Store, Transaction

log = structlog.get_logger()

_MAX_GATHER_S = 0.02  # for reports to share a transaction; a guest takes longer to start


class CallReport(NamedTuple):
    """The state of a call, as its agent reports it."""

    call: int
    host: str
    actor: Actor
    report: Report


class HostServer(NamedTuple):
    """A server that may or should be on a host."""

    guest: Mapping[str, object]
    epoch: int  # of its newest job or call; 0 without one
    task: Task | None
    location: str  # here, arriving or leaving


class PowerEvent(NamedTuple):
    """What a host saw of a guest."""

    server: str
    epoch: int  # of the guest's metadata; 0 if the host does not know it
    power: Power


@dataclass(slots=True)
class AgentWork:
    """What agents do for their own hosts. Each method raises Forbidden, and NotFound for a host without an agent."""

    store: Store
    access: Access
    clock: Clock
    polls: CallPolls
    files: ImageFiles
    request_slots: RequestSlots
    _reports: SharedWrites[CallReport, bool] = field(init=False)

    def __post_init__(self) -> None:
        self._reports = SharedWrites(self.store, self.request_slots, self._store_reports, self._gather_s)

    @property
    def call_lease_s(self) -> float:
        """How long an agent has a call that it does not report."""
        return self.polls.call_lease_s

    def _gather_s(self) -> float:
        return self.polls.gather_s(_MAX_GATHER_S)

    def calls(self, actor: Actor, name: str, wait_s: float, limit: int) -> list[TakenCall]:
        """Return calls, leased to the agent; none after the wait. Raises Busy if too many agents wait."""
        self.access.require(actor, RULE)
        with self.store.read_once() as tx:
            found = tx.agent_calls.any_for(name)
        host = owned(actor, name, found and found[:2])
        if found is not None and found[2]:
            return self.polls.take({host: limit})
        return self.polls.wait(host, wait_s, limit) if wait_s else []

    def report(self, actor: Actor, name: str, call: int, report: Report) -> bool:
        """Store a report of a call, and renew its lease. Return whether the agent is to abort it.

        A call that has ended makes its job due. Raises Conflict if the call is gone, or taken over by a newer epoch.
        """
        self.access.require(actor, RULE)
        return self._reports.run(CallReport(call, name, actor, report))

    def _store_reports(self, tx: Transaction, reports: Sequence[CallReport]) -> list[bool | CoveyError]:
        known = [(each.call, each.host, each.actor.user_id, each.report) for each in reports]
        aborts = tx.agent_calls.report(known, self.call_lease_s)
        return [_refusal(tx, each) if abort is None else abort for each, abort in zip(reports, aborts, strict=True)]

    def servers(self, actor: Actor, name: str) -> list[HostServer]:
        """Return the servers that may or should be on the host."""
        self.access.require(actor, RULE)
        with self.store.read() as tx:
            host = own_host(tx, actor, name)
            placed = [(server, location_of(server, host, name)) for server in tx.servers.at_hosts([host])]
            there = [(server, location) for server, location in placed if location != "elsewhere"]
            guests = complete(tx, [document_of(server) for server, _ in there])
            ids = [server.id for server, _ in there]
            jobs, calls = tx.work.epochs(ids), tx.agent_calls.kept_epochs(ids)
        return [
            HostServer(guest, max(jobs.get(server.id, 0), calls.get(server.id, 0)), server.task, location)
            for (server, location), guest in zip(there, guests, strict=True)
        ]

    def locations(self, actor: Actor, name: str, servers: Sequence[str]) -> dict[str, str]:
        """Return where each of these servers is, as seen from the host.

        `here`, `arriving` or `leaving`; `elsewhere` on another host; `shelved` on none; `deleted`; `unknown`.
        """
        self.access.require(actor, RULE)
        with self.store.read() as tx:
            host = own_host(tx, actor, name)
            found = tx.servers.by_ids([ServerId(server) for server in servers])
            locations = {str(server.id): location_of(server, host, name) for server in found}
            deleted = tx.servers.deleted([server for server in servers if server not in locations])
        return {each: locations.get(each, "deleted" if each in deleted else "unknown") for each in servers}

    def record_events(self, actor: Actor, name: str, events: Sequence[PowerEvent]) -> list[ServerId]:
        """Store the power states that the host saw. Return the servers with a task, whose events are to be repeated.

        Events from before the last call of a server, and those of servers on other hosts, are ignored.
        """
        self.access.require(actor, RULE)
        busy = []
        with self.store.write() as tx:
            host = own_host(tx, actor, name)
            for event in sorted(events):
                server = tx.servers.by_id(event.server, lock=True)
                if server is None or server.host_id != host or server.power is event.power:
                    continue
                if server.task is not None:
                    busy.append(server.id)
                elif not event.epoch or event.epoch >= tx.agent_calls.kept_epochs([server.id]).get(server.id, 0):
                    self._set_power(tx, name, server, event.power)
        return busy

    def _set_power(self, tx: Transaction, host: str, server: Server, power: Power) -> None:
        log.info("server.power", server=server.id, host=host, power=power)
        changed = replace(_with_power(server, power), updated_at=self.clock())
        tx.servers.update(changed)
        if changed.task is Task.POWERING_OFF:
            tx.work.add(JobKind.POWER, server.id, {"verb": "stop"})

    def image(self, actor: Actor, image: str) -> BinaryIO:
        """Return the data of an image that a server on one of the agent's hosts uses, an open file. Raises NotFound."""
        self.access.require(actor, RULE)
        with self.store.read() as tx:
            found = tx.images.by_id(image) if tx.agents.uses_image(actor.user_id, image) else None
        data = None if found is None or found.sha512 is None else self.files.open(found.id)
        if data is None:
            raise NotFound(f"No image found with ID {image}, or no data of it")
        return data


def _refusal(tx: Transaction, refused: CallReport) -> CoveyError:
    """Return why the report of a call is not stored."""
    try:
        own_host(tx, refused.actor, refused.host)
    except CoveyError as error:
        return error
    return Conflict(f"The call {refused.call} of epoch {refused.report.epoch} has ended. Drop it.")


def _with_power(server: Server, power: Power) -> Server:
    """Return the server as Nova's power sync has it: an active one that ended is stopped.

    A stopped one that runs is stopped again.
    """
    if server.vm_state is VmState.ACTIVE and power.is_off:
        return replace(server, power=power, vm_state=VmState.STOPPED)
    if server.vm_state is VmState.STOPPED and not power.is_off:
        return replace(server, power=power, task=Task.POWERING_OFF)
    return replace(server, power=power)
