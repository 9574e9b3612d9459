"""Creating servers: group commit, transaction, plan, claim, local queue."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace

from covey.model.claims import Plan, ResolvedRequest
from covey.model.errors import Busy, CoveyError, StaleClaim, TransactionConflict, Unavailable
from covey.model.groups import GroupState
from covey.model.ids import GroupId, HostId, ProjectId, ServerId
from covey.model.quotas import COUNTED, UNLIMITED
from covey.model.resources import quota_sizes
from covey.model.servers import Fault, FaultKind, Server
from covey.request_slots import RequestSlots
from covey.scheduler.explain import Explanation, NoHost
from covey.scheduler.planning import PlanningContext, plan, take_room
from covey.services.group_commit import GroupCommit
from covey.services.live_fleet import FleetSnapshot, FleetVersion, LiveFleet
from covey.services.notifications import NotificationEmitter
from covey.storage.changes import ANY_WRITER
from covey.storage.store import Store, Transaction

_MAX_WAITING = 1024  # servers in the local queue; the jobs of further ones are due for any process


@dataclass(slots=True)
class LocalQueue:
    """The claimed servers that workers of this process start, without a query for due jobs.

    The claim writes the job as leased. If the process dies or is slow, the job is due for other processes when the
    lease ends. Without workers in the process, the queue takes no servers.
    """

    lease_s: float
    workers: int = 0
    _waiting: deque[tuple[float, Server]] = field(default_factory=deque)

    def lease(self) -> float:
        """Return for how long the next claim leases its jobs to this process; 0 if any process may take them."""
        return self.lease_s if self.workers > 0 and len(self._waiting) < _MAX_WAITING else 0

    def put(self, servers: Sequence[Server], since: float) -> None:
        """Queue servers whose jobs are leased to this process, since then by the monotonic clock."""
        self._waiting.extend((since, server) for server in servers)

    def take(self, limit: int) -> list[tuple[float, Server]]:
        """Return servers to start now, up to `limit`, and since when each is leased."""
        taken: list[tuple[float, Server]] = []
        while self._waiting and len(taken) < limit:
            since, server = self._waiting.popleft()
            if time.monotonic() < since + self.lease_s / 2:  # the other half is for starting it
                taken.append((since, server))
        return taken


@dataclass(frozen=True, slots=True)
class Attempt:
    """A plan whose rows are written, in a transaction that is still open."""

    tx: Transaction
    plan: Plan


@dataclass(slots=True)
class ServerCreation:
    """Plans requests for servers and claims the room for them.

    `default_limits` are the quotas of projects that have none set. `tenant_message` words an explanation for tenants.
    `claim_conflict` is called for every claim that another claim, or a structural change, made stale.
    """

    store: Store
    live: LiveFleet
    default_limits: Mapping[str, int]
    tenant_message: Callable[[Explanation], str]
    notifications: NotificationEmitter
    local_queue: LocalQueue
    subset: int = 1
    attempts: int = 8
    max_group_members: int = UNLIMITED
    request_slots: RequestSlots = field(default_factory=RequestSlots)
    claim_conflict: Callable[[], None] = lambda: None
    _group_commit: GroupCommit[ResolvedRequest, list[Server]] = field(init=False)

    def __post_init__(self) -> None:
        self._group_commit = GroupCommit(self._create, request_slots=self.request_slots)

    def create(self, request: ResolvedRequest) -> list[Server]:
        """Return the new servers: each with a host, or all in error. Raises OverQuota, Invalid, Conflict, Busy."""
        return self._group_commit.submit(request)

    @contextmanager
    def creating(self, requests: Sequence[ResolvedRequest]) -> Iterator[tuple[Transaction, list[Server]]]:
        """Yield new servers, each with a host, and the transaction that creates them; it commits when the block ends.

        Raises NoValidHost, OverQuota, Invalid, Busy before the block runs; nothing is then created.
        """
        with ExitStack() as stack:
            try:
                attempt = self._claim(stack, requests, all_or_nothing=True)
            except NoHost as refusal:
                raise refusal.explain(self.tenant_message) from None
            yield attempt.tx, attempt.plan.servers

    def _create(self, requests: Sequence[ResolvedRequest]) -> Sequence[list[Server] | BaseException]:
        with ExitStack() as stack:
            outcomes: list[list[Server] | BaseException] = [*self._claim(stack, requests).plan.outcomes]
        refused = {number: outcome for number, outcome in enumerate(outcomes) if isinstance(outcome, NoHost)}
        if refused:  # explained and stored now that no lock is held
            try:
                stored = self._store_refused([requests[number] for number in refused], list(refused.values()))
            except Exception as error:  # noqa: BLE001 -- returned to the refused ones; the others are committed
                stored = [error] * len(refused)
            for number, outcome in zip(refused, stored, strict=True):
                outcomes[number] = outcome
        return outcomes

    def _store_refused(
        self, requests: Sequence[ResolvedRequest], refusals: Sequence[NoHost]
    ) -> Sequence[list[Server] | BaseException]:
        """Store the servers of refused requests, in ERROR with the explanation. Raises Busy."""
        faults: dict[ServerId, Fault] = {}
        for resolved, refusal in zip(requests, refusals, strict=True):
            request, why = resolved.request, refusal.explain(self.tenant_message)
            fault = Fault(why.message, request.now, details=why.details, kind=FaultKind.NO_VALID_HOST)
            faults[request.first_id] = fault
        for _ in range(self.attempts):
            with suppress(StaleClaim, TransactionConflict), self.store.write() as tx:
                planned = plan(requests, self._read(tx, requests, frozenset()), refusals[0].fleet, faults=faults)
                tx.claims.commit(planned, ANY_WRITER, 0, None)
                if self.notifications.enabled:
                    self.notifications.create_started(tx, planned.servers)
                return planned.outcomes
        raise Busy("The project's quota kept changing under this request. Try again in a moment.")

    def _claim(self, stack: ExitStack, requests: Sequence[ResolvedRequest], *, all_or_nothing: bool = False) -> Attempt:
        """Return the first attempt that is not stale; the stack closes its transaction. Raises Busy."""
        avoid: frozenset[HostId] = frozenset()
        for _ in range(self.attempts):
            try:
                return stack.enter_context(self._attempt(requests, avoid, all_or_nothing=all_or_nothing))
            except StaleClaim as stale:
                avoid |= stale.hosts
                self.claim_conflict()
            except TransactionConflict:  # a deadlock; the other transaction continues
                self.claim_conflict()
        raise Busy("The fleet kept changing under this request. Try again in a moment.")

    @contextmanager
    def _attempt(
        self, requests: Sequence[ResolvedRequest], avoid: frozenset[HostId], *, all_or_nothing: bool
    ) -> Iterator[Attempt]:
        planned, snapshot, fleet_version = Plan(), None, None
        since, lease_s = time.monotonic(), self.local_queue.lease()
        try:
            with self.store.write() as tx:
                context = _with_held(tx, requests, self._read(tx, requests, avoid))
                with self.live.fresh(tx) as snapshot:
                    fleet_version = snapshot.version
                    outdated = self._outdated(requests)
                    planned = plan(
                        requests,
                        replace(context, outdated=outdated) if outdated else context,
                        snapshot.fleet,
                        subset=self.subset,
                        all_or_nothing=all_or_nothing,
                    )
                    take_room(snapshot.fleet, planned)
                    tag, token = snapshot.tag, snapshot.token
                version = tx.claims.commit(planned, tag, lease_s, token)
                if self.notifications.enabled:
                    self.notifications.create_started(tx, planned.servers)
                yield Attempt(tx, planned)
        except BaseException as error:
            if snapshot is not None and fleet_version is not None:
                self._undo(snapshot, fleet_version, planned, error)
            raise
        grown = {new.server.group_id for new in planned.placed}
        self.live.cache_groups({g: s.at(version) if g in grown else s for g, s in planned.groups.items()})
        if lease_s:
            self.local_queue.put([new.server for new in planned.placed], since)

    def _read(self, tx: Transaction, resolved: Sequence[ResolvedRequest], avoid: frozenset[HostId]) -> PlanningContext:
        """Lock the groups and read all that the plan depends on."""
        requests = [each.request for each in resolved]
        projects = {request.project_id for request in requests}
        groups = {request.group_id for request in requests if request.group_id is not None}
        versions, set_limits = tx.claims.lock_groups(groups, projects)
        default_limits = {**self.default_limits, **set_limits.get(None, {})}
        limits = {project: {**default_limits, **set_limits.get(project, {})} for project in projects}
        limited = [
            project
            for project, of_project in limits.items()
            if any(of_project[resource] != UNLIMITED for resource in COUNTED)
        ]
        keys = [request.key for request in requests if request.key is not None]
        answers = tx.keys.reserve(keys, requests[0].now) if keys else {}
        answered = [ServerId(server) for answer in answers.values() if answer is not None for server in answer[1]]
        return PlanningContext(
            groups=self._group_states(tx, versions) if versions else {},
            limits=limits,
            usage=tx.claims.usages(limited),
            answers=answers,
            answered={server.id: server for server in tx.servers.by_ids(answered)} if answered else {},
            avoid=avoid,
            max_members=self.max_group_members,
        )

    def _outdated(self, requests: Sequence[ResolvedRequest]) -> frozenset[ServerId]:
        """Return the first ids of the requests whose flavor or image changed since they were read."""
        return frozenset(resolved.request.first_id for resolved in requests if not self._is_current(resolved))

    def _is_current(self, resolved: ResolvedRequest) -> bool:
        if resolved.versions is None:
            return True
        request, (flavor_version, image_version) = resolved.request, resolved.versions
        if not self.live.flavors.is_current(request.flavor_ref, flavor_version):
            return False
        return request.image_ref is None or self.live.images.is_current(request.image_ref, image_version)

    def _group_states(self, tx: Transaction, versions: Mapping[GroupId, int]) -> dict[GroupId, GroupState]:
        """Return the states of locked groups, from the cache where the cached version is the stored one."""
        cached = {group: self.live.cached_group(group, version) for group, version in versions.items()}
        known = {group: state for group, state in cached.items() if state is not None}
        unknown = {g: v for g, v in versions.items() if g not in known}
        return known | tx.groups.states(unknown) if unknown else known

    def _undo(
        self, snapshot: FleetSnapshot, fleet_version: FleetVersion, abandoned: Plan, error: BaseException
    ) -> None:
        """Return the room of a plan that was rolled back. Drop the fleet if the outcome of the commit is unknown."""
        if isinstance(error, CoveyError) and not isinstance(error, Unavailable):
            self.live.return_room(snapshot, abandoned)
        else:
            self.live.drop(snapshot)
        if isinstance(error, StaleClaim):
            self.live.refused(fleet_version, error.hosts)


def _with_held(tx: Transaction, requests: Sequence[ResolvedRequest], context: PlanningContext) -> PlanningContext:
    """Add what projects hold of resource classes that the requests claim, where a limit applies."""
    names: dict[ProjectId, set[str]] = {}
    for resolved in requests:
        project = resolved.request.project_id
        limits = context.limits[project]
        for name in quota_sizes(resolved.flavor):
            if name not in COUNTED and limits.get(name, UNLIMITED) != UNLIMITED:
                names.setdefault(project, set()).add(name)
    if not names:
        return context
    held = {project: {**context.usage.get(project, {}), **of} for project, of in tx.quotas.held(names).items()}
    return replace(context, usage={**context.usage, **held})
