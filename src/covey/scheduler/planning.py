"""Planning: from requests for servers to the rows to write. The same inputs give the same plan."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from covey.model.claims import Allocations, Answer, IdempotencyKey, NewServer, Plan, ResolvedRequest, ServerRequest
from covey.model.errors import Conflict, CoveyError, Invalid, OutdatedRequest, OverQuota
from covey.model.groups import NO_GROUP, GroupState
from covey.model.ids import GroupId, HostId, ProjectId, ServerId
from covey.model.quotas import UNLIMITED
from covey.model.resources import Resources, quota_sizes
from covey.model.servers import (
    Details,
    Fault,
    HostRequirements,
    PlacementRecord,
    Power,
    Server,
    Task,
    VmState,
)
from covey.scheduler.decide import Decision, decide
from covey.scheduler.explain import NoHost
from covey.scheduler.fleet import Fleet
from covey.scheduler.request_spec import RequestSpec

NOTHING: Allocations = {}
NO_FAULTS: Mapping[ServerId, Fault] = {}
NO_USAGE: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class PlanningContext:
    """What a transaction reads before it plans."""

    groups: Mapping[GroupId, GroupState] = field(default_factory=dict)  # locked
    limits: Mapping[ProjectId, Mapping[str, int]] = field(default_factory=dict)
    usage: Mapping[ProjectId, Mapping[str, int]] = field(default_factory=dict)  # by quota, where a limit may apply
    answers: Mapping[IdempotencyKey, Answer | None] = field(default_factory=dict)  # None where the key is new
    answered: Mapping[str, Server] = field(default_factory=dict)  # servers that stored answers name, by id
    avoid: frozenset[HostId] = frozenset()  # hosts that proved full when an earlier attempt claimed room there
    max_members: int = UNLIMITED  # of a group, of all users together
    outdated: frozenset[ServerId] = frozenset()  # requests, by first id, whose flavor or image changed since


def plan(
    requests: Sequence[ResolvedRequest],
    context: PlanningContext,
    fleet: Fleet,
    *,
    subset: int = 1,
    all_or_nothing: bool = False,
    faults: Mapping[ServerId, Fault] = NO_FAULTS,
) -> Plan:
    """Decide each request after the ones before it. The fleet is unchanged; take_room takes what the plan needs.

    A request that fails has an error as its outcome; it is NoHost if no host admits its servers. With all_or_nothing
    the first error is raised instead. A request with a fault, by the id of its first server, is not decided: its
    servers are in ERROR.
    """
    planner = _Planner(context, fleet, faults, subset, all_or_nothing)
    try:
        for resolved in requests:
            planner.add(resolved)
    finally:
        return_room(fleet, planner.plan)  # taken so that each request saw the servers of those before it
    return planner.finish()


def take_room(fleet: Fleet, planned: Plan) -> None:
    """Take the room of a plan from the fleet."""
    fleet.take_all(_uses(planned))


def return_room(fleet: Fleet, abandoned: Plan) -> None:
    """Return to the fleet the room of a plan."""
    fleet.return_all(_uses(abandoned))


def _uses(planned: Plan) -> Iterator[tuple[int, Resources]]:
    return ((provider, amounts) for providers, amounts in planned.taken for provider in providers)


def reject_unknown_zone(requirements: HostRequirements, fleet: Fleet) -> None:
    """Raise Invalid for an availability zone without hosts."""
    if requirements.zone is not None and requirements.zone not in fleet.zones:
        raise Invalid("The requested availability zone is not available")


def reject_much_metadata(items: int, limits: Mapping[str, int]) -> None:
    """Raise OverQuota, in Nova's words, for more items of metadata than a server may have."""
    if items > limits["metadata_items"] != UNLIMITED:
        raise OverQuota(f"Maximum number of metadata items exceeds {limits['metadata_items']}")


def reject_large_group(state: GroupState, joining: int, maximum: int) -> None:
    """Raise OverQuota if a group would have more members than any group may have."""
    members = state.members
    if maximum != UNLIMITED and members + joining > maximum:
        raise OverQuota(
            f"Quota exceeded, too many servers in group: it has {members} members, {joining} more would join, and the "
            f"limit is {maximum}."
        )


class _Planner:
    """A plan under construction, on top of what the transaction read."""

    def __init__(
        self,
        context: PlanningContext,
        fleet: Fleet,
        faults: Mapping[ServerId, Fault],
        subset: int,
        all_or_nothing: bool,  # noqa: FBT001 -- passed on from a keyword
    ) -> None:
        self._context = context
        self._fleet = fleet
        self._faults = faults
        self._subset = subset
        self._all_or_nothing = all_or_nothing
        self._usage = {project: dict(used) for project, used in context.usage.items()}
        self.plan = Plan(groups=dict(context.groups))

    def add(self, resolved: ResolvedRequest) -> None:
        try:
            outcome: list[Server] | CoveyError = self._outcome(resolved)
        except CoveyError as error:
            if self._all_or_nothing:
                raise
            outcome = error
        self.plan.outcomes.append(outcome)

    def finish(self) -> Plan:
        limits, before = self._context.limits, self._context.usage
        self.plan.limits = {
            project: {name: limits[project][name] for name, n in used.items() if n > before[project][name]}
            for project, used in self._usage.items()
        }
        self.plan.unused_keys = [
            key for key, answer in self._context.answers.items() if answer is None and key not in self.plan.answers
        ]
        return self.plan

    def _outcome(self, resolved: ResolvedRequest) -> list[Server]:
        """Return the servers, with hosts or in error. Raises what is wrong with the request itself."""
        request, fleet = resolved.request, self._fleet
        answered = self._answered(request)
        if answered is not None:
            return answered
        if request.first_id in self._context.outdated:
            raise OutdatedRequest
        if request.first_id in self._faults:
            return self._failed(resolved, self._faults[request.first_id])
        reject_unknown_zone(resolved.requirements, fleet)
        state = self._group(request)
        spec = self._spec(resolved, state)
        decision = decide(spec, fleet, request.seed, self._subset)
        if not decision.chosen:
            raise NoHost(spec, fleet.copy(), decision.fitting, proved=decision.proved, known_reason=resolved.refusal)
        self._take(decision, spec.amounts)
        if request.group_id is not None and state is not None:
            self.plan.groups[request.group_id] = state.with_members(request.user_id, decision.chosen)
        record = PlacementRecord(seed=decision.seed, candidates=decision.candidates, hosts=fleet.host_rows.size)
        servers = self._servers(resolved, decision.chosen, record)
        return self._add(request, servers, decision.allocations(spec.amounts))

    def _take(self, decision: Decision, amounts: Resources) -> None:
        """Take the room of the chosen hosts, or of the providers that serve them, from the fleet."""
        taken: Sequence[tuple[Sequence[int], Resources]] = [(decision.chosen, amounts)]
        if decision.provider_allocations is not None:
            taken = [
                ((provider,), each) for taken_by in decision.provider_allocations for provider, each in taken_by.items()
            ]
        for providers, each in taken:
            self._fleet.take_for(providers, each)
        self.plan.taken += taken

    def _answered(self, request: ServerRequest) -> list[Server] | None:
        """Return the servers of an earlier request with the same key. Raises Conflict if that request differs."""
        if request.key is None:
            return None
        answer = self.plan.answers.get(request.key) or self._context.answers[request.key]
        if answer is None:
            return None
        fingerprint, ids = answer
        if fingerprint != request.fingerprint:
            raise Conflict(f"The idempotency key {request.key[1]} was used for another request.")
        planned: dict[str, Server] = {server.id: server for server in self.plan.servers}
        known = {**self._context.answered, **planned}
        return [known[server] for server in ids if server in known]

    def _group(self, request: ServerRequest) -> GroupState | None:
        if request.group_id is None:
            return None
        state = self.plan.groups.get(request.group_id)
        if state is None or state.project_id != request.project_id:
            raise Invalid(f"Instance group {request.group_id} could not be found.")
        return state

    def _spec(self, resolved: ResolvedRequest, state: GroupState | None) -> RequestSpec:
        """Return what the scheduler is asked. Raises OverQuota."""
        requirements, forced = resolved.requirements, resolved.placement.forced
        if self._context.avoid and not forced:
            requirements = replace(requirements, ignored_hosts=requirements.ignored_hosts | self._context.avoid)
        requested = resolved.resources
        return RequestSpec(
            requested.amounts,
            count=self._within_quota(resolved, state),
            minimum=resolved.request.minimum,
            requirements=requirements,
            group=NO_GROUP if state is None else state.view(),
            forced=forced,
            granular=requested.groups,
            isolate=requested.isolate,
        )

    def _within_quota(self, resolved: ResolvedRequest, state: GroupState | None) -> int:
        """Return how many servers the quota allows, up to the count and down to the minimum. Raises OverQuota."""
        request = resolved.request
        limits = self._context.limits[request.project_id]
        for _, metadata in request.names_and_metadata or (("", request.details.metadata),):
            reject_much_metadata(len(metadata), limits)
        members = limits["server_group_members"]
        if state is not None and members != UNLIMITED and state.users.get(request.user_id, 0) + request.count > members:
            raise OverQuota("Quota exceeded, too many servers in group")
        if state is not None:
            reject_large_group(state, request.count, self._context.max_members)
        count, sizes = request.count, quota_sizes(resolved.flavor)
        for resource, used in self._usage.get(request.project_id, NO_USAGE).items():
            limit, size = limits[resource], sizes.get(resource, 0)
            if limit == UNLIMITED or not size:
                continue
            fits = (limit - used) // size
            if fits < request.minimum:
                raise OverQuota(
                    f"Quota exceeded for {resource}: Requested {size * request.minimum}, "
                    f"but already used {used} of {limit} {resource}"
                )
            count = min(count, fits)
        return count

    def _failed(self, resolved: ResolvedRequest, fault: Fault) -> list[Server]:
        """Return servers in ERROR that hold no room and join no group. Raises OverQuota."""
        self._within_quota(resolved, None)
        request, nowhere = resolved.request, [None] * resolved.request.minimum
        return self._add(request, self._servers(resolved, nowhere, PlacementRecord(request.seed), fault))

    def _servers(
        self,
        resolved: ResolvedRequest,
        hosts: Sequence[HostId | None],
        record: PlacementRecord,
        fault: Fault | None = None,
    ) -> list[Server]:
        request, servers = resolved.request, []
        for number, host_id in enumerate(hosts):
            host = None if host_id is None else self._fleet.hosts[self._fleet.row_of[host_id]]
            name, details = _name_and_details(request, number, len(hosts))
            server = Server(
                id=_server_id(request, number),
                name=name,
                project_id=request.project_id,
                user_id=request.user_id,
                flavor=resolved.flavor,
                vm_state=VmState.ERROR if host is None else VmState.BUILDING,
                task=None if host is None else Task.SPAWNING,
                power=Power.NONE,
                created_at=request.now,
                updated_at=request.now,
                host_id=host_id,
                host_name=None if host is None else host.name,
                zone=None if host is None else host.zone,
                group_id=None if host is None else request.group_id,
                request=resolved.placement,
                details=details,
                placement=record,
                fault=fault,
                tags=request.tags,
            )
            servers.append(server)
        return servers

    def _add(
        self, request: ServerRequest, servers: list[Server], allocations: Iterable[Allocations] = ()
    ) -> list[Server]:
        held = allocations or [NOTHING] * len(servers)
        new = [
            NewServer(server, request.request_id, each, request.boot)
            for server, each in zip(servers, held, strict=True)
        ]
        if servers[0].host_id is None:
            self.plan.failed += new
        else:
            self.plan.placed += new
        if request.key is not None:
            self.plan.answers[request.key] = request.fingerprint, [server.id for server in servers]
        used, sizes = self._usage.get(request.project_id, {}), quota_sizes(servers[0].flavor)
        for resource in used:
            used[resource] += sizes.get(resource, 0) * len(servers)
        return servers


def _server_id(request: ServerRequest, number: int) -> ServerId:
    return request.first_id if number == 0 else ServerId(str(UUID(int=UUID(request.first_id).int + number)))


def _name_and_details(request: ServerRequest, number: int, total: int) -> tuple[str, Details]:
    details = replace(request.details, launch_index=number) if number else request.details
    if request.names_and_metadata:
        name, metadata = request.names_and_metadata[number]
        return name, replace(details, metadata=metadata)
    return request.name if total == 1 else f"{request.name}-{number + 1}", details
