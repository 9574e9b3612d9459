"""Rebalances: plan the moves that end a group's policy violations, and start, show or cancel them."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from covey import cpu_affinity
from covey.model.access import OPERATORS, Actor, Target
from covey.model.errors import Busy, Conflict, Forbidden, NotFound, OverQuota
from covey.model.groups import Group
from covey.model.ids import HostId
from covey.model.rebalances import FailedMove, Rebalance, RebalanceStatus, Step
from covey.model.resources import Resources
from covey.model.servers import HostRequirements
from covey.model.work import JobKind
from covey.ports import Access, Clock, NewUuid
from covey.request_slots import ProjectLimit, RequestSlots
from covey.scheduler.fleet import Fleet
from covey.scheduler.rebalancing import Member, Move, Plan, is_still_valid, plan
from covey.services.audits import drs_hosts_of
from covey.services.groups import Groups
from covey.services.live_fleet import LiveFleet
from covey.services.nova_plans import NovaPlan
from covey.services.obfuscation import Obfuscation, obfuscation_for
from covey.services.own_plans import own_member_or_fixed
from covey.services.servers import Servers
from covey.storage.store import Store, Transaction

_RETRY_AFTER_S = 5
_PAUSE = 2.0  # for each second of a search
_LONGEST_PAUSE_S = 2.0
_RULE, _OWN_RULE = (f"os_compute_api:os-server-groups:{rule}" for rule in ("rebalance", "rebalance:own"))


@dataclass(frozen=True, slots=True)
class RebalancePlan:
    """A plan with its hosts by name. Names and identifiers are real ones; `obfuscation` hides them from tenants."""

    group: Group
    plan: Plan
    steps: tuple[Step, ...]
    blocked: tuple[Step, ...]
    obfuscation: Obfuscation


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A group with its members, and a private copy of the fleet."""

    group: Group
    members: Sequence[Member]
    fleet: Fleet
    exempt: frozenset[HostId] = frozenset()  # hosts whose members DRS spreads: they stay there

    def steps(self, moves: Sequence[Move]) -> tuple[Step, ...]:
        """Return moves with their hosts by name."""
        return tuple(Step(move.member, self._name(move.source), self._name(move.destination)) for move in moves)

    def are_still_valid(self, steps: Sequence[Step]) -> bool:
        """Return whether the remaining steps of an earlier plan are still valid."""
        moves = [Move(step.server_id, self._id(step.source), self._id(step.destination)) for step in steps]
        return is_still_valid(self.group.policies, self.members, self.fleet, moves, self.exempt)

    def _name(self, host: HostId) -> str:
        return self.fleet.names[self.fleet.row_of[host]]

    def _id(self, name: str) -> HostId:
        row = self.fleet.row_of_name.get(name)
        return HostId(0) if row is None else self.fleet.hosts[row].id  # 0 is no host's id


@dataclass(frozen=True, slots=True)
class Planner:
    """Takes a snapshot of a group, and plans its moves."""

    servers: Servers
    live: LiveFleet
    request_slots: RequestSlots
    new_seed: Callable[[], int]
    timeout_s: float  # of the solver; the best plan so far is then used

    def snapshot(self, tx: Transaction, group: Group, failed: Sequence[FailedMove] = ()) -> GroupSnapshot:
        """Return the group as the transaction sees it. No instance of Nova goes where a move failed before."""
        found = [server for server in tx.servers.by_ids(group.members) if server.host_id is not None]
        fleet = self.live.read(tx).fleet
        held = tx.allocations.held_by([server.id for server in found]) if fleet.trees.anchored.roots.size else {}
        members = [own_member_or_fixed(self.servers, server, held.get(server.id)) for server in found]
        consumer_hosts = tx.group_consumers.hosts([group.id]).get(group.id)
        if consumer_hosts is not None:
            plan = NovaPlan.read(tx, fleet)
            own = [_only_on_own_hosts(member, frozenset(plan.nodes)) for member in members]
            members, fleet = [*own, *_instances(tx, plan, consumer_hosts.host_by_member(), failed)], plan.fleet
        exempt = drs_hosts_of(tx, {group.id: [member.host for member in members]}, fleet).get(group.id, frozenset())
        staying = [replace(each, movable=each.movable and each.host not in exempt) for each in members]
        return GroupSnapshot(group, staying, fleet, exempt)

    def plan(self, snapshot: GroupSnapshot) -> Plan:
        """Return the fewest moves. Planning holds no request slot and no transaction."""
        with self.request_slots.computing(), cpu_affinity.unpinned():
            return plan(
                snapshot.group.policies,
                snapshot.members,
                snapshot.fleet,
                self.new_seed(),
                timeout_s=self.timeout_s,
                exempt=snapshot.exempt,
            )


def _only_on_own_hosts(member: Member, nodes: frozenset[HostId]) -> Member:
    """Return a server of Covey's that may not go to compute nodes of Nova."""
    ignored = member.requirements.ignored_hosts | nodes
    return replace(member, requirements=replace(member.requirements, ignored_hosts=ignored))


def _instances(
    tx: Transaction, plan: NovaPlan, hosts: Mapping[str, int], failed: Sequence[FailedMove]
) -> Iterator[Member]:
    """Yield the members that Nova runs. One that moves, or that the mirror does not have, stays on its host."""
    known = {instance.id: instance for instance in tx.nova_instances.by_ids([*hosts])}
    ignored = plan.ids_named(each.destination for each in failed)
    for member, host in hosts.items():
        found = plan.member(known[member], ignored) if member in known else None
        yield found or Member(member, HostId(host), Resources({}), HostRequirements(), movable=False)


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """What operators allow tenants that repair their own groups."""

    max_moves: int = 10
    interval_s: int = 3600

    def check(self, latest: Rebalance | None, moves: int, now: datetime) -> None:
        """Raise OverQuota for too many moves, or too soon after the group's latest rebalance that had moves."""
        if moves > self.max_moves:
            raise OverQuota(
                f"The rebalance needs {moves} moves; tenants may start one of up to {self.max_moves}. Ask an operator."
            )
        if latest is not None and moves and now < latest.created_at + timedelta(seconds=self.interval_s):
            wait_s = int((latest.created_at - now).total_seconds()) + self.interval_s
            raise OverQuota(
                f"The group was rebalanced less than {self.interval_s} seconds ago; retry in {wait_s} seconds."
            )


@dataclass(frozen=True, slots=True)
class Rebalances:
    """Starts and shows rebalances. A worker carries out their steps."""

    store: Store
    access: Access
    clock: Clock
    new_uuid: NewUuid
    groups: Groups
    planner: Planner
    searches: ProjectLimit
    tenants: TenantLimits = TenantLimits()

    def plan(self, actor: Actor, group: str) -> RebalancePlan:
        """Return the fewest moves that end the group's violations; changes nothing. Raises NotFound, Busy."""
        with self._searching(actor):
            with self.store.read() as tx:
                found = self.groups.get_authorized(tx, actor, group, "rebalance:plan")
                obfuscation = obfuscation_for(tx, self.access, actor, found.project_id)
                snapshot = self.planner.snapshot(tx, found)
            plan = self.planner.plan(snapshot)
        return RebalancePlan(found, plan, snapshot.steps(plan.moves), snapshot.steps(plan.blocked), obfuscation)

    def start(self, actor: Actor, group: str, request_id: str) -> tuple[Rebalance, Obfuscation]:
        """Start a rebalance. Raises NotFound, Busy, and Conflict while another one of the group runs.

        Raises OverQuota for a tenant that repairs its own group beyond its limits.
        """
        with self._searching(actor):
            with self.store.read() as tx:
                found, limited = self._get_authorized(tx, actor, group)
                obfuscation = obfuscation_for(tx, self.access, actor, found.project_id)
                snapshot = self.planner.snapshot(tx, found)
            steps = snapshot.steps(self.planner.plan(snapshot).moves)
        now = self.clock()
        new = Rebalance(
            id=self.new_uuid(),
            group_id=found.id,
            project_id=actor.project_id or OPERATORS,
            user_id=actor.user_id,
            request_id=request_id,
            status=RebalanceStatus.RUNNING if steps else RebalanceStatus.DONE,
            steps=steps,
            created_at=now,
            updated_at=now,
            max_moves=self.tenants.max_moves if limited else None,
        )
        with self.store.write() as tx:
            tx.groups.lock([found.id])
            self._get_authorized(tx, actor, group)  # it may be deleted by now
            if limited:
                self.tenants.check(tx.rebalances.latest_with_moves(found.id), len(steps), now)
            tx.rebalances.add(new)
            if steps:
                tx.work.add(JobKind.REBALANCE, new.id)
        return new, obfuscation

    def _get_authorized(self, tx: Transaction, actor: Actor, group: str) -> tuple[Group, bool]:
        """Return a group that the actor may rebalance, and whether limits of tenants apply.

        Raises NotFound, Forbidden.
        """
        found = self.groups.get_authorized(tx, actor, group, "show")
        own = Target(project_id=found.project_id)
        if self.access.allows(actor, _OWN_RULE, own) and not self.access.allows(actor, _RULE, own):
            return found, True
        return self.groups.get_authorized(tx, actor, group, "rebalance"), False

    @contextmanager
    def _searching(self, actor: Actor) -> Iterator[None]:
        """Count a search, followed by a pause in which other requests run. Raises Busy at the limit of searches."""
        if not self.searches.take(actor.project_id):
            raise Busy(f"Too many rebalances are being planned. Retry in {_RETRY_AFTER_S} seconds.", _RETRY_AFTER_S)
        began = time.monotonic()
        try:
            yield
            with self.planner.request_slots.computing():
                time.sleep(min(_PAUSE * (time.monotonic() - began), _LONGEST_PAUSE_S))
        finally:
            self.searches.release(actor.project_id)

    def show(self, actor: Actor, group: str) -> tuple[Rebalance, Obfuscation]:
        """Return the group's latest rebalance. Raises NotFound."""
        with self.store.read() as tx:
            found = self.groups.get_authorized(tx, actor, group, "rebalance:plan")
            latest = tx.rebalances.latest(found.id)
            if latest is None:
                raise NotFound(f"The server group {found.id} was never rebalanced.")
            return latest, obfuscation_for(tx, self.access, actor, found.project_id)

    def cancel(self, actor: Actor, group: str) -> None:
        """Start no further step; a running one completes. Raises NotFound, and Conflict when no rebalance runs.

        Raises Forbidden for a tenant's cancellation of an operator's rebalance.
        """
        with self.store.write() as tx:
            found, limited = self._get_authorized(tx, actor, group)
            latest = tx.rebalances.latest(found.id, lock=True)
            if latest is None or latest.status is not RebalanceStatus.RUNNING:
                raise Conflict(f"No rebalance of the server group {found.id} is running.")
            if limited and latest.max_moves is None:
                raise Forbidden("An operator started this rebalance; only operators may cancel it.")
            cancelled = replace(latest, status=RebalanceStatus.CANCELLED, updated_at=self.clock())
            tx.rebalances.update(cancelled)
