"""Drain plans checked by plain loops: no move breaks a hard policy that held, and no server stays without need."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from covey.model.groups import HOST, GroupPolicy, GroupState, GroupView, PolicyKind
from covey.model.ids import GroupId, HostId, ProjectId
from covey.model.resources import server_resources
from covey.scheduler.drain_planning import BlockedServer, DrainCandidate, PlannedMove, plan_drain
from covey.scheduler.rebalancing import Member, hosts_after
from covey.scheduler.request_spec import HostRequirements, RequestSpec
from tests.budgets import examples
from tests.plain_fleets import PlainAggregate, PlainHost
from tests.property import reference
from tests.property.test_rebalance_laws import Destinations, World, worlds
from tests.property.test_scheduler_laws import SCOPES

law = settings(max_examples=examples(300), deadline=None, derandomize=True)

GROUP = GroupId("g")


@dataclass(frozen=True)
class Drained:
    """A group, the fleet that it is placed in, and the hosts that are drained."""

    world: World
    hosts: frozenset[HostId]

    def plan(self, *, at_once: bool = False) -> list[PlannedMove | BlockedServer]:
        places = Counter[int](hosts_after(self.world.members).values())
        state = GroupState(1, ProjectId("web"), self.world.policies, places, {})
        fleet = self.world.fleet()
        free = fleet.free.copy()
        found = list(plan_drain(self.leavers(), {GROUP: state}, fleet, self.hosts, 1, at_once=at_once))
        assert (fleet.free == free).all()
        assert state.members_by_host == places
        return found

    def leavers(self) -> list[DrainCandidate]:
        return [_leaver(member) for member in self.world.members if member.host in self.hosts]

    @property
    def go_together(self) -> bool:
        return any(_gathers(policy) for policy in self.world.policies)

    def steps(self, plan: list[PlannedMove | BlockedServer]) -> Iterator[tuple[Destinations, PlannedMove]]:
        """Yield each move with the places before it."""
        places = dict(hosts_after(self.world.members))
        for outcome in plan:
            if isinstance(outcome, PlannedMove):
                yield dict(places), outcome
                places[outcome.server.id] = outcome.destination

    def end(self, plan: list[PlannedMove | BlockedServer]) -> Destinations:
        moves = {str(each.server.id): each.destination for each in plan if isinstance(each, PlannedMove)}
        return {**hosts_after(self.world.members), **moves}

    def broken(self, places: Destinations) -> set[GroupPolicy]:
        """Return the hard policies that do not hold."""
        values = zip(self.world.policies, self.world.values(places), strict=True)
        return {policy for policy, value in values if value and not policy.kind.is_soft}

    def feasible(self, places: Destinations, server: Member) -> set[HostId]:
        """Return the hosts that admit the server when all members are at these places."""
        member = next(each for each in self.world.members if each.id == server.id)
        others = Counter[int](host for name, host in places.items() if name != member.id)
        group = GroupView(self.world.policies, others, source_host=member.host)
        spec = RequestSpec(member.amounts, requirements=member.requirements, group=group)
        return reference.feasible(spec, self._hosts(places), self.world.aggregates)

    def _hosts(self, places: Destinations) -> list[PlainHost]:
        used = self.world._used(places)
        return [replace(host, enabled=False) if host.id in self.hosts else host for host in used]


@st.composite
def drains(draw: st.DrawFn) -> Drained:
    world = draw(worlds())
    size = len(world.hosts)
    return Drained(world, frozenset(map(HostId, draw(st.sets(st.integers(1, size), min_size=1, max_size=2)))))


@st.composite
def gathered(draw: st.DrawFn) -> Drained:
    """Draw a group under affinity whose members are together, on hosts of which some are drained."""
    racks = draw(st.sampled_from([{1: (1,), 2: (2, 3), 3: (4, 5)}, {1: (1, 2), 2: (3, 4), 3: (5,)}]))
    scope = draw(st.sampled_from([HOST, SCOPES[0]]))
    inside = racks[1] if scope != HOST else (1,)
    number = draw(st.integers(2, 4))
    on_hosts = draw(st.lists(st.sampled_from(inside), min_size=number, max_size=number))
    sizes = draw(st.lists(st.sampled_from([1, 1, 1, 2]), min_size=number, max_size=number))
    stuck = draw(st.sets(st.integers(0, 5), max_size=1))
    members = tuple(
        Member(f"m{i}", HostId(host), server_resources(size, 1, 0), HostRequirements(), i not in stuck)
        for i, (host, size) in enumerate(zip(on_hosts, sizes, strict=True))
    )
    taken = Counter[int]()
    for member in members:
        taken[member.host] += member.amounts["VCPU"]
    room = st.sampled_from([0, 1, 2, 3, 9])
    hosts = tuple(
        PlainHost(HostId(n), f"n{n}", (taken[n] + draw(room), 99, 99), (taken[n], on_hosts.count(n), 0))
        for n in range(1, 6)
    )
    aggregates = tuple(
        PlainAggregate(10 + n, f"uuid-{n}", frozenset(map(HostId, inside)), SCOPES[0].id) for n, inside in racks.items()
    )
    others = draw(st.sampled_from([(), (GroupPolicy(PolicyKind.ANTI_AFFINITY, HOST, None, 2),)]))
    world = World(
        (GroupPolicy(PolicyKind.AFFINITY, scope), *(others if scope != HOST else ())), members, hosts, aggregates
    )
    return Drained(world, frozenset(map(HostId, draw(st.sets(st.sampled_from(inside), min_size=1)))))


def _leaver(member: Member) -> DrainCandidate:
    return DrainCandidate(member, GROUP, obstacle=None if member.movable else "It is locked.")


def _gathers(policy: GroupPolicy) -> bool:
    return policy.kind is PolicyKind.AFFINITY and policy.target is None


@law
@given(st.one_of(drains(), gathered()), st.booleans())
def test_no_move_breaks_a_hard_policy_that_held(drain: Drained, at_once: bool) -> None:
    """Affinity is broken on the way only: at the end its members are together."""
    plan = drain.plan(at_once=at_once)
    before = drain.broken(hosts_after(drain.world.members))
    for places, _ in drain.steps(plan):
        assert {policy for policy in drain.broken(places) if not _gathers(policy)} <= before
    assert drain.broken(drain.end(plan)) <= before


@law
@given(st.one_of(drains(), gathered()))
def test_each_server_moves_once_or_stays_with_a_reason(drain: Drained) -> None:
    plan = drain.plan()
    leavers = {leaver.server.id: leaver for leaver in drain.leavers()}
    assert sorted(outcome.server.id for outcome in plan) == sorted(leavers)
    for outcome in plan:
        obstacle = leavers[outcome.server.id].obstacle
        if isinstance(outcome, BlockedServer):
            assert outcome.reason == obstacle or obstacle is None
        else:
            assert obstacle is None
            assert outcome.destination not in drain.hosts


@law
@given(drains())
def test_server_goes_exactly_where_the_reference_finds_a_host(drain: Drained) -> None:
    """Without affinity: the reference decides each server after the moves before it."""
    if drain.go_together:
        return
    places = dict(hosts_after(drain.world.members))
    for outcome in drain.plan():
        found = drain.feasible(places, outcome.server)
        if isinstance(outcome, PlannedMove):
            assert outcome.destination in found
            places[outcome.server.id] = outcome.destination
        else:
            assert not found or not next(m for m in drain.world.members if m.id == outcome.server.id).movable


@law
@given(gathered())
def test_group_stays_whole_only_if_no_other_domain_has_room_for_all(drain: Drained) -> None:
    """For equal servers, none of which is locked, of a group that has to leave its domain."""
    members, (policy, *others) = drain.world.members, drain.world.policies
    if others or any(not each.movable or each.host not in drain.hosts for each in members):
        return
    if len({each.amounts["VCPU"] for each in members}) > 1:
        return
    size, room = members[0].amounts["VCPU"], Counter[str]()
    for host in drain.world.hosts:
        if host.id not in drain.hosts:
            (domain,) = reference.domains_of(host, policy.scope, drain.world.aggregates)
            room[domain] += (host.capacity[0] - host.used[0]) // size
    went = sum(isinstance(outcome, PlannedMove) for outcome in drain.plan())
    assert (went == len(members)) == (max(room.values()) >= len(members))


@law
@given(st.one_of(drains(), gathered()))
def test_room_is_never_exceeded(drain: Drained) -> None:
    for places, move in drain.steps(drain.plan()):
        (host,) = (
            each
            for each in drain.world._used({**places, move.server.id: move.destination})
            if each.id == move.destination
        )
        assert all(used <= capacity for used, capacity in zip(host.used, host.capacity, strict=True))
