"""Plans the moves off drained or failed hosts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from covey.model.claims import Allocations
from covey.model.groups import GroupState, GroupView
from covey.model.ids import GroupId, HostId
from covey.scheduler.decide import decide
from covey.scheduler.explain import explain
from covey.scheduler.fleet import Fleet
from covey.scheduler.followers import Follower, decide_with_followers, gathering_policies
from covey.scheduler.rebalancing.problem import Member
from covey.scheduler.request_spec import RequestSpec


@dataclass(frozen=True, slots=True)
class DrainCandidate:
    """A server on a host that is drained."""

    server: Member
    group: GroupId | None = None
    destination: HostId | None = None  # of a move in progress
    obstacle: str | None = None  # why it cannot move to any host now
    waits: bool = False  # the obstacle ends without an operator: a task in progress

    @property
    def size(self) -> tuple[int, int, int]:
        """What orders the servers of a plan: large ones are harder to place, and go first."""
        total = self.request(GroupView()).total
        return total.get("MEMORY_MB", 0), total.get("VCPU", 0), total.get("DISK_GB", 0)

    def request(self, view: GroupView) -> RequestSpec:
        """Return what it asks of a host, as a member of a group."""
        server = self.server
        return RequestSpec(
            server.amounts,
            requirements=server.requirements,
            group=view,
            granular=server.granular,
            isolate=server.isolate,
        )


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """A server with its new host. Group members on the `leaving` hosts do not count for affinity."""

    server: Member
    destination: HostId
    leaving: frozenset[HostId]


@dataclass(frozen=True, slots=True)
class BlockedServer:
    """A server that cannot be moved, and why."""

    server: Member
    reason: str


def without(view: GroupView, host: HostId | None, destination: HostId | None) -> GroupView:
    """Return a group without the member on a host, which may move to a destination: it never counts against itself."""
    members_by_host = dict(view.members_by_host)
    for place in (host, destination):
        if place is not None and place in members_by_host:
            members_by_host[place] -= 1
            if not members_by_host[place]:
                del members_by_host[place]
    migrating = list(view.migrating)
    if host is not None and destination is not None:
        migrating.remove((host, destination))
    return replace(view, members_by_host=members_by_host, migrating=tuple(migrating), source_host=host)


def plan_drain(
    candidates: Sequence[DrainCandidate],
    groups: Mapping[GroupId, GroupState],
    fleet: Fleet,
    hosts: frozenset[HostId],
    seed: int,
    *,
    at_once: bool = False,
) -> Iterator[PlannedMove | BlockedServer]:
    """Yield the move of each server on the hosts, or why it is blocked. The fleet and the groups do not change.

    Each server moves once, so no other plan empties the hosts with fewer moves. Members of a group are decided one
    after the other, large servers first. The order is greedy: another one may fit a server that this one leaves.

    A move is decided as if those before it have ended, or with `at_once` as if they are still in progress: then the
    first ones of the plan can begin together.
    """
    plan = _DrainPlan(dict(groups), fleet.with_disabled(hosts), hosts, seed, at_once)
    for unit in _units(candidates):
        yield from plan.decide(unit)


def leaving_hosts(
    candidates: Sequence[DrainCandidate], group: GroupId | None, hosts: frozenset[HostId]
) -> frozenset[HostId]:
    """Return the hosts that all members of the group leave: the members there do not count for affinity."""
    return hosts - {each.server.host for each in candidates if each.obstacle is not None and each.group == group}


def _units(candidates: Sequence[DrainCandidate]) -> list[list[DrainCandidate]]:
    """Return the members of each group, and each other server alone; the units with the largest servers first."""
    units: dict[str, list[DrainCandidate]] = {}
    for candidate in sorted(candidates, key=lambda each: (each.size, each.server.id), reverse=True):
        units.setdefault(candidate.group or candidate.server.id, []).append(candidate)
    return list(units.values())


@dataclass(slots=True)
class _DrainPlan:
    """A plan under construction: the fleet and the groups as they are after the moves so far."""

    groups: dict[GroupId, GroupState]
    fleet: Fleet
    hosts: frozenset[HostId]
    seed: int
    at_once: bool

    def decide(self, unit: Sequence[DrainCandidate]) -> Iterator[PlannedMove | BlockedServer]:
        yield from (BlockedServer(each.server, each.obstacle) for each in unit if each.obstacle is not None)
        movable = [each for each in unit if each.obstacle is None]
        if movable and self._stays_together(movable[0].group):
            yield from self._decide_together(movable, leaving_hosts(unit, movable[0].group, self.hosts))
        else:
            yield from (self._decide(each, frozenset())[0] for each in movable)

    def _stays_together(self, group: GroupId | None) -> bool:
        """Return whether a hard policy gathers the group in a domain that its members choose."""
        return group in self.groups and bool(gathering_policies(self.groups[group].policies))

    def _decide_together(
        self, unit: Sequence[DrainCandidate], leaving: frozenset[HostId]
    ) -> Iterator[PlannedMove | BlockedServer]:
        """Move all to another domain, or, if not all of them fit there, those that fit in the group's present one."""
        before = dict(self.groups)
        outcomes = [self._decide(each, leaving, unit[number + 1 :]) for number, each in enumerate(unit)]
        refused = [outcome for outcome, _ in outcomes if isinstance(outcome, BlockedServer)]
        if not refused:
            yield from (outcome for outcome, _ in outcomes)
            return
        self.groups = before
        for _, taken in outcomes:
            self.fleet.return_all(taken.items())
        fit = f"{len(unit) - len(refused)} of {len(unit)}"
        reason = f"Its group stays together, and {fit} members fit elsewhere. {refused[0].reason}"
        for each in unit:
            outcome, _ = self._decide(each, frozenset())
            yield outcome if isinstance(outcome, PlannedMove) else BlockedServer(outcome.server, reason)

    def _decide(
        self, candidate: DrainCandidate, leaving: frozenset[HostId], followers: Sequence[DrainCandidate] = ()
    ) -> tuple[PlannedMove | BlockedServer, Allocations]:
        """Decide one server, which others follow, and take its room. Return what it takes as well."""
        server, group = candidate.server, candidate.group
        state = None if group is None else self.groups.get(group)
        view = GroupView() if state is None else without(state.view(), server.host, candidate.destination)
        spec = candidate.request(view)
        if leaving:
            others = [Follower(each.server.host, each.request(GroupView())) for each in followers]
            spec, decision = decide_with_followers(spec, leaving, others, self.fleet, self.seed)
        else:
            decision = decide(spec, self.fleet, self.seed)
        if not decision.chosen:
            explained = explain(spec, self.fleet, proved=decision.proved).sentence()
            return BlockedServer(server, f"No host admits it: {explained}."), {}
        taken = next(iter(decision.allocations(spec.amounts)))
        self.fleet.take_all(taken.items())
        destination = decision.chosen[0]
        if group is not None and state is not None:
            self.groups[group] = self._moved(state, server.host, destination)
        return PlannedMove(server, destination, leaving), taken

    def _moved(self, state: GroupState, host: HostId, destination: HostId) -> GroupState:
        members_by_host, migrating = dict(state.members_by_host), state.migrating
        members_by_host[destination] = members_by_host.get(destination, 0) + 1
        if self.at_once:
            migrating = (*migrating, (host, destination))
        else:
            members_by_host[host] -= 1
        return replace(state, members_by_host=members_by_host, migrating=migrating)
