"""Rebalance plans compared with brute force: the best final state, the fewest moves, each of them allowed."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from covey.model.groups import HOST, GroupPolicy, GroupView, PolicyKind
from covey.model.ids import HostId
from covey.model.resources import server_resources
from covey.scheduler.fleet import Fleet
from covey.scheduler.rebalancing import Member, Move, Plan, hosts_after, plan
from covey.scheduler.request_spec import HostRequirements, RequestSpec
from covey.scheduler.violations import violations
from tests.budgets import examples
from tests.plain_fleets import PlainAggregate, PlainHost, plain_amounts, plain_fleet
from tests.property import reference
from tests.property.test_scheduler_laws import SCOPES

law = settings(max_examples=examples(300), deadline=None, derandomize=True)

Destinations = Mapping[str, HostId]
Values = tuple[int, ...]


@dataclass(frozen=True)
class World:
    """A group and the fleet that it is placed in."""

    policies: tuple[GroupPolicy, ...]
    members: tuple[Member, ...]
    hosts: tuple[PlainHost, ...]
    aggregates: tuple[PlainAggregate, ...]

    def fleet(self) -> Fleet:
        return plain_fleet(self.hosts, self.aggregates)

    def plan(self, seed: int = 1) -> Plan:
        return plan(self.policies, self.members, self.fleet(), seed, timeout_s=60)

    # The rules of the design, as plain loops.

    def values(self, places: Destinations) -> Values:
        """Return the penalty of each policy."""
        return tuple(self._value(policy, places) for policy in self.policies)

    def rank(self, values: Values) -> Values:
        pairs = list(zip(self.policies, values, strict=True))
        return sum(v for p, v in pairs if not p.kind.is_soft), *(v for p, v in pairs if p.kind.is_soft)

    def _value(self, policy: GroupPolicy, places: Destinations) -> int:
        names = (
            [h.name for h in self.hosts]
            if policy.scope == HOST
            else [str(a.id) for a in self.aggregates if a.scope == policy.scope.id]
        )
        where = {h.id: reference.domains_of(h, policy.scope, self.aggregates) for h in self.hosts}
        unambiguous = [where[host][0] for host in places.values() if len(where[host]) == 1]
        count = Counter(unambiguous)
        in_no_domain = len(places) - len(unambiguous)
        if policy.kind in reference.TOGETHER:
            most = max(count.values(), default=0)
            return len(places) - (most if policy.target is None else count[policy.target])
        if policy.target is not None:
            in_two = sum(len(where[host]) > 1 for host in places.values()) if policy.target in names else 0
            return count[policy.target] + in_two
        count = Counter(domain for host in places.values() for domain in where[host])
        if policy.kind is PolicyKind.ANTI_AFFINITY:
            return in_no_domain + sum(max(0, number - policy.limit) for number in count.values())
        usable = {where[h.id][0] for h in self.hosts if h.enabled and h.up and len(where[h.id]) == 1}
        most = max((count[name] for name in names), default=0)
        return in_no_domain + max(0, most - min((count[name] for name in usable), default=most) - 1)

    def allows(self, places: Destinations, move: Move, bounds: Values) -> bool:
        """Return whether a move is allowed: its destination is feasible and no hard policy gets worse.

        A soft policy may get worse up to its bound, or when the rank of all policies improves.
        """
        member = next(m for m in self.members if m.id == move.member)
        if not member.movable or places[member.id] != move.source or move.source == move.destination:
            return False
        others: Counter[int] = Counter(host for name, host in places.items() if name != member.id)
        spec = RequestSpec(
            member.amounts,
            requirements=member.requirements,
            group=GroupView(self.policies, others, source_host=move.source),
        )
        if move.destination not in reference.feasible(spec, self._used(places), self.aggregates):
            return False
        before, after = self.values(places), self.values({**places, member.id: move.destination})
        better = self.rank(after) < self.rank(before)
        return all(
            new <= old or (policy.kind.is_soft and (better or new <= bound))
            for policy, old, new, bound in zip(self.policies, before, after, bounds, strict=True)
        )

    def _used(self, places: Destinations) -> list[PlainHost]:
        """Return the hosts with the usage of the members at these places."""
        used = {h.id: list(h.used) for h in self.hosts}
        for member in self.members:
            for host, sign in ((member.host, -1), (places[member.id], 1)):
                for i, amount in enumerate(plain_amounts(member.amounts)):
                    used[host][i] += sign * amount
        return [replace(h, used=(used[h.id][0], used[h.id][1], used[h.id][2])) for h in self.hosts]

    def best(self) -> tuple[Values, int]:
        """Return the rank and the moves of the best final state that is reachable with one move per member."""
        start, ids = hosts_after(self.members), [member.id for member in self.members]
        ends = (dict(zip(ids, hosts, strict=True)) for hosts in product([h.id for h in self.hosts], repeat=len(ids)))
        ranked = sorted(
            (self.rank(self.values(end)), sum(end[i] != start[i] for i in ids), n, end) for n, end in enumerate(ends)
        )
        return next((rank, moves) for rank, moves, _, end in ranked if self._can_reach(start, end))

    def _can_reach(self, start: Destinations, end: Destinations) -> bool:
        bounds = tuple(map(max, self.values(start), self.values(end)))
        if any(
            e > s and not p.kind.is_soft
            for p, s, e in zip(self.policies, self.values(start), self.values(end), strict=True)
        ):
            return False
        seen: set[frozenset[str]] = set()

        def walk(done: frozenset[str]) -> bool:
            places = {name: end[name] if name in done else start[name] for name in start}
            if places == end:
                return True
            seen.add(done)
            return any(
                walk(done | {name})
                for name in start
                if start[name] != end[name] and name not in done and done | {name} not in seen
                if self.allows(places, Move(name, start[name], end[name]), bounds)
            )

        return walk(frozenset())


@st.composite
def worlds(draw: st.DrawFn) -> World:
    size = draw(st.integers(2, 4))
    room = st.sampled_from([1, 2, 3, 9])
    few = st.sets(st.integers(1, 4), max_size=1)
    off, down = draw(few), draw(few)
    number = draw(st.integers(1, 4))
    on_hosts = draw(st.lists(st.integers(1, size), min_size=number, max_size=number))
    sizes = draw(st.lists(st.sampled_from([1, 1, 1, 2]), min_size=number, max_size=number))
    stuck = draw(st.sets(st.integers(0, 3), max_size=1))
    restricted = draw(st.sets(st.integers(0, 3), max_size=1))
    excluded = frozenset({HostId(draw(st.integers(1, size)))})
    members = tuple(
        Member(
            f"m{i}",
            HostId(host),
            server_resources(amount, 1, 0),
            HostRequirements(ignored_hosts=excluded if i in restricted else frozenset()),
            i not in stuck,
        )
        for i, (host, amount) in enumerate(zip(on_hosts, sizes, strict=True))
    )
    taken = Counter[int]()
    for member in members:
        taken[member.host] += member.amounts["VCPU"]
    lack = draw(st.sampled_from([0, 0, 0, 1]))  # the operator reduced the capacity below the usage
    hosts = tuple(
        PlainHost(
            HostId(n),
            f"n{n}",
            (max(taken[n] + draw(room) - 1 - lack, 0), 99, 99),
            (taken[n], on_hosts.count(n), 0),
            n not in off,
            n not in down,
        )
        for n in range(1, size + 1)
    )
    aggregates = []
    for scope in SCOPES[:2]:
        domains_of = [draw(st.sampled_from([(0,), (1,), (0,), (1,), (), (0, 1)])) for _ in hosts]
        for domain in range(2):
            inside = frozenset(host.id for host, d in zip(hosts, domains_of, strict=True) if domain in d)
            key = 10 * (SCOPES.index(scope) + 1) + domain
            aggregates.append(PlainAggregate(key, f"uuid-{key}", inside, scope.id))
    policies = []
    for _ in range(draw(st.integers(1, 3))):
        scope = draw(st.sampled_from([HOST, *SCOPES[:2]]))
        names = [h.name for h in hosts] if scope == HOST else [str(a.id) for a in aggregates if a.scope == scope.id]
        target = draw(st.sampled_from([None, None, None, *names]))
        policies.append(GroupPolicy(draw(st.sampled_from(PolicyKind)), scope, target, draw(st.integers(1, 2))))
    return World(tuple(policies), members, hosts, tuple(aggregates))


def steps(world: World, rebalance: Plan) -> Iterator[tuple[Destinations, Move]]:
    places = dict(hosts_after(world.members))
    for move in rebalance.moves:
        yield dict(places), move
        places[move.member] = move.destination


@law
@given(worlds())
def test_plan_reaches_the_best_final_state_with_the_fewest_moves(world: World) -> None:
    rebalance = world.plan()
    after = world.values(hosts_after(world.members, rebalance.moves))
    best, moves = world.best()
    if rebalance.blocked:
        assert (world.rank(after), len(rebalance.moves)) >= (best, moves)
    else:
        assert (world.rank(after), len(rebalance.moves)) == (best, moves)
        assert rebalance.optimal
        assert rebalance.bound == moves


@law
@given(worlds())
def test_every_move_is_allowed_and_each_member_moves_once(world: World) -> None:
    rebalance = world.plan()
    end = world.values(hosts_after(world.members, (*rebalance.moves, *rebalance.blocked)))
    bounds = tuple(map(max, world.values(hosts_after(world.members)), end))
    assert all(world.allows(places, move, bounds) for places, move in steps(world, rebalance))
    moved = [move.member for move in rebalance.moves]
    assert len(moved) == len(set(moved))


@law
@given(worlds())
def test_plan_reports_the_same_violations_as_the_audit(world: World) -> None:
    rebalance = world.plan()
    for places, reported in (
        (hosts_after(world.members), rebalance.before),
        (hosts_after(world.members, rebalance.moves), rebalance.after),
    ):
        assert list(reported) == violations(world.policies, places, world.fleet())
        broken = {str(policy) for policy, value in zip(world.policies, world.values(places), strict=True) if value}
        assert {str(violation.policy) for violation in reported} == broken


@law
@given(worlds(), st.integers(0, 2**32))
def test_equal_inputs_give_equal_plans(world: World, seed: int) -> None:
    assert world.plan(seed) == world.plan(seed)
