"""Rebalances: plan the moves that end a group's policy violations, and start, show or cancel them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from covey import cpu_affinity
from covey.model.access import Actor
from covey.model.errors import Conflict, NotFound
from covey.model.flavor_requests import resource_request
from covey.model.groups import Group
from covey.model.ids import HostId
from covey.model.rebalances import Rebalance, RebalanceStatus, Step
from covey.model.servers import Server, VmState
from covey.model.work import JobKind
from covey.ports import Access, Clock, NewUuid
from covey.request_slots import RequestSlots
from covey.scheduler.fleet import Fleet
from covey.scheduler.rebalancing import Member, Move, Plan, is_still_valid, plan
from covey.services.groups import Groups
from covey.services.live_fleet import LiveFleet
from covey.services.obfuscation import Obfuscation, obfuscation_for
from covey.services.servers import Servers
from covey.storage.store import Store, Transaction

_IDLE_STATES = {VmState.ACTIVE, VmState.STOPPED}


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

    def steps(self, moves: Sequence[Move]) -> tuple[Step, ...]:
        """Return moves with their hosts by name."""
        return tuple(Step(move.member, self._name(move.source), self._name(move.destination)) for move in moves)

    def are_still_valid(self, steps: Sequence[Step]) -> bool:
        """Return whether the remaining steps of an earlier plan are still valid."""
        moves = [Move(step.server_id, self._id(step.source), self._id(step.destination)) for step in steps]
        return is_still_valid(self.group.policies, self.members, self.fleet, moves)

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

    def snapshot(self, tx: Transaction, group: Group) -> GroupSnapshot:
        """Return the group as the transaction sees it."""
        found = [server for server in tx.servers.by_ids(group.members) if server.host_id is not None]
        members = [self._member(server) for server in found]
        return GroupSnapshot(group, members, self.live.read(tx).fleet)

    def plan(self, snapshot: GroupSnapshot) -> Plan:
        """Return the fewest moves. Planning holds no request slot and no transaction."""
        with self.request_slots.released(), cpu_affinity.unpinned():
            return plan(
                snapshot.group.policies, snapshot.members, snapshot.fleet, self.new_seed(), timeout_s=self.timeout_s
            )

    def _member(self, server: Server) -> Member:
        """A moving server counts on its destination."""
        moving = server.migration_host_id is not None and server.vm_state is not VmState.RESIZED
        host = server.migration_host_id if moving else server.host_id
        assert host is not None
        request = replace(server.request, hosts=(), forced=False)  # as for every other move
        requirements = self.servers.requirements_for(server.project_id, server.flavor, request)
        return Member(server.id, host, resource_request(server.flavor).total, requirements, is_movable(server))


def is_movable(server: Server) -> bool:
    """Return whether a rebalance may move a server: it is idle and unlocked, and its host is up."""
    return server.vm_state in _IDLE_STATES and server.task is None and not server.details.locked and server.host_up


@dataclass(frozen=True, slots=True)
class Rebalances:
    """Starts and shows rebalances. A worker carries out their steps."""

    store: Store
    access: Access
    clock: Clock
    new_uuid: NewUuid
    groups: Groups
    planner: Planner

    def plan(self, actor: Actor, group: str) -> RebalancePlan:
        """Return the fewest moves that end the group's violations; changes nothing. Raises NotFound."""
        with self.store.read() as tx:
            found = self.groups.get_authorized(tx, actor, group, "rebalance:plan")
            obfuscation = obfuscation_for(tx, self.access, actor, found.project_id)
            snapshot = self.planner.snapshot(tx, found)
        plan = self.planner.plan(snapshot)
        return RebalancePlan(found, plan, snapshot.steps(plan.moves), snapshot.steps(plan.blocked), obfuscation)

    def start(self, actor: Actor, group: str, request_id: str) -> tuple[Rebalance, Obfuscation]:
        """Start a rebalance. Raises NotFound, and Conflict while another one of the group runs."""
        with self.store.read() as tx:
            found = self.groups.get_authorized(tx, actor, group, "rebalance")
            obfuscation = obfuscation_for(tx, self.access, actor, found.project_id)
            snapshot = self.planner.snapshot(tx, found)
        steps = snapshot.steps(self.planner.plan(snapshot).moves)
        now = self.clock()
        new = Rebalance(
            id=self.new_uuid(),
            group_id=found.id,
            project_id=actor.project_id,
            user_id=actor.user_id,
            request_id=request_id,
            status=RebalanceStatus.RUNNING if steps else RebalanceStatus.DONE,
            steps=steps,
            created_at=now,
            updated_at=now,
        )
        with self.store.write() as tx:
            tx.groups.lock([found.id])
            self.groups.get_authorized(tx, actor, group, "rebalance")  # it may be deleted by now
            tx.rebalances.add(new)
            if steps:
                tx.work.add(JobKind.REBALANCE, new.id, now)
        return new, obfuscation

    def show(self, actor: Actor, group: str) -> tuple[Rebalance, Obfuscation]:
        """Return the group's latest rebalance. Raises NotFound."""
        with self.store.read() as tx:
            found = self.groups.get_authorized(tx, actor, group, "rebalance:plan")
            latest = tx.rebalances.latest(found.id)
            if latest is None:
                raise NotFound(f"The server group {found.id} was never rebalanced.")
            return latest, obfuscation_for(tx, self.access, actor, found.project_id)

    def cancel(self, actor: Actor, group: str) -> None:
        """Start no further step; a running one completes. Raises NotFound, and Conflict when no rebalance runs."""
        with self.store.write() as tx:
            found = self.groups.get_authorized(tx, actor, group, "rebalance")
            latest = tx.rebalances.latest(found.id, lock=True)
            if latest is None or latest.status is not RebalanceStatus.RUNNING:
                raise Conflict(f"No rebalance of the server group {found.id} is running.")
            cancelled = replace(latest, status=RebalanceStatus.CANCELLED, updated_at=self.clock())
            tx.rebalances.update(cancelled)
