"""Moves: cold and live migration, resize, evacuation, shelving. Group policies apply to each of them."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from covey.model.access import Actor
from covey.model.actions import ActionEvent, Migration, MoveKind, quota_growth
from covey.model.agents import Agent, AgentState
from covey.model.errors import (
    Conflict,
    Invalid,
    NotFound,
    NoValidHost,
    OverQuota,
    StaleClaim,
)
from covey.model.flavors import Flavor
from covey.model.groups import GroupState
from covey.model.hosts import Host
from covey.model.ids import HostId, ProjectId, ServerId
from covey.model.quotas import QuotaUse
from covey.model.resources import class_sizes
from covey.model.servers import Server, Task, VmState
from covey.model.work import JobKind
from covey.ports import Access, Clock, NewUuid
from covey.scheduler.explain import NoHost
from covey.scheduler.followers import Follower
from covey.scheduler.request_spec import HostRequirements, RequestSpec
from covey.services.destinations import Destination, Destinations
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
    quota_use: Callable[[Transaction, ProjectId, Collection[str]], QuotaUse]
    attempts: int = 5

    def begin(self, actor: Actor, server: str, request: MoveRequest, rule: str) -> None:
        """Select a destination, claim it, and add the job.

        Raises NoValidHost with the reasons; the server stays as it is, and its action log has the reasons too.
        Raises NotFound, Forbidden, Conflict, Invalid, OverQuota and Busy as well.
        """

        def attempt(avoid: frozenset[HostId]) -> None:
            with self.transaction() as tx:
                self.begin_in(tx, actor, ServerId(server), replace(request, avoid=avoid))

        self._authorize(actor, server, rule, request)
        try:
            self.destinations.until_claimed(self.attempts, attempt)
        except NoHost as refused:
            raise self.explain(actor, ServerId(server), request, refused) from None

    def confirm(self, actor: Actor, server: str, request_id: str) -> None:
        """Confirm a move: release the allocations on the source host. Raises NotFound, Forbidden, Conflict."""
        now = self.clock()
        with self.store.write() as tx:
            found, _ = self._lock(tx, actor, server, "os_compute_api:servers:confirm_resize")
            reject_locked(found, actor, self.access)
            require_state(found, "confirmResize", VmState.RESIZED)
            move = self._finished_move(tx, found)
            tx.actions.add(found, "confirmResize", request_id, actor, now)
            self.destinations.release(tx, move.uuid)
            release_quota(tx, found, move.downsize_delta)
            tx.migrations.set_status(move.uuid, "confirmed", now)
            tx.servers.update(replace(found, migration_host_id=None, vm_state=_at_rest(found), updated_at=now))
            self.destinations.bump_group(tx, found.group_id)
            tx.actions.finish(found.id, "confirmResize", ActionEvent("compute_confirm_resize", now, now, "Success"))

    def revert(self, actor: Actor, server: str, request_id: str) -> None:
        """Revert a move: back to the source host and the old flavor. Raises NotFound, Forbidden, Conflict."""
        now = self.clock()
        with self.store.write() as tx:
            found, _ = self._lock(tx, actor, server, "os_compute_api:servers:revert_resize")
            reject_locked(found, actor, self.access)
            require_state(found, "revertResize", VmState.RESIZED)
            move = self._finished_move(tx, found)
            tx.actions.add(found, "revertResize", request_id, actor, now)
            tx.servers.update(replace(found, task=Task.RESIZE_REVERTING, updated_at=now))
            tx.work.add(JobKind.REVERT, found.id, {"migration": move.uuid})

    def shelve(self, actor: Actor, server: str, request_id: str) -> None:
        """Shelve a server: it leaves its host, and keeps its group.

        Raises NotFound, Forbidden, and Conflict, also while its host does not respond and may still run it.
        """
        now = self.clock()
        with self.store.write() as tx:
            found, _ = self._lock(tx, actor, server, "os_compute_api:os-shelve:shelve")
            reject_locked(found, actor, self.access)
            require_state(found, "shelve", *_AT_REST)
            _reject_unanswering(tx, found)
            tx.actions.add(found, "shelve", request_id, actor, now)
            tx.servers.update(replace(found, task=Task.SHELVING_OFFLOADING, updated_at=now))
            tx.work.add(JobKind.SHELVE, found.id)

    def offload(self, actor: Actor, server: str) -> None:
        """Do nothing: a shelve offloads at once. Raises NotFound, Forbidden, and Conflict unless it is shelved."""
        with self.store.read() as tx:
            found = self.servers.get_authorized(tx, actor, server, "os_compute_api:os-shelve:shelve_offload")
        require_state(found, "shelveOffload", VmState.SHELVED, VmState.SHELVED_OFFLOADED)

    def unshelve(
        self, actor: Actor, server: str, request_id: str, zone: str | None, host: str | None, *, unpin: bool = False
    ) -> None:
        """Select a host by the present policies, and claim it. Raises NoValidHost; the server then stays shelved.

        Without `zone` the zone of the original request applies, unless `unpin` drops it.
        """
        rule = "os_compute_api:os-shelve:" + ("unshelve" if host is None else "unshelve_to_host")
        request = MoveRequest(MoveKind.MIGRATION, request_id, host)

        def attempt(avoid: frozenset[HostId]) -> None:
            with self.transaction() as tx:
                self._unshelve(tx, actor, server, replace(request, avoid=avoid), zone, unpin=unpin)

        self._authorize(actor, server, rule, request)
        try:
            self.destinations.until_claimed(self.attempts, attempt)
        except NoHost as refused:
            raise self.explain(actor, ServerId(server), request, refused, "unshelve") from None

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Begin a transaction under which the topology cannot change."""
        with self.store.write() as tx:
            tx.topology.hold()
            yield tx

    def _unshelve(
        self, tx: Transaction, actor: Actor, server: str, request: MoveRequest, zone: str | None, *, unpin: bool
    ) -> None:
        now = self.clock()
        found, group = self._lock(tx, actor, server, "os_compute_api:os-shelve:unshelve")
        reject_locked(found, actor, self.access)
        require_state(found, "unshelve", VmState.SHELVED_OFFLOADED)
        if zone is not None or unpin:
            self._reject_unknown_zone(tx, zone)
            found = replace(found, request=replace(found.request, zone=zone))
        growth = self._limited_growth(tx, found.project_id, class_sizes(found.flavor))
        requested = self._requested_host(tx, request, found)
        destination = self.destinations.select(tx, found, group, self._requirements(tx, found, request, requested))
        tx.claims.add_consumer(found.id, found.project_id, found.user_id, "INSTANCE")
        self.destinations.claim(tx, found.id, destination)
        self._charge_quota(tx, found.project_id, growth)
        placement = replace(found.placement, seed=destination.seed, candidates=destination.candidates, avoid=())
        tx.servers.update(
            replace(found, host_id=destination.host_id, task=Task.UNSHELVING, placement=placement, updated_at=now)
        )
        self.destinations.bump_group(tx, found.group_id)
        tx.actions.add(found, "unshelve", request.request_id, actor, now)
        tx.work.add(JobKind.UNSHELVE, found.id)

    def begin_in(self, tx: Transaction, actor: Actor, server: ServerId, request: MoveRequest) -> None:
        """Begin a move that the actor is allowed to make, in the caller's `transaction`.

        Raises NoHost, NotFound, Conflict, Invalid, OverQuota before it writes, and StaleClaim.
        """
        found, group = self._lock(tx, actor, server, None)
        reject_locked(found, actor, self.access)
        require_state(found, _ON_THE_WIRE[request.kind], *_MOVABLE[request.kind])
        source = self._source(tx, found, request)
        if request.flavor is not None:
            _reject_same_flavor(found, request.flavor)
            reject_small_flavor(request.flavor, tx.images.by_id(found.request.image_id or ""))
            self._limited_growth(tx, found.project_id, quota_growth(found.flavor, request.flavor))
        requested = self._requested_host(tx, request, found)
        requirements = self._requirements(tx, found, request, requested)
        destination = self.destinations.select(
            tx,
            found,
            group,
            requirements,
            flavor=request.flavor,
            forced=request.forced,
            evacuating=request.kind is MoveKind.EVACUATION,
            leaving=request.leaving,
            followers=lambda: self._other_members(tx, found, request),
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
        tx.claims.move_allocations(server.id, move.uuid)
        self.destinations.claim(tx, server.id, destination)
        tx.migrations.add(move)
        self._charge_quota(tx, move.project_id, move.growth)
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
            self.servers.get_authorized(tx, actor, server, rule)
            to_host = request.host is not None and request.kind in {MoveKind.MIGRATION, MoveKind.LIVE_MIGRATION}
            if to_host and rule.startswith("os_compute_api:os-migrate-server"):
                self.servers.get_authorized(tx, actor, server, f"{rule}:host")

    def _lock(self, tx: Transaction, actor: Actor, server: str, rule: str | None) -> tuple[Server, GroupState | None]:
        found, group = self.destinations.lock(tx, ServerId(server))
        if found is None:
            raise NotFound(f"Instance {server} could not be found.")
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

    def _requested_host(self, tx: Transaction, request: MoveRequest, server: Server) -> Host | None:
        if request.host is None:
            return None
        found = tx.hosts.by_name(request.host)
        if found is None:
            evacuating = request.kind is MoveKind.EVACUATION
            error = NotFound(f"Compute host {request.host} not found.") if evacuating else None
            raise error or Invalid(f"Compute host {request.host} could not be found.")
        if found.id == server.host_id:
            raise Invalid("Cannot migrate to the host where the server exists.")
        return found

    def _requirements(
        self, tx: Transaction, server: Server, request: MoveRequest, requested: Host | None
    ) -> HostRequirements:
        """Return the server's host requirements, without the destination host of its creation request."""
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

    def _other_members(self, tx: Transaction, server: Server, request: MoveRequest) -> list[Follower]:
        """Return the other members of the server's group that have a host and do not move."""
        members = tx.groups.places([server.group_id])[server.group_id] if server.group_id is not None else {}
        others = tx.servers.by_ids([ServerId(each) for each in members if each != server.id])
        alike = replace(request, flavor=None, host=None, forced=False)
        return [
            Follower(each.host_id, RequestSpec.for_flavor(each.flavor, self._requirements(tx, each, alike, None)))
            for each in others
            if each.host_id is not None and each.migration_host_id is None and each.task is not Task.DELETING
        ]

    def _finished_move(self, tx: Transaction, server: Server) -> Migration:
        found = tx.migrations.find(server=server.id, statuses=("finished",))
        if not found:
            raise Conflict(f"Instance {server.id} has no move to confirm or revert.")
        return found[0]

    def _reject_unknown_zone(self, tx: Transaction, zone: str | None) -> None:
        with self.destinations.live.fresh(tx) as snapshot:
            zones = snapshot.fleet.zones
        if zone is not None and zone not in zones:
            raise Invalid("The requested availability zone is not available")

    def _limited_growth(self, tx: Transaction, project: ProjectId, growth: Mapping[str, int]) -> dict[str, int]:
        """Return the part of the growth that a limit applies to. Raises OverQuota."""
        if not growth:
            return {}
        use = self.quota_use(tx, project, growth)  # not locked: _charge_quota checks again
        for name, limit in use.limits.items():
            if use.used[name] + growth[name] > limit:
                raise OverQuota(
                    f"Quota exceeded for {name}: Requested {growth[name]}, "
                    f"but already used {use.used[name]} of {limit} {name}"
                )
        return {name: growth[name] for name in use.limits}

    def _charge_quota(self, tx: Transaction, project: ProjectId, growth: Mapping[str, int]) -> None:
        """Count the growth from now on. Raises StaleClaim when a concurrent request used up the quota."""
        if not growth:
            return
        tx.claims.add_usage(project, 0, growth.get("cores", 0), growth.get("ram", 0))  # locks the project
        use = self.quota_use(tx, project, growth)
        if any(use.used[name] > limit for name, limit in use.limits.items()):
            raise StaleClaim(frozenset())

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


def release_quota(tx: Transaction, server: Server, amounts: tuple[int, int]) -> None:
    """Release the cores and memory that a finished move had added to the project's usage."""
    if any(amounts):
        cores, ram = amounts
        tx.claims.add_usage(server.project_id, 0, -cores, -ram)


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


def _reject_unanswering(tx: Transaction, server: Server) -> None:
    """Raise Conflict if the server's host is down and may still run it: the shelve could not end before that changes.

    Its message names no host, because tenants read it.
    """
    agent = None if server.host_id is None else tx.agents.by_host_id(server.host_id)
    if agent is not None and agent.state is AgentState.DOWN and not agent.may_be_evacuated:
        raise Conflict(
            f"Cannot 'shelve' instance {server.id}: its host is down, and may still run it. "
            "Try again once the host is back, or is fenced."
        )


def _reject_same_flavor(server: Server, flavor: Flavor) -> None:
    if flavor.id == server.flavor.id:
        raise Invalid("When resizing, instances must change flavor!")


def _at_rest(server: Server) -> VmState:
    return VmState.STOPPED if server.power.is_off else VmState.ACTIVE
