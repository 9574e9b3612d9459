"""Registrations and heartbeats of agents. A host belongs to the user of its first registration."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import structlog

from covey.model.access import Actor
from covey.model.agents import Agent, AgentState, Registration
from covey.model.errors import Busy, Conflict, Forbidden, Invalid, NotFound, TransactionConflict
from covey.model.hosts import Host, NewHost
from covey.model.ids import HostId, UserId
from covey.model.inventory import Inventory
from covey.model.vocabulary import CUSTOM_NAME, STANDARD_TRAITS
from covey.model.work import JobKind
from covey.ports import Access, Clock, NewUuid
from covey.request_slots import RequestSlots
from covey.services.agents.call_polls import CallPolls
from covey.services.agents.shared_writes import SharedWrites
from covey.services.notifications import NotificationEmitter
from covey.storage.store import Store, Transaction

log = structlog.get_logger()

RULE = "agent:work"
_ATTEMPTS = 5
_MAX_GATHER_S = 0.1  # for heartbeats to share a transaction


class ReportedInventory(NamedTuple):
    """The inventory of a resource class, as an agent reports it. Without a ratio, the host keeps its own."""

    total: int
    reserved: int = 0
    allocation_ratio: float | None = None


class Heartbeat(NamedTuple):
    """A heartbeat of the agent of a host."""

    host: str
    user: UserId
    state: AgentState
    machine: str | None = None  # None if the agent does not report it


@dataclass(slots=True)
class Registrations:
    """Registrations and heartbeats of agents."""

    store: Store
    access: Access
    clock: Clock
    new_uuid: NewUuid
    notifications: NotificationEmitter
    ratios: Mapping[str, float]  # of new hosts
    request_slots: RequestSlots
    polls: CallPolls
    auto_register: bool = True
    binds_by_name: bool = False  # a host is bound only to a user who has its name
    _heartbeats: SharedWrites[Heartbeat, tuple[float | None] | None] = field(init=False)

    def __post_init__(self) -> None:
        self._heartbeats = SharedWrites(self.store, self.request_slots, _store_heartbeats, self._gather_s)

    def register(
        self, actor: Actor, name: str, new: Registration, inventories: Mapping[str, ReportedInventory]
    ) -> Host:
        """Register the agent of a host, which takes no servers until the agent reports up. Return the host.

        Inventories and traits that are as before change nothing. Raises Forbidden for the host of another user,
        Conflict if another machine has the host and may run its guests, NotFound for an unknown host that may not be
        added, and Invalid for an unknown resource class.
        """
        self.access.require(actor, RULE)
        new = new._replace(traits=frozenset(filter(_is_known, new.traits)))
        for _ in range(_ATTEMPTS):
            with suppress(TransactionConflict):
                with self.store.write() as tx:
                    host = self._register(tx, actor, name, new, inventories)
                self.polls.end(host.id)
                return host
        raise Busy("The host kept changing during this request. Try again in a moment.")

    def _register(
        self, tx: Transaction, actor: Actor, name: str, new: Registration, inventories: Mapping[str, ReportedInventory]
    ) -> Host:
        host = tx.hosts.by_name(name)
        if self.binds_by_name and (host is None or tx.agents.by_host_id(host.id) is None):
            _require_name(actor, name)
        if host is None:
            if not self.auto_register:
                raise NotFound(f"Host {name} could not be found, and [agents] auto_register is off.")
            tx.hosts.add([NewHost(self.new_uuid(), name, {})], self.clock())
            host = tx.hosts.by_name(name)
            assert host is not None
        tx.aggregates.lock_hosts([host.id])
        tx.topology.begin_change()  # as an evacuation, which holds the token and then locks the agent
        agent = tx.agents.by_host_id(host.id, lock=True)
        if agent is None:
            tx.agents.add(host.id, actor.user_id, new)
        else:
            own_host(tx, actor, name)
            _reject_other_machine(agent, new.machine_id)
            tx.agents.register(host.id, new)
            tx.agent_calls.release(host.id)
            tx.work.finish(JobKind.EVACUATE_HOST, [host.uuid])  # of a failure that has ended
        log.info("agent.registered", host=name, hypervisor=new.hypervisor, version=new.version)
        self._set_traits(tx, host, new.traits, frozenset() if agent is None else agent.traits)
        self._set_inventories(tx, host, inventories)
        return host

    def _set_traits(self, tx: Transaction, host: Host, reported: frozenset[str], before: frozenset[str]) -> None:
        """Add new traits, and remove those that the agent reported before; others are the operator's."""
        tx.hosts.add_traits((host.id, trait) for trait in sorted(reported - host.traits))
        tx.hosts.remove_traits((host.id, trait) for trait in sorted((before - reported) & host.traits))

    def _set_inventories(self, tx: Transaction, host: Host, inventories: Mapping[str, ReportedInventory]) -> None:
        unknown = inventories.keys() - tx.resource_classes.known(list(inventories))
        if unknown:
            raise Invalid(f"No such resource class: {', '.join(sorted(unknown))}.")
        changed = {}
        for kind, reported in inventories.items():
            present = host.inventories.get(kind, Inventory(0, allocation_ratio=self.ratios.get(kind, 1.0)))
            ratio = present.allocation_ratio if reported.allocation_ratio is None else reported.allocation_ratio
            wanted = replace(present, total=reported.total, reserved=reported.reserved, allocation_ratio=ratio)
            if wanted != host.inventories.get(kind):
                changed[kind] = wanted
        tx.hosts.set_inventories([(host.id, changed)] if changed else [])

    def heartbeat(self, actor: Actor, name: str, state: AgentState, machine: str | None = None) -> float | None:
        """Record that the agent lives. Return for how long it may keep guests running without contact; None: always.

        Raises NotFound for a host that is down: its agent registers again, and compares what runs with what should.
        Raises Conflict if another machine has registered as the host.
        """
        self.access.require(actor, RULE)
        recorded = self._heartbeats.run(Heartbeat(name, actor.user_id, state, machine))
        if recorded is not None:
            return recorded[0]
        with self.store.write() as tx:
            host = own_host(tx, actor, name)
            tx.aggregates.lock_hosts([host])
            tx.topology.begin_change()
            agent = tx.agents.by_host_id(host, lock=True)
            assert agent is not None
            _reject_other_machine(agent, machine)
            if agent.state is AgentState.DOWN:
                raise NotFound(f"The agent of {name} was declared down. Register again.")
            if agent.state is not state:
                tx.agents.set_state(agent.host_id, state)
                self.notifications.host_changed(tx, agent.host_id)
                log.info("agent.state", host=name, state=state)
            return agent.self_fencing_s

    def _gather_s(self) -> float:
        return self.polls.gather_s(_MAX_GATHER_S)


def _store_heartbeats(tx: Transaction, heartbeats: Sequence[Heartbeat]) -> list[tuple[float | None] | None]:
    """Return the self-fencing time of each agent whose state is as before; None for the others."""
    stored: list[tuple[float | None] | None] = [None] * len(heartbeats)
    for state in {beat.state for beat in heartbeats}:
        agents = [(beat.host, beat.user, beat.machine) for beat in heartbeats if beat.state is state]
        found = tx.agents.heartbeat(agents, state)
        for number, beat in enumerate(heartbeats):
            if beat.state is state and (beat.host, beat.user) in found:
                machine, self_fencing_s = found[beat.host, beat.user]
                if None in {machine, beat.machine} or machine == beat.machine:
                    stored[number] = (self_fencing_s,)
    return stored


def _require_name(actor: Actor, host: str) -> None:
    """Raise Forbidden unless the user has the name of the host."""
    user = actor.user_name or actor.user_id
    if user.removeprefix("agent-") not in {host, host.partition(".")[0]}:
        raise Forbidden(
            f"The host {host} has no agent yet, and the user {user} has another name, so it is not bound to that user. "
            "Register it as a user who has its name, or set [agents] binding = first."
        )


def _reject_other_machine(agent: Agent, machine: str | None) -> None:
    """Raise Conflict if another machine has the host's name: each would report the other's guests as ended."""
    if not agent.is_elsewhere(machine):
        return
    if agent.state is AgentState.DOWN:
        raise Conflict(
            f"The agent of {agent.host_name} ran on another machine, {agent.address}, which may still run its guests. "
            f"Switch that machine off and run covey host fence {agent.host_name} --off, or give this one a name of its "
            "own ([agent] host)."
        )
    raise Conflict(
        f"The agent of {agent.host_name} runs on another machine, {agent.address}. Give this one a name of its own "
        f"([agent] host). Or stop the other agent, switch its machine off and, once the host is down, run "
        f"covey host fence {agent.host_name} --off."
    )


def own_host(tx: Transaction, actor: Actor, name: str) -> HostId:
    """Return a host with an agent. Raises NotFound without one, and Forbidden if another user is bound to it."""
    return owned(actor, name, tx.agents.owner(name))


def owned(actor: Actor, name: str, found: tuple[HostId, UserId] | None) -> HostId:
    """Return the host of a row of its id and its user, as `own_host` does."""
    if found is None:
        raise NotFound(f"Host {name} has no agent. Register it.")
    host, user = found
    if user != actor.user_id:
        raise Forbidden(f"The host {name} belongs to the agent of another user.")
    return host


def _is_known(trait: str) -> bool:
    """Return whether a trait is in the vocabulary; a CPU may have flags that it lacks."""
    return trait in STANDARD_TRAITS or CUSTOM_NAME.fullmatch(trait) is not None
