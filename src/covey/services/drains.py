"""Drains: plan the moves that empty a host or a domain, and start, show, cancel or undo them."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from covey.model.access import OPERATORS, Actor
from covey.model.aggregates import Aggregate
from covey.model.drains import Drain, DrainStatus, DrainStep, LeftServer, StepStatus
from covey.model.errors import Conflict, Invalid, NotFound
from covey.model.groups import GroupState
from covey.model.hosts import Host
from covey.model.ids import GroupId, HostId
from covey.model.nova import NovaNode
from covey.model.rebalances import Step
from covey.model.scopes import HOST_SCOPE
from covey.model.work import JobKind
from covey.ports import Access, Clock, NewUuid
from covey.request_slots import RequestSlots
from covey.scheduler.drain_planning import BlockedServer, DrainCandidate, PlannedMove, plan_drain
from covey.scheduler.fleet import Fleet
from covey.services.domains import get_scope_by_name
from covey.services.live_fleet import LiveFleet
from covey.services.nova_plans import NovaPlan
from covey.services.own_plans import own_candidate
from covey.services.servers import Servers
from covey.storage.store import Store, Transaction

_RULE = "os_compute_api:os-drains:"
_MAX_REFUSALS = 20  # of an instance of Nova, by different hosts


@dataclass(frozen=True, slots=True)
class DrainPlan:
    """The moves that empty a host or a domain, with hosts by name, and the servers that cannot be moved."""

    scope: str
    domain: str
    hosts: tuple[str, ...]
    moves: tuple[Step, ...]
    left: tuple[LeftServer, ...]


@dataclass(frozen=True, slots=True)
class DrainHosts:
    """The hosts of a domain: Covey's own, and compute nodes of Nova."""

    own: Sequence[Host]
    nodes: Sequence[NovaNode] = ()

    @property
    def ids(self) -> list[HostId]:
        return [*(host.id for host in self.own), *(node.id for node in self.nodes)]

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.own_names, *(node.host.service_host for node in self.nodes))

    @property
    def own_names(self) -> tuple[str, ...]:
        return tuple(host.name for host in self.own)

    @classmethod
    def named(cls, tx: Transaction, names: Sequence[str]) -> Self:
        """Return hosts by name; those that were deleted since are left out."""
        own = tx.hosts.by_names(names)
        return cls(own, tx.nova_instances.nodes_named({*names} - {host.name for host in own}))


@dataclass(frozen=True, slots=True)
class DrainSnapshot:
    """The servers that have to leave some hosts, with their groups, and private copies of the fleet."""

    hosts: frozenset[HostId]
    candidates: Sequence[DrainCandidate]
    groups: Mapping[GroupId, GroupState]
    fleet: Fleet
    nova: NovaPlan | None = None  # if some of the hosts are compute nodes

    def name(self, host: HostId) -> str:
        fleet = self.fleet if self.nova is None else self.nova.fleet
        return fleet.names[fleet.row_of[host]]

    def left(self, blocked: Sequence[BlockedServer], steps: Sequence[DrainStep] = ()) -> tuple[LeftServer, ...]:
        """Return the servers that cannot be moved after some steps, by id."""
        failures = {step.server_id: step.reason for step in steps if step.status is StepStatus.FAILED}
        left = list[LeftServer]()
        for each in blocked:
            last = failures.get(each.server.id)
            reason = each.reason if last in {None, each.reason} else f"{each.reason} Its last move failed: {last}"
            left.append(LeftServer(each.server.id, self.name(each.server.host), reason))
        return tuple(sorted(left, key=lambda each: each.server_id))

    def after(self, steps: Sequence[DrainStep], max_attempts: int, *, avoid_refused: bool) -> list[DrainCandidate]:
        """Return the servers that do not move, after steps of which some failed.

        A server is blocked after `max_attempts` failed moves; refusals by Nova have a limit of their own. An instance
        of Nova is not moved to a host where a move failed before: Covey does not know all of Nova's filters. With
        `avoid_refused`, it is not moved to a host that was refused to another instance either.
        """
        avoided = {step.destination for step in steps if step.refused and avoid_refused}
        moving = {step.server_id for step in steps if step.is_open}
        failed = defaultdict[str, list[DrainStep]](list)
        for step in steps:
            if step.status is StepStatus.FAILED:
                failed[step.server_id].append(step)
        rest = (candidate for candidate in self.candidates if candidate.server.id not in moving)
        return [
            self._after(candidate, failed.get(candidate.server.id, ()), max_attempts, avoided) for candidate in rest
        ]

    def _after(
        self, candidate: DrainCandidate, failed: Sequence[DrainStep], max_attempts: int, avoided: set[str]
    ) -> DrainCandidate:
        refusals = sum(step.refused for step in failed)
        if len(failed) - refusals >= max_attempts or refusals >= _MAX_REFUSALS:
            return replace(candidate, obstacle=failed[-1].reason, waits=False)
        avoided = avoided | {step.destination for step in failed}
        if not avoided or self.nova is None or candidate.server.host not in self.nova.nodes:
            return candidate
        requirements = replace(candidate.server.requirements, ignored_hosts=self.nova.ids_named(avoided))
        return replace(candidate, server=replace(candidate.server, requirements=requirements))


@dataclass(frozen=True, slots=True)
class DrainPlanner:
    """Takes a snapshot of hosts, and plans how their servers leave."""

    servers: Servers
    live: LiveFleet
    request_slots: RequestSlots
    new_seed: Callable[[], int]

    def snapshot(self, tx: Transaction, hosts: DrainHosts) -> DrainSnapshot:
        """Return the hosts as the transaction sees them."""
        fleet = self.live.read(tx).fleet
        own = tx.servers.at_hosts([host.id for host in hosts.own])
        candidates = [own_candidate(self.servers, server) for server in own]
        nova = NovaPlan.read(tx, fleet) if hosts.nodes else None
        if nova is not None:
            instances = tx.nova_instances.at_hosts([node.id for node in hosts.nodes])
            candidates += [candidate for each in instances if (candidate := nova.candidate(each)) is not None]
        groups = {candidate.group: 0 for candidate in candidates if candidate.group is not None}
        return DrainSnapshot(frozenset(hosts.ids), candidates, tx.groups.states(groups), fleet, nova)

    def plan(
        self, snapshot: DrainSnapshot, candidates: Sequence[DrainCandidate], *, most: int | None = None
    ) -> tuple[list[PlannedMove], list[BlockedServer]]:
        """Return the moves, and the blocked servers. Planning holds no request slot and no transaction.

        With `most`, return up to that number of moves that can begin at once, and the servers found blocked so far.
        """
        moves, blocked = list[PlannedMove](), list[BlockedServer]()
        with self.request_slots.computing():
            for outcome in self._outcomes(snapshot, candidates, at_once=most is not None):
                if isinstance(outcome, BlockedServer):
                    blocked.append(outcome)
                else:
                    moves.append(outcome)
                    if len(moves) == most:
                        break
        return moves, blocked

    def _outcomes(
        self, snapshot: DrainSnapshot, candidates: Sequence[DrainCandidate], *, at_once: bool
    ) -> Iterator[PlannedMove | BlockedServer]:
        """Yield the move of each server, or why it is blocked. Covey's own and Nova's share no host: two plans."""
        nodes = snapshot.nova.nodes if snapshot.nova is not None else {}
        own = [candidate for candidate in candidates if candidate.server.host not in nodes]
        hosts, groups, seed = snapshot.hosts, snapshot.groups, self.new_seed()
        yield from plan_drain(own, groups, snapshot.fleet, hosts, seed, at_once=at_once)
        if snapshot.nova is not None:
            instances = [candidate for candidate in candidates if candidate.server.host in nodes]
            yield from plan_drain(instances, groups, snapshot.nova.only_nova(), hosts, seed, at_once=at_once)


@dataclass(frozen=True, slots=True)
class Drains:
    """Plans, starts and ends drains. A worker carries out their moves."""

    store: Store
    access: Access
    clock: Clock
    new_uuid: NewUuid
    planner: DrainPlanner

    def plan(self, actor: Actor, scope: str, domain: str) -> DrainPlan:
        """Return the moves that empty a domain, and the servers that cannot be moved; changes nothing.

        Raises Invalid for an unknown scope or domain, a domain without hosts, and a name that fits two domains.
        """
        self.access.require(actor, f"{_RULE}plan")
        return self._plan(scope, domain)[0]

    def start(self, actor: Actor, scope: str, domain: str, request_id: str) -> Drain:
        """Disable the hosts of a domain, and start to move their servers away.

        Hosts that an earlier drain of the domain left disabled are this drain's from now on, so its undo enables them.

        Raises Invalid as `plan` does, and Conflict while another drain of one of the hosts runs.
        """
        self.access.require(actor, f"{_RULE}start")
        planned, hosts = self._plan(scope, domain)
        now = self.clock()
        new = Drain(
            id=self.new_uuid(),
            scope=scope,
            domain=planned.domain,
            hosts=planned.hosts,
            disabled=(),
            status=DrainStatus.RUNNING,
            project_id=actor.project_id or OPERATORS,
            user_id=actor.user_id,
            request_id=request_id,
            created_at=now,
            updated_at=now,
            planned=len(planned.moves),
            left=planned.left,
        )
        with self.store.write() as tx:
            own = [host.id for host in hosts.own]
            tx.aggregates.lock_hosts(own)
            reasons = [host.disabled_reason for host in tx.hosts.by_names(hosts.own_names)]
            earlier = tx.drains.earlier_reasons(new, reasons)
            new = replace(new, disabled=tuple(tx.hosts.disable(own, new.disabled_reason, now, earlier)))
            tx.drains.add(new, hosts.ids)
            if hosts.nodes:
                tx.work.add(JobKind.COMPUTE_SERVICES, new.id)
            tx.work.add(JobKind.DRAIN, new.id)
        return new

    def find(self, actor: Actor, limit: int) -> list[Drain]:
        """Return the newest drains, up to a limit."""
        self.access.require(actor, f"{_RULE}index")
        with self.store.read() as tx:
            return tx.drains.newest(limit)

    def show(self, actor: Actor, drain: str) -> Drain:
        """Return a drain. Raises NotFound."""
        self.access.require(actor, f"{_RULE}show")
        with self.store.read() as tx:
            return _get(tx, drain)

    def cancel(self, actor: Actor, drain: str) -> Drain:
        """Start no further move, and leave the hosts disabled. Moves in progress complete; Nova aborts live migrations.

        Raises NotFound, and Conflict unless the drain runs.
        """
        self.access.require(actor, f"{_RULE}cancel")
        with self.store.write() as tx:
            found = _get(tx, drain, lock=True)
            if not found.is_running:
                raise Conflict(f"The drain {found.id} is not running: its status is {found.status}.")
            cancelled = replace(found, status=DrainStatus.CANCELLED, updated_at=self.clock())
            tx.drains.update(cancelled)
        return cancelled

    def undo(self, actor: Actor, drain: str) -> Drain:
        """End a drain, and enable the hosts that it disabled. Servers stay where they are.

        A host that was disabled for another reason since then stays disabled. Raises NotFound, and Conflict for a
        drain that is undone already, or while another one of these hosts runs.
        """
        self.access.require(actor, f"{_RULE}undo")
        now = self.clock()
        with self.store.write() as tx:
            found = _get(tx, drain, lock=True)
            if found.status is DrainStatus.UNDONE:
                raise Conflict(f"The drain {found.id} is undone already.")
            # The services of Nova's computes may have been disabled in part: their reasons say which.
            hosts = replace(DrainHosts.named(tx, found.hosts), own=tx.hosts.by_names(found.disabled))
            tx.aggregates.lock_hosts([host.id for host in hosts.own])
            tx.drains.reject_running(hosts.ids, excluding=found.id)
            tx.hosts.enable([host.name for host in hosts.own], found.disabled_reason, now)
            if hosts.nodes:
                tx.work.add(JobKind.COMPUTE_SERVICES, found.id)
            undone = replace(found, status=DrainStatus.UNDONE, updated_at=now)
            tx.drains.update(undone)
        return undone

    def _plan(self, scope: str, domain: str) -> tuple[DrainPlan, DrainHosts]:
        with self.store.read() as tx:
            name, hosts = _hosts_in(tx, scope, domain)
            snapshot = self.planner.snapshot(tx, hosts)
        moves, blocked = self.planner.plan(snapshot, snapshot.candidates)
        name_of = snapshot.name
        steps = (Step(each.server.id, name_of(each.server.host), name_of(each.destination)) for each in moves)
        return DrainPlan(scope, name, hosts.names, tuple(steps), snapshot.left(blocked)), hosts


def _get(tx: Transaction, drain: str, *, lock: bool = False) -> Drain:
    found = tx.drains.by_id(drain, lock=lock)
    if found is None:
        raise NotFound(f"Drain {drain} could not be found.")
    return found


def _hosts_in(tx: Transaction, scope: str, domain: str) -> tuple[str, DrainHosts]:
    """Return the name of a domain, and its hosts. Raises Invalid."""
    found = get_scope_by_name(tx, scope)
    if scope == HOST_SCOPE:
        hosts = DrainHosts.named(tx, [domain])
        if not hosts.ids:
            raise Invalid(f"Compute host {domain} could not be found.")
        return hosts.names[0], hosts
    aggregate = _domain(tx.aggregates.in_scope(found.id), scope, domain)
    hosts = DrainHosts(tx.hosts.by_names(aggregate.hosts), tx.nova_instances.nodes_in(aggregate.uuid))
    if not hosts.ids:
        raise Invalid(f"The {scope} {aggregate.name} has no hosts.")
    return aggregate.name, hosts


def _domain(domains: Sequence[Aggregate], scope: str, key: str) -> Aggregate:
    """Return the domain of that name or id. Raises Invalid."""
    found = [each for each in domains if key in {each.name, str(each.id)}]
    if not found:
        raise Invalid(f"The policy scope {scope} has no domain {key}: it is the name or id of one of its aggregates.")
    if len(found) > 1:
        raise Invalid(
            f"{key} is ambiguous: it is the name of one aggregate of the scope {scope}, and the id of another."
        )
    return found[0]
