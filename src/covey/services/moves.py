"""Moves: cold and live migration, resize, evacuation, shelving. Group policies hold on every one of them."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from covey.model.access import Actor
from covey.model.actions import ActionEvent, Migration, MoveKind
from covey.model.errors import Busy, Conflict, Invalid, NotFound, NoValidHost, OverQuota, StaleClaim
from covey.model.flavors import Flavor
from covey.model.groups import GroupState
from covey.model.hosts import Host
from covey.model.ids import ProjectId, ServerId
from covey.model.quotas import UNLIMITED
from covey.model.servers import Server, Task, VmState
from covey.model.work import JobKind
from covey.ports import Access, Clock, NewUuid
from covey.scheduler.request_spec import HostRequirements
from covey.services.destinations import Destination, Destinations
from covey.services.servers import Servers, refuse_locked, refuse_small, refuse_state
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
_ON_THE_WIRE = {**ACTION, MoveKind.LIVE_MIGRATION: "os-migrateLive"}  # what a refusal calls it
_TASK = {
    MoveKind.MIGRATION: Task.RESIZE_PREP,
    MoveKind.RESIZE: Task.RESIZE_PREP,
    MoveKind.LIVE_MIGRATION: Task.MIGRATING,
    MoveKind.EVACUATION: Task.REBUILDING,
}


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """A move that somebody asks for; a forced one asks no policy."""

    kind: MoveKind
    request_id: str
    host: str | None = None
    forced: bool = False
    flavor: Flavor | None = None
    stopped: bool = False  # an evacuated server waits at its new host for its owner to start it


@dataclass(frozen=True, slots=True)
class Moves:
    """Begins moves; a worker carries them out."""

    store: Store
    access: Access
    clock: Clock
    new_uuid: NewUuid
    servers: Servers
    destinations: Destinations
    limits: Callable[[Transaction, ProjectId], dict[str, int]]
    attempts: int = 5

    def begin(self, actor: Actor, server: str, request: MoveRequest, rule: str) -> None:
        """Decide where to, claim it, and leave the rest to a worker.

        Raises NoValidHost with the reasons when no host may take it; the server stays as it is, and its log
        says so too.
        """
        self._authorize(actor, server, rule, request)
        for _ in range(self.attempts):
            try:
                with suppress(StaleClaim), self.store.write() as tx:
                    self._begin(tx, actor, ServerId(server), request)
                    return
            except NoValidHost as why:
                self._log_refusal(actor, ServerId(server), request, why)
                raise
        raise Busy("The fleet kept changing under this request. Try again in a moment.")

    def confirm(self, actor: Actor, server: str, request_id: str) -> None:
        """The server stays where it moved to, with the size that it got; its old place is given back."""
        now = self.clock()
        with self.store.write() as tx:
            found, _ = self._locked(tx, actor, server, "os_compute_api:servers:confirm_resize")
            refuse_locked(found, actor, self.access)
            refuse_state(found, "confirmResize", VmState.RESIZED)
            move = self._finished(tx, found)
            tx.actions.add(found, "confirmResize", request_id, actor, now)
            self.destinations.release(tx, move.uuid)
            discharge(tx, found, move.surplus)
            tx.migrations.set_status(move.uuid, "confirmed", now)
            tx.servers.update(replace(found, migration_host_id=None, vm_state=_at_rest(found), updated_at=now))
            self.destinations.bump_group(tx, found.group_id)
            tx.actions.finish(found.id, "confirmResize", ActionEvent("compute_confirm_resize", now, now, "Success"))

    def revert(self, actor: Actor, server: str, request_id: str) -> None:
        """The server goes back to where it was, with the size that it had."""
        now = self.clock()
        with self.store.write() as tx:
            found, _ = self._locked(tx, actor, server, "os_compute_api:servers:revert_resize")
            refuse_locked(found, actor, self.access)
            refuse_state(found, "revertResize", VmState.RESIZED)
            move = self._finished(tx, found)
            tx.actions.add(found, "revertResize", request_id, actor, now)
            tx.servers.update(replace(found, task=Task.RESIZE_REVERTING, updated_at=now))
            tx.work.add(JobKind.REVERT, found.id, now, {"migration": move.uuid})

    def shelve(self, actor: Actor, server: str, request_id: str) -> None:
        """Off its host, but not forgotten: it keeps its name, its size and its group, and holds no place."""
        now = self.clock()
        with self.store.write() as tx:
            found, _ = self._locked(tx, actor, server, "os_compute_api:os-shelve:shelve")
            refuse_locked(found, actor, self.access)
            refuse_state(found, "shelve", *_AT_REST)
            tx.actions.add(found, "shelve", request_id, actor, now)
            tx.servers.update(replace(found, task=Task.SHELVING_OFFLOADING, updated_at=now))
            tx.work.add(JobKind.SHELVE, found.id, now)

    def offload(self, actor: Actor, server: str) -> None:
        """A shelved server leaves its host at once here, so there is nothing more to do. Raises Conflict otherwise."""
        with self.store.read() as tx:
            found = self.servers.own(tx, actor, server, "os_compute_api:os-shelve:shelve_offload")
        refuse_state(found, "shelveOffload", VmState.SHELVED, VmState.SHELVED_OFFLOADED)

    def unshelve(
        self, actor: Actor, server: str, request_id: str, zone: str | None, host: str | None, *, unpin: bool = False
    ) -> None:
        """Decide on a place anew, by the policies as they are now. Raises NoValidHost, and then it stays shelved.

        Without a zone it goes to the one that it once asked for, if any, unless it is unpinned from it.
        """
        rule = "os_compute_api:os-shelve:" + ("unshelve" if host is None else "unshelve_to_host")
        request = MoveRequest(MoveKind.MIGRATION, request_id, host)
        self._authorize(actor, server, rule, request)
        for _ in range(self.attempts):
            try:
                with suppress(StaleClaim), self.store.write() as tx:
                    self._unshelve(tx, actor, server, request, zone, unpin=unpin)
                    return
            except NoValidHost as why:
                self._log_refusal(actor, ServerId(server), request, why, "unshelve")
                raise
        raise Busy("The fleet kept changing under this request. Try again in a moment.")

    def _unshelve(
        self, tx: Transaction, actor: Actor, server: str, request: MoveRequest, zone: str | None, *, unpin: bool
    ) -> None:
        now = self.clock()
        found, group = self._locked(tx, actor, server, "os_compute_api:os-shelve:unshelve")
        refuse_locked(found, actor, self.access)
        refuse_state(found, "unshelve", VmState.SHELVED_OFFLOADED)
        if zone is not None or unpin:
            self._refuse_unknown_zone(zone)
            found = replace(found, request=replace(found.request, zone=zone))
        destination = self._destination(tx, request, found)
        place = self.destinations.select(found, group, self._standing(found, request, destination))
        tx.claims.add_consumer(found.id, found.project_id, found.user_id, "INSTANCE")
        self.destinations.claim(tx, found.id, place.host_id, found.flavor)
        placement = replace(found.placement, seed=place.seed, candidates=place.candidates, avoid=())
        tx.servers.update(
            replace(found, host_id=place.host_id, task=Task.UNSHELVING, placement=placement, updated_at=now)
        )
        self.destinations.bump_group(tx, found.group_id)
        tx.actions.add(found, "unshelve", request.request_id, actor, now)
        tx.work.add(JobKind.UNSHELVE, found.id, now)

    def _begin(self, tx: Transaction, actor: Actor, server: ServerId, request: MoveRequest) -> None:
        found, group = self._locked(tx, actor, server, None)
        refuse_locked(found, actor, self.access)
        refuse_state(found, _ON_THE_WIRE[request.kind], *_MOVABLE[request.kind])
        source = self._source(tx, found, request)
        if request.flavor is not None:
            _refuse_same_size(found, request.flavor)
            refuse_small(request.flavor, tx.images.by_id(found.request.image_id or ""))
            self._refuse_over_quota(tx, found, request.flavor)
        destination = self._destination(tx, request, found)
        requirements = self._standing(found, request, destination)
        place = self.destinations.select(found, group, requirements, flavor=request.flavor, forced=request.forced)
        self._claim(tx, actor, found, source, place, request)

    def _claim(
        self, tx: Transaction, actor: Actor, server: Server, source: Host, place: Destination, request: MoveRequest
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
            destination=place.host_name,
            old_flavor=server.flavor,
            new_flavor=flavor,
            created_at=now,
            updated_at=now,
        )
        tx.claims.move_allocations(server.id, move.uuid, source.id)
        self.destinations.claim(tx, server.id, place.host_id, flavor)
        self._charge(tx, move)
        tx.migrations.add(move)
        tx.actions.add(server, ACTION[request.kind], request.request_id, actor, now)
        placement = replace(server.placement, seed=place.seed, candidates=place.candidates, hosts=place.hosts)
        moving = replace(
            server, migration_host_id=place.host_id, task=_TASK[request.kind], placement=placement, updated_at=now
        )
        tx.servers.update(moving)
        self.destinations.bump_group(tx, server.group_id)
        tx.work.add(JobKind.MOVE, server.id, now, {"migration": move.uuid, "stopped": request.stopped})

    def _authorize(self, actor: Actor, server: str, rule: str, request: MoveRequest) -> None:
        with self.store.read() as tx:
            self.servers.own(tx, actor, server, rule)
            named = request.host is not None and request.kind in {MoveKind.MIGRATION, MoveKind.LIVE_MIGRATION}
            if named and rule.startswith("os_compute_api:os-migrate-server"):
                self.servers.own(tx, actor, server, f"{rule}:host")

    def _locked(self, tx: Transaction, actor: Actor, server: str, rule: str | None) -> tuple[Server, GroupState | None]:
        found, group = self.destinations.lock(tx, ServerId(server))
        if found is None:
            raise NotFound(f"Instance {server} could not be found.")
        if rule is not None:
            self.servers.own(tx, actor, server, rule)
        return found, group

    def _source(self, tx: Transaction, server: Server, request: MoveRequest) -> Host:
        if server.host_id is None:
            raise Conflict(f"Cannot '{_ON_THE_WIRE[request.kind]}' instance {server.id} while it is on no host")
        source = tx.hosts.by_id(server.host_id)
        assert source is not None
        if request.kind is MoveKind.EVACUATION and source.up:
            raise Invalid(f"Compute service of {source.name} is still in use.")
        return source

    def _destination(self, tx: Transaction, request: MoveRequest, server: Server) -> Host | None:
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

    def _standing(self, server: Server, request: MoveRequest, destination: Host | None) -> HostRequirements:
        """What it asks of a host; a destination of the time when it was created no longer counts."""
        wanted = replace(server.request, hosts=(), forced=False)
        requirements = self.servers.requirements_for(server.project_id, request.flavor or server.flavor, wanted)
        here = frozenset() if server.host_id is None else frozenset({server.host_id})
        only = requirements.only_hosts if destination is None else frozenset({destination.id})
        return replace(requirements, only_hosts=only, other_hosts=requirements.other_hosts | here)

    def _finished(self, tx: Transaction, server: Server) -> Migration:
        found = tx.migrations.find(server=server.id, statuses=("finished",))
        if not found:
            raise Conflict(f"Instance {server.id} has no move to confirm or revert.")
        return found[0]

    def _refuse_unknown_zone(self, zone: str | None) -> None:
        with self.store.read() as outside, self.destinations.live.fresh(outside) as snapshot:
            if zone is not None and zone not in snapshot.fleet.zones:
                raise Invalid("The requested availability zone is not available")

    def _refuse_over_quota(self, tx: Transaction, server: Server, flavor: Flavor) -> None:
        limits = self.limits(tx, server.project_id)
        _, cores, ram = tx.claims.usage(server.project_id)  # not held: it is looked at again when it is charged
        for name, used, more in (
            ("cores", cores, flavor.vcpus - server.flavor.vcpus),
            ("ram", ram, flavor.memory_mb - server.flavor.memory_mb),
        ):
            if more > 0 and limits[name] != UNLIMITED and used + more > limits[name]:
                raise OverQuota(
                    f"Quota exceeded for {name}: Requested {more}, but already used {used} of {limits[name]} {name}"
                )

    def _charge(self, tx: Transaction, move: Migration) -> None:
        """The larger size counts from now on. Raises StaleClaim if the project grew meanwhile and has none left."""
        if not any(move.extra):
            return
        tx.claims.add_usage(move.project_id, 0, *move.extra)
        limits, (_, cores, ram) = self.limits(tx, move.project_id), tx.claims.usage(move.project_id)
        for name, used, more in zip(("cores", "ram"), (cores, ram), move.extra, strict=True):
            if more and limits[name] != UNLIMITED and used > limits[name]:
                raise StaleClaim(frozenset())

    def _log_refusal(
        self, actor: Actor, server: ServerId, request: MoveRequest, why: NoValidHost, action: str | None = None
    ) -> None:
        """A refused move is not silent: the server's log has the counted reasons."""
        now, verb = self.clock(), action or ACTION[request.kind]
        with self.store.write() as tx:
            found = tx.servers.by_id(server)
            if found is not None:
                tx.actions.add(found, verb, request.request_id, actor, now)
                event = ActionEvent("conductor_schedule", now, now, "Error", why.message, why.details)
                tx.actions.finish(server, verb, event)


def discharge(tx: Transaction, server: Server, amounts: tuple[int, int]) -> None:
    """A move has ended: what its other size made the quota count is given back."""
    if any(amounts):
        cores, ram = amounts
        tx.claims.add_usage(server.project_id, 0, -cores, -ram)


def _refuse_same_size(server: Server, flavor: Flavor) -> None:
    if flavor.id == server.flavor.id:
        raise Invalid("When resizing, instances must change flavor!")


def _at_rest(server: Server) -> VmState:
    return VmState.STOPPED if server.power == "shutdown" else VmState.ACTIVE
