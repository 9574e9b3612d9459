"""Rebalances: what would put a group right, and having it done."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from covey import cpu_affinity
from covey.model.access import Actor
from covey.model.claims import amounts_of
from covey.model.errors import Conflict, NotFound
from covey.model.groups import Group
from covey.model.ids import HostId
from covey.model.rebalances import Rebalance, RebalanceStatus, Step
from covey.model.servers import Server, VmState
from covey.model.work import JobKind
from covey.ports import Access, Clock, NewUuid
from covey.request_slots import RequestSlots
from covey.scheduler.fleet import Fleet
from covey.scheduler.rebalancing import Member, Move, Plan, plan, still_right
from covey.services.groups import Groups
from covey.services.live_fleet import LiveFleet
from covey.services.obfuscation import Obfuscation, obfuscation_for
from covey.services.servers import Servers
from covey.storage.store import Store, Transaction

_AT_REST = {VmState.ACTIVE, VmState.STOPPED}


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan with its hosts by name; names and identifiers are real ones, to be shown through `disguise`."""

    group: Group
    plan: Plan
    steps: tuple[Step, ...]
    left: tuple[Step, ...]
    obfuscation: Obfuscation


@dataclass(frozen=True, slots=True)
class Seen:
    """A group with its members, and a picture of the fleet that is nobody else's."""

    group: Group
    members: Sequence[Member]
    fleet: Fleet

    def steps(self, moves: Sequence[Move]) -> tuple[Step, ...]:
        """Moves, with hosts by name."""
        return tuple(Step(move.member, self._name(move.source), self._name(move.destination)) for move in moves)

    def still_right(self, steps: Sequence[Step]) -> bool:
        """Whether steps that were planned earlier may be gone on with."""
        ids = {host.name: host.id for host in self.fleet.hosts}
        gone = HostId(0)
        moves = [Move(s.server_id, ids.get(s.source, gone), ids.get(s.destination, gone)) for s in steps]
        return still_right(self.group.policies, self.members, self.fleet, moves)

    def _name(self, host: HostId) -> str:
        return self.fleet.hosts[self.fleet.row_of[host]].name


@dataclass(frozen=True, slots=True)
class Planner:
    """Looks at a group, and thinks about it for a while."""

    servers: Servers
    live: LiveFleet
    request_slots: RequestSlots
    seed: Callable[[], int]
    patience_s: float

    def look(self, tx: Transaction, group: Group) -> Seen:
        """The group as the transaction sees it."""
        found = [server for server in tx.servers.by_ids(group.members) if server.host_id is not None]
        members = [self._member(server) for server in found]
        with self.live.fresh(tx) as snapshot:
            return Seen(group, members, snapshot.fleet.copy())

    def think(self, seen: Seen) -> Plan:
        """What to do about it. Nobody waits meanwhile: not for a lane, and not for a transaction."""
        with self.request_slots.aside(), cpu_affinity.unpinned():
            return plan(seen.group.policies, seen.members, seen.fleet, self.seed(), patience_s=self.patience_s)

    def _member(self, server: Server) -> Member:
        """A server counts where it is, or where it is going to."""
        moving = server.migration_host_id is not None and server.vm_state is not VmState.RESIZED
        host = server.migration_host_id if moving else server.host_id
        assert host is not None
        wanted = replace(server.request, hosts=(), forced=False)  # as for every other move
        requirements = self.servers.requirements_for(server.project_id, server.flavor, wanted)
        return Member(server.id, host, amounts_of(server.flavor), requirements, movable(server))


def movable(server: Server) -> bool:
    """Whether a rebalance may move a server: it is at rest, nobody locked it, and its host answers."""
    return server.vm_state in _AT_REST and server.task is None and not server.details.locked and server.host_up


@dataclass(frozen=True, slots=True)
class Rebalances:
    """What callers can ask for; a worker takes the steps."""

    store: Store
    access: Access
    clock: Clock
    new_uuid: NewUuid
    groups: Groups
    planner: Planner

    def plan(self, actor: Actor, group: str) -> Planned:
        """The fewest moves that put the group right; changes nothing. Raises NotFound."""
        with self.store.read() as tx:
            found = self.groups.own(tx, actor, group, "rebalance:plan")
            obfuscation = obfuscation_for(tx, self.access, actor, found.project_id)
            seen = self.planner.look(tx, found)
        thought = self.planner.think(seen)
        return Planned(found, thought, seen.steps(thought.moves), seen.steps(thought.left), obfuscation)

    def start(self, actor: Actor, group: str, request_id: str) -> tuple[Rebalance, Obfuscation]:
        """Begin to put the group right. Raises NotFound, and Conflict while another rebalance of it runs."""
        with self.store.read() as tx:
            found = self.groups.own(tx, actor, group, "rebalance")
            obfuscation = obfuscation_for(tx, self.access, actor, found.project_id)
            seen = self.planner.look(tx, found)
        steps = seen.steps(self.planner.think(seen).moves)
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
            self.groups.own(tx, actor, group, "rebalance")  # it may have gone meanwhile
            tx.rebalances.add(new)
            if steps:
                tx.work.add(JobKind.REBALANCE, new.id, now)
        return new, obfuscation

    def show(self, actor: Actor, group: str) -> tuple[Rebalance, Obfuscation]:
        """The latest one of the group. Raises NotFound."""
        with self.store.read() as tx:
            found = self.groups.own(tx, actor, group, "rebalance:plan")
            latest = tx.rebalances.latest(found.id)
            if latest is None:
                raise NotFound(f"The server group {found.id} was never rebalanced.")
            return latest, obfuscation_for(tx, self.access, actor, found.project_id)

    def cancel(self, actor: Actor, group: str) -> None:
        """No further step is begun; one that is under way comes to its end. Raises Conflict if none runs."""
        with self.store.write() as tx:
            found = self.groups.own(tx, actor, group, "rebalance")
            latest = tx.rebalances.latest(found.id, lock=True)
            if latest is None or latest.status is not RebalanceStatus.RUNNING:
                raise Conflict(f"No rebalance of the server group {found.id} is running.")
            cancelled = replace(latest, status=RebalanceStatus.CANCELLED, updated_at=self.clock())
            tx.rebalances.update(cancelled)
