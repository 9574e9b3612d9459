"""Moves: cold and live migration, resize, evacuation. Group policies apply to each of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from covey.model.access import Actor
from covey.model.actions import ActionEvent, Migration, MoveKind, quota_growth
from covey.model.agents import Agent
from covey.model.errors import (
    Conflict,
    Invalid,
    NotFound,
    NoValidHost,
)
from covey.model.flavors import Flavor
from covey.model.groups import GroupState
from covey.model.hosts import Host
from covey.model.ids import HostId, ServerId
from covey.model.servers import Server, Task, VmState
from covey.model.work import JobKind
from covey.ports import Access, Clock, NewUuid
from covey.scheduler.explain import NoHost
from covey.scheduler.followers import Follower
from covey.scheduler.request_spec import HostRequirements, RequestSpec
from covey.services.destinations import Destination, Destinations
from covey.services.hosts import with_node
from covey.services.instances import missing_server
from covey.services.quotas import Quotas, release_quota
from covey.services.servers import Servers, reject_locked, reject_small_flavor, require_state
from covey.storage.store import Store, Transaction

_AT_REST = (VmState.ACTIVE, VmState.STOPPED)
_MOVABLE: dict[MoveKind, tuple[VmState, ...]] = {
    MoveKind.MIGRATION: _AT_REST,
    MoveKind.RESIZE: _AT_REST,
    MoveKind.LIVE_MIGRATION: (VmState.ACTIVE,),
    MoveKind.EVACUATION: (*_AT_REST, VmState.ERROR),
}
ACTION = {
    MoveKind.MIGRATION: "migrate",
    MoveKind.RESIZE: "resize",
    MoveKind.LIVE_MIGRATION: "live-migration",
    MoveKind.EVACUATION: "evacuate",
}
_ON_THE_WIRE = {**ACTION, MoveKind.LIVE_MIGRATION: "os-migrateLive"}  # in the text of a refusal
_TASK = {
    MoveKind.MIGRATION: Task.RESIZE_PREP,
    MoveKind.RESIZE: Task.RESIZE_PREP,
    MoveKind.LIVE_MIGRATION: Task.MIGRATING,
    MoveKind.EVACUATION: Task.REBUILDING,
}


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """A requested move. A forced one ignores group policies, but no isolation unless an option says so."""

    kind: MoveKind
    request_id: str
    host: str | None = None
    forced: bool = False
    flavor: Flavor | None = None
    disk_config: str | None = None
    stopped: bool = False  # an evacuated server stays stopped on its new host
    leaving: frozenset[HostId] = frozenset()  # hosts that the members of its group leave as well
    avoid: frozenset[HostId] = frozenset()  # hosts that refused the claims of earlier attempts


@dataclass(frozen=True, slots=True)
class Moves:
    """Accepts moves, which a worker carries out."""

    store: Store
    access: Access
    clock: Clock
    new_uuid: NewUuid
    servers: Servers
    destinations: Destinations
    quotas: Quotas
    attempts: int = 5

    def begin(self, actor: Actor, server: str, request: MoveRequest, rule: str) -> None:
        """Select a destination, claim it, and add the job.

        Raises NoValidHost with the reasons; the server stays as it is, and its action log has the reasons too.
        Raises NotFound, Forbidden, Conflict, Invalid, OverQuota and Busy as well.
        """
        self._authorize(actor, server, rule, request)
        self.until_claimed(
            actor, ServerId(server), request, lambda tx, current: self.begin_in(tx, actor, ServerId(server), current)
        )

    def confirm(self, actor: Actor, server: str, request_id: str) -> None:
        """Confirm a move: release the allocations on the source host. Raises NotFound, Forbidden, Conflict."""
        now = self.clock()
        with self.store.write() as tx:
            found, move = self._resized(tx, actor, server, "confirmResize", "os_compute_api:servers:confirm_resize")
            tx.actions.add(found, "confirmResize", request_id, actor, now)
            self.destinations.release(tx, move.uuid)
            release_quota(tx, found.project_id, move.downsize_delta)
            tx.migrations.set_status(move.uuid, "confirmed", now)
            tx.servers.update(replace(found, migration_host_id=None, vm_state=found.power.vm_state, updated_at=now))
            self.destinations.bump_group(tx, found.group_id)
            tx.actions.finish(found.id, "confirmResize", ActionEvent("compute_confirm_resize", now, now, "Success"))

    def revert(self, actor: Actor, server: str, request_id: str) -> None:
        """Revert a move: back to the source host and the old flavor. Raises NotFound, Forbidden, Conflict."""
        now = self.clock()
        with self.store.write() as tx:
            found, move = self._resized(tx, actor, server, "revertResize", "os_compute_api:servers:revert_resize")
            tx.actions.add(found, "revertResize", request_id, actor, now)
            tx.servers.update(replace(found, task=Task.RESIZE_REVERTING, updated_at=now))
            tx.work.add(JobKind.REVERT, found.id, {"migration": move.uuid})

    def until_claimed(
        self,
        actor: Actor,
        server: ServerId,
        request: MoveRequest,
        attempt: Callable[[Transaction, MoveRequest], None],
        action: str | None = None,
    ) -> None:
        """Call `attempt` until its claim holds: each time in a new `transaction`, without the hosts that refused.

        Raises NoValidHost with the reasons, which the server's action log gets as well, and Busy.
        """

        def attempt_without(avoid: frozenset[HostId]) -> None:
            with self.transaction() as tx:
                attempt(tx, replace(request, avoid=avoid))

        try:
            self.destinations.until_claimed(self.attempts, attempt_without)
        except NoHost as refused:
            raise self.explain(actor, server, request, refused, action) from None

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Begin a transaction under which the topology cannot change."""
        with self.store.write() as tx:
            tx.topology.hold()
            yield tx

    def begin_in(self, tx: Transaction, actor: Actor, server: ServerId, request: MoveRequest) -> None:
        """Begin a move that the actor is allowed to make, in the caller's `transaction`.

        Raises NoHost, NotFound, Conflict, Invalid, OverQuota before it writes, and StaleClaim.
        """
        found, group = self.lock(tx, actor, server, None)
        reject_locked(found, actor, self.access)
        require_state(found, _ON_THE_WIRE[request.kind], *_MOVABLE[request.kind])
        source = self._source(tx, found, request)
        if request.flavor is not None:
            _reject_same_flavor(found, request.flavor)
            reject_small_flavor(request.flavor, tx.images.by_id(found.request.image_id or ""))
            self.quotas.require_left(tx, found.project_id, quota_growth(found.flavor, request.flavor))
        requirements = self.requirements(tx, actor, found, request)
        destination = self.destinations.select(
            tx,
            found,
            group,
            requirements,
            flavor=request.flavor,
            forced=request.forced,
            evacuating=request.kind is MoveKind.EVACUATION,
            leaving=request.leaving,
            followers=lambda: self._other_members(tx, actor, found, request),
        )
        self._claim(tx, actor, found, source, destination, request)

    def _claim(
        self,
        tx: Transaction,
        actor: Actor,
        server: Server,
        source: Host,
        destination: Destination,
        request: MoveRequest,
    ) -> None:
        now, flavor = self.clock(), request.flavor or server.flavor
        move = Migration(
            uuid=self.new_uuid(),
            server_id=server.id,
            project_id=server.project_id,
            user_id=server.user_id,
            kind=request.kind,
            status="preparing",
            source=source.name,
            destination=destination.host_name,
            old_flavor=server.flavor,
            new_flavor=flavor,
            created_at=now,
            updated_at=now,
        )
        tx.server_allocations.give_to_migration(server.id, move.uuid)
        self.destinations.claim(tx, server.id, destination)
        tx.migrations.add(move)
        if move.growth:
            self.quotas.charge(tx, move.project_id, move.growth)
        tx.actions.add(server, ACTION[request.kind], request.request_id, actor, now)
        placement = replace(
            server.placement, seed=destination.seed, candidates=destination.candidates, hosts=destination.hosts
        )
        moving = replace(
            server, migration_host_id=destination.host_id, task=_TASK[request.kind], placement=placement, updated_at=now
        )
        if request.disk_config is not None:
            moving = replace(moving, details=replace(server.details, disk_config=request.disk_config))
        tx.servers.update(moving)
        self.destinations.bump_group(tx, server.group_id)
        arguments = {"migration": move.uuid, "stopped": request.stopped, "is_named": request.host is not None}
        tx.work.add(JobKind.MOVE, server.id, arguments)

    def _authorize(self, actor: Actor, server: str, rule: str, request: MoveRequest) -> None:
        with self.store.read() as tx:
            self.servers.get_authorized(tx, actor, server, rule, changes=True)
            to_host = request.host is not None and request.kind in {MoveKind.MIGRATION, MoveKind.LIVE_MIGRATION}
            if to_host and rule.startswith("os_compute_api:os-migrate-server"):
                self.servers.get_authorized(tx, actor, server, f"{rule}:host")

    def lock(self, tx: Transaction, actor: Actor, server: str, rule: str | None) -> tuple[Server, GroupState | None]:
        """Lock a server and its group. Raises NotFound, Forbidden."""
        found, group = self.destinations.lock(tx, ServerId(server))
        if found is None:
            raise missing_server(tx, self.access, actor, server, changes=True)
        if rule is not None:
            self.servers.get_authorized(tx, actor, server, rule)
        return found, group

    def _source(self, tx: Transaction, server: Server, request: MoveRequest) -> Host:
        if server.host_id is None:
            raise Conflict(f"Cannot '{_ON_THE_WIRE[request.kind]}' instance {server.id} while it has no host")
        evacuates = request.kind is MoveKind.EVACUATION
        agent = (
            tx.agents.by_host_id(server.host_id, lock=True) if evacuates else None
        )  # it does not return before the end
        source = tx.hosts.by_id(server.host_id)
        assert source is not None
        if evacuates:
            reject_living(source, agent)
        return source

    def _requested_host(self, tx: Transaction, actor: Actor, server: Server, request: MoveRequest) -> Host | None:
        if request.host is None:
            return None
        found = tx.hosts.by_name(request.host)
        if found is None:
            evacuating = request.kind is MoveKind.EVACUATION
            message = f"Compute host {request.host} {'not' if evacuating else 'could not be'} found."
            message = with_node(tx, self.access, actor, request.host, message)
            raise NotFound(message) if evacuating else Invalid(message)
        if found.id == server.host_id:
            raise Invalid("Cannot migrate to the host where the server exists.")
        return found

    def requirements(self, tx: Transaction, actor: Actor, server: Server, request: MoveRequest) -> HostRequirements:
        """Return the server's host requirements, without the destination host of its creation request.

        Raises Invalid or NotFound for a requested host that cannot be its destination.
        """
        requested = self._requested_host(tx, actor, server, request)
        placement = replace(server.request, hosts=(), forced=False)
        requirements = self.servers.requirements_for(server.project_id, request.flavor or server.flavor, placement, tx)
        here = frozenset() if server.host_id is None else frozenset({server.host_id})
        only = requirements.only_hosts if requested is None else frozenset({requested.id})
        avoid = request.avoid if requested is None else frozenset()  # a refusal explains why a named host has no room
        return replace(
            requirements,
            only_hosts=only,
            ignored_hosts=requirements.ignored_hosts | here | request.leaving | avoid,
            ignores_isolation=request.forced and not self.servers.isolate_forced_hosts,
        )

    def _other_members(self, tx: Transaction, actor: Actor, server: Server, request: MoveRequest) -> list[Follower]:
        """Return the other members of the server's group that have a host and do not move."""
        members = tx.groups.member_hosts([server.group_id])[server.group_id] if server.group_id is not None else {}
        others = tx.servers.by_ids([ServerId(each) for each in members if each != server.id])
        alike = replace(request, flavor=None, host=None, forced=False)
        return [
            Follower(each.host_id, RequestSpec.for_flavor(each.flavor, self.requirements(tx, actor, each, alike)))
            for each in others
            if each.host_id is not None and each.migration_host_id is None and each.task is not Task.DELETING
        ]

    def _resized(self, tx: Transaction, actor: Actor, server: str, action: str, rule: str) -> tuple[Server, Migration]:
        """Lock a server whose move awaits confirmation. Raises NotFound, Forbidden, Conflict."""
        found, _ = self.lock(tx, actor, server, rule)
        reject_locked(found, actor, self.access)
        require_state(found, action, VmState.RESIZED)
        moves = tx.migrations.find(server=found.id, statuses=("finished",))
        if not moves:
            raise Conflict(f"Instance {found.id} has no move to confirm or revert.")
        return found, moves[0]

    def explain(
        self, actor: Actor, server: ServerId, request: MoveRequest, refused: NoHost, action: str | None = None
    ) -> NoValidHost:
        """Return a refusal with its counted reasons, which it records in the server's action log."""
        refusal = refused.explain(self.destinations.tenant_message)
        now, verb = self.clock(), action or ACTION[request.kind]
        with self.store.write() as tx:
            found = tx.servers.by_id(server)
            if found is not None:
                tx.actions.add(found, verb, request.request_id, actor, now)
                event = ActionEvent("conductor_schedule", now, now, "Error", refusal.message, refusal.details)
                tx.actions.finish(server, verb, event)
        return refusal


def reject_living(source: Host, agent: Agent | None) -> None:
    """Raise Invalid for a host that may still run its servers, which would then run twice."""
    if source.up:
        raise Invalid(f"Compute service of {source.name} is still in use.")
    if agent is not None and not agent.may_be_evacuated:
        within_s = agent.fences_itself_within_s
        fences_itself = (
            "" if within_s is None else f"It fences itself: a worker confirms this within {within_s:.0f} seconds. "
        )
        raise Invalid(
            f"Host {source.name} may still run its servers: its agent does not report, but it is not fenced. "
            f"{fences_itself}Force the host down once it is off."
        )


def _reject_same_flavor(server: Server, flavor: Flavor) -> None:
    if flavor.id == server.flavor.id:
        raise Invalid("When resizing, instances must change flavor!")
