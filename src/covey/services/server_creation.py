"""Boots: many requests, each for one server or a batch, decided and claimed together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from covey.model.claims import Booking, amounts_of
from covey.model.errors import Busy, Conflict, CoveyError, Invalid, NoValidHost, OverQuota, StaleClaim
from covey.model.flavors import Flavor
from covey.model.groups import GroupState, GroupView
from covey.model.ids import GroupId, HostId, ProjectId, ServerId, UserId
from covey.model.quotas import UNLIMITED
from covey.model.servers import (
    Details,
    Fault,
    FaultKind,
    PlacementRecord,
    PlacementRequest,
    Power,
    Server,
    Task,
    VmState,
)
from covey.ports import NewUuid
from covey.request_slots import RequestSlots
from covey.scheduler.decide import decide
from covey.scheduler.decision import Decision
from covey.scheduler.explain import Explanation, explain
from covey.scheduler.fleet import Fleet
from covey.scheduler.request_spec import HostRequirements, RequestSpec
from covey.services.announcements import Announcements
from covey.services.group_commit import GroupCommit
from covey.services.live_fleet import FleetSnapshot, LiveFleet
from covey.services.local_queue import LocalQueue
from covey.storage.store import Store, Transaction

NO_VALID_HOST = "No valid host was found."
_COUNTED = ("instances", "cores", "ram")
_REMEMBERED = 20_000  # groups


@dataclass(frozen=True, slots=True)
class Boot:
    """A request for servers, as far as a decision and a claim need to know."""

    project_id: ProjectId
    user_id: UserId
    name: str
    flavor: Flavor
    wanted: PlacementRequest
    details: Details
    requirements: HostRequirements
    request_id: str
    now: datetime
    group_id: GroupId | None = None
    count: int = 1
    minimum: int = 1
    tags: frozenset[str] = frozenset()
    key: str | None = None  # by which the client may repeat the request
    fingerprint: str = ""  # of the request, since a key is for one request only
    hopeless: str | None = None  # why no host can take it, where that is known beforehand
    each: tuple[tuple[str, Mapping[str, str]], ...] = ()  # names and metadata of its servers, where they differ


Then = Callable[[Transaction, Sequence[Server]], None]
"""What becomes true together with a claim, in the same transaction."""


@dataclass(slots=True)
class _Round:
    """One try at a batch: what was decided so far, on top of what the database says."""

    groups: dict[GroupId, GroupState]
    limits: Mapping[ProjectId, Mapping[str, int]]
    usage: dict[ProjectId, list[int]] = field(default_factory=dict)
    bookings: list[Booking] = field(default_factory=list)
    taken: list[tuple[Sequence[HostId], tuple[int, int, int]]] = field(default_factory=list)
    answers: list["list[Server] | CoveyError"] = field(default_factory=list)
    # What was asked and answered under each key; None where nobody used it before.
    keys: dict[tuple[ProjectId, str], tuple[str, list[str]] | None] = field(default_factory=dict)
    snapshot: FleetSnapshot | None = None
    then: Then | None = None  # with it, all boots succeed or none does

    def conclude(self, tx: Transaction) -> None:
        """What comes after the claim. Raises whatever is the matter with one of several that go together."""
        if self.then is None:
            return
        for answer in self.answers:
            if isinstance(answer, CoveyError):
                raise answer
        self.then(tx, [booking.server for booking in self.bookings])


@dataclass(slots=True)
class ServerCreation:
    """Decides and claims.

    `seed` makes a number for ties, `limits` are those of whoever has none set,
    `tell` words an explanation for a tenant.
    """

    store: Store
    live: LiveFleet
    new_uuid: NewUuid
    seed: Callable[[], int]
    limits: Mapping[str, int]
    tell: Callable[[Explanation], str]
    announcements: Announcements
    local_queue: LocalQueue
    subset: int = 1
    attempts: int = 8
    request_slots: RequestSlots = field(default_factory=RequestSlots)
    claim_conflict: Callable[[], None] = lambda: None  # told of every claim that has to be decided again
    _batches: GroupCommit[Boot, list[Server]] = field(init=False)
    _known: dict[GroupId, GroupState] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._batches = GroupCommit(self._answer, request_slots=self.request_slots)

    def boot(self, boot: Boot) -> list[Server]:
        """The new servers: each with a place, or all in error. Raises OverQuota, Invalid, Busy."""
        return self._batches.ask(boot)

    def boot_together(self, server_creation: Sequence[Boot], then: Then) -> None:
        """All servers get a place and `then` is done with them, in one transaction; or nothing happens.

        Raises NoValidHost, saying why, when one does not fit; OverQuota, Invalid, Busy.
        """
        for answer in self._answer(server_creation, then):
            if isinstance(answer, CoveyError):
                raise answer

    def _answer(self, server_creation: Sequence[Boot], then: Then | None = None) -> Sequence[list[Server] | CoveyError]:
        avoid: frozenset[HostId] = frozenset()
        for _ in range(self.attempts):
            try:
                return self._try(server_creation, avoid, then)
            except StaleClaim as stale:
                avoid |= stale.hosts  # somebody was faster there: look again with fresh eyes, elsewhere
                self.claim_conflict()
        return [Busy("The fleet kept changing under this request. Try again in a moment.")] * len(server_creation)

    def _try(
        self, server_creation: Sequence[Boot], avoid: frozenset[HostId], then: Then | None
    ) -> Sequence[list[Server] | CoveyError]:
        made: _Round | None = None
        try:
            with self.store.write() as tx:
                made = self._begin(tx, server_creation)
                made.then = then
                with self.live.fresh(tx) as made.snapshot:
                    for boot in server_creation:
                        made.answers.append(self._decide(boot, tx, made, avoid))
                for project, key in (each for each, answered in made.keys.items() if answered is None):
                    tx.keys.forget(project, key)
                due = self.local_queue.due(server_creation[0].now)
                _refuse_overrun(tx.claims.book(made.bookings, made.snapshot.tag, due), made)
                self.announcements.booked(tx, [booking.server for booking in made.bookings])
                made.conclude(tx)
        except BaseException:
            if made is not None and made.snapshot is not None:
                for hosts, amounts in made.taken:
                    self.live.undo(made.snapshot, hosts, amounts)
            raise
        self._remember(made)
        placed = [booking.server for booking in made.bookings if booking.server.host_id is not None]
        self.local_queue.give(placed, due=due, now=server_creation[0].now)
        return made.answers

    def _begin(self, tx: Transaction, server_creation: Sequence[Boot]) -> _Round:
        """The groups' states, from memory where it is of the version that the locked row has; and limits."""
        projects = {boot.project_id for boot in server_creation}
        groups = {boot.group_id for boot in server_creation if boot.group_id is not None}
        versions, limits = tx.claims.open(groups, projects)
        known = {g: self._known[g] for g, v in versions.items() if g in self._known and self._known[g].version == v}
        states = known | tx.groups.states({g: v for g, v in versions.items() if g not in known})
        everybody = {**self.limits, **limits.get(None, {})}
        made = _Round(states, {project: {**everybody, **limits.get(project, {})} for project in projects})
        wanted = [(boot.project_id, boot.key) for boot in server_creation if boot.key is not None]
        if wanted:
            made.keys = dict(tx.keys.reserve(wanted, server_creation[0].now))
        return made

    def _remember(self, made: _Round) -> None:
        grown = {booking.server.group_id for booking in made.bookings if booking.server.host_id is not None}
        if len(self._known) > _REMEMBERED:
            self._known = {}
        for group, state in made.groups.items():
            self._known[group] = state.next() if group in grown else state

    def _decide(self, boot: Boot, tx: Transaction, made: _Round, avoid: frozenset[HostId]) -> list[Server] | CoveyError:
        """Servers, placed or in error; or what is wrong with the request, which is the caller's alone."""
        assert made.snapshot is not None
        fleet = made.snapshot.fleet
        try:
            before = _answered_before(boot, tx, made)
            if before is not None:
                return before
            refuse_unknown_zone(boot.requirements, fleet)
            state = _state(boot, made)
            count = self._within_quota(boot, tx, made, state)
        except CoveyError as error:
            return error
        requirements = boot.requirements
        if avoid and not boot.wanted.forced:
            requirements = replace(requirements, other_hosts=requirements.other_hosts | avoid)
        spec = RequestSpec(
            *amounts_of(boot.flavor),
            count=count,
            minimum=boot.minimum,
            requirements=requirements,
            group=state.view() if state else GroupView(),
            forced=boot.wanted.forced,
        )
        decision = decide(spec, fleet, self.seed(), self.subset)
        if not decision.chosen:
            return self._refused(boot, spec, fleet, decision, made, tx)
        fleet.take_for(decision.chosen, spec.amounts)
        made.taken.append((decision.chosen, spec.amounts))
        if boot.group_id is not None and state is not None:
            made.groups[boot.group_id] = state.with_members(boot.user_id, decision.chosen)
        placed = PlacementRecord(seed=decision.seed, candidates=decision.candidates, hosts=len(fleet))
        servers = [
            self._server(boot, number, len(decision.chosen), host, fleet, placed)
            for number, host in enumerate(decision.chosen)
        ]
        return self._booked(boot, servers, made, tx)

    def _refused(
        self, boot: Boot, spec: RequestSpec, fleet: Fleet, decision: Decision, made: _Round, tx: Transaction
    ) -> list[Server] | CoveyError:
        """Servers in error, which hold no place and no member slot, and say why; none where it is all or nothing."""
        why = explain(spec, fleet, decision.fitting)
        told, details = boot.hopeless or self.tell(why), boot.hopeless or why.sentence()
        if made.then is not None:
            return NoValidHost(f"{NO_VALID_HOST} {told}", details)
        fault = Fault(f"{NO_VALID_HOST} {told}", boot.now, details=details, kind=FaultKind.NO_VALID_HOST)
        lost = [
            replace(self._server(boot, i, boot.minimum, None, fleet, PlacementRecord(decision.seed)), fault=fault)
            for i in range(boot.minimum)
        ]
        return self._booked(boot, lost, made, tx)

    def _booked(self, boot: Boot, servers: list[Server], made: _Round, tx: Transaction) -> list[Server]:
        made.bookings += [Booking(server, boot.request_id) for server in servers]
        if boot.key is not None:
            ids: list[str] = [server.id for server in servers]
            tx.keys.answer(boot.project_id, boot.key, boot.fingerprint, ids)
            made.keys[boot.project_id, boot.key] = boot.fingerprint, ids
        used = made.usage.get(boot.project_id)
        if used is not None:
            for i, amount in enumerate((1, boot.flavor.vcpus, boot.flavor.memory_mb)):
                used[i] += amount * len(servers)
        return servers

    def _server(
        self, boot: Boot, number: int, of: int, host: HostId | None, fleet: Fleet, placed: PlacementRecord
    ) -> Server:
        record = None if host is None else fleet.hosts[fleet.row_of[host]]
        name = boot.name if of == 1 else f"{boot.name}-{number + 1}"
        details = boot.details if number == 0 else replace(boot.details, launch_index=number)
        if boot.each:
            name, details = boot.each[number][0], replace(details, metadata=boot.each[number][1])
        return Server(
            id=ServerId(self.new_uuid()),
            name=name,
            project_id=boot.project_id,
            user_id=boot.user_id,
            flavor=boot.flavor,
            vm_state=VmState.ERROR if record is None else VmState.BUILDING,
            task=None if record is None else Task.SPAWNING,
            power=Power.NONE,
            created_at=boot.now,
            updated_at=boot.now,
            host_id=host,
            host_name=None if record is None else record.name,
            zone=None if record is None else record.zone,
            group_id=None if record is None else boot.group_id,
            request=boot.wanted,
            details=details,
            placement=placed,
            tags=boot.tags,
        )

    def _within_quota(self, boot: Boot, tx: Transaction, made: _Round, state: GroupState | None) -> int:
        """How many of the servers the project may have, up to the number asked for. Raises OverQuota."""
        limits = made.limits[boot.project_id]
        members = limits["server_group_members"]
        if state is not None and members != UNLIMITED and state.users.get(boot.user_id, 0) + boot.count > members:
            raise OverQuota("Quota exceeded, too many servers in group")
        if all(limits[resource] == UNLIMITED for resource in _COUNTED):
            return boot.count
        if boot.project_id not in made.usage:
            made.usage[boot.project_id] = list(tx.claims.usage(boot.project_id))
        used = made.usage[boot.project_id]
        return _affordable(boot, {r: (u, limits[r]) for r, u in zip(_COUNTED, used, strict=True)})


def _refuse_overrun(usage: Mapping[str, tuple[int, int, int]], made: _Round) -> None:
    """Raises StaleClaim if a project grew meanwhile, so that what was affordable is too much now."""
    for project in made.usage:
        limits = [made.limits[project][resource] for resource in _COUNTED]
        used = usage.get(project, (0, 0, 0))
        if any(limit != UNLIMITED and n > limit for n, limit in zip(used, limits, strict=True)):
            raise StaleClaim(frozenset())


def _affordable(boot: Boot, usage: Mapping[str, tuple[int, int]]) -> int:
    each = {"instances": 1, "cores": boot.flavor.vcpus, "ram": boot.flavor.memory_mb}
    count = boot.count
    for resource, (used, limit) in usage.items():
        if limit == UNLIMITED:
            continue
        fits = (limit - used) // each[resource]
        if fits < boot.minimum:
            wanted = each[resource] * boot.minimum
            raise OverQuota(
                f"Quota exceeded for {resource}: Requested {wanted}, but already used {used} of {limit} {resource}"
            )
        count = min(count, fits)
    return count


def _state(boot: Boot, made: _Round) -> GroupState | None:
    if boot.group_id is None:
        return None
    state = made.groups.get(boot.group_id)
    if state is None or state.project_id != boot.project_id:
        raise Invalid(f"Instance group {boot.group_id} could not be found.")
    return state


def refuse_unknown_zone(requirements: HostRequirements, fleet: Fleet) -> None:
    """Raises Invalid for an availability zone without hosts."""
    if requirements.zone is not None and requirements.zone not in fleet.zones:
        raise Invalid("The requested availability zone is not available")


def _answered_before(boot: Boot, tx: Transaction, made: _Round) -> list[Server] | None:
    """What the same request brought the first time. Raises Conflict for a key that another request used."""
    if boot.key is None:
        return None
    known = made.keys[boot.project_id, boot.key]
    if known is None:
        return None
    fingerprint, ids = known
    if fingerprint != boot.fingerprint:
        raise Conflict(f"The idempotency key {boot.key} was used for another request.")
    here = {booking.server.id: booking.server for booking in made.bookings}
    stored = {server.id: server for server in tx.servers.by_ids([ServerId(i) for i in ids if i not in here])}
    return [(here | stored)[ServerId(i)] for i in ids if i in here or i in stored]
