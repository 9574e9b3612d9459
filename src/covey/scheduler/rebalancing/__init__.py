"""Rebalancing: the fewest moves that repair a group's policies, in an order in which each move is allowed."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from covey.model.extras import requires
from covey.model.groups import GroupPolicy
from covey.model.ids import HostId
from covey.scheduler.fleet import Fleet
from covey.scheduler.rebalancing.assignments import name_hosts
from covey.scheduler.rebalancing.host_classes import classify_hosts
from covey.scheduler.rebalancing.order import MovePlan, may_continue, order_moves, unserved
from covey.scheduler.rebalancing.problem import Member, Move, Problem, build_problem
from covey.scheduler.violations import Violation, violations

_MAX_REPEATS = 8

__all__ = ["Member", "Move", "Plan", "hosts_after", "is_still_valid", "plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Moves in an order in which each is allowed, and the violations before and after them.

    An optimal plan repairs as much as possible, and no plan repairs as much by fewer moves: `bound` is their number.
    Otherwise it is the best plan found, and `bound` a lower bound for the number of moves.
    """

    moves: tuple[Move, ...]
    bound: int
    optimal: bool
    before: tuple[Violation, ...]
    after: tuple[Violation, ...]
    blocked: tuple[Move, ...] = ()  # would repair more, but no order of them is allowed


def plan(
    policies: Sequence[GroupPolicy],
    members: Sequence[Member],
    fleet: Fleet,
    seed: int,
    *,
    timeout_s: float,
    exempt: Collection[HostId] = frozenset(),
) -> Plan:
    """Return the moves after which the penalty is smallest: of the hard policies first, then of the soft ones.

    The fleet's use does not change. Members on an exempt host, which do not move, count for no policy that spreads
    a group over hosts, and no such policy sends members there.
    Equal inputs give equal plans, unless the timeout ends the search.
    """
    before = tuple(violations(policies, hosts_after(members), fleet, exempt))
    problem = build_problem(policies, members, fleet.copy(), exempt)
    if not before or not problem.move_groups:
        return Plan((), 0, optimal=True, before=before, after=before)
    found = _search(problem, seed, timeout_s)
    if found is None:
        return Plan((), 0, optimal=False, before=before, after=before)
    best, bound, proved = found
    after = tuple(violations(policies, hosts_after(members, best.moves), fleet, exempt))
    optimal = proved and not best.blocked
    return Plan(best.moves, bound if optimal else min(bound, len(best.moves)), optimal, before, after, best.blocked)


def is_still_valid(
    policies: Sequence[GroupPolicy],
    members: Sequence[Member],
    fleet: Fleet,
    moves: Sequence[Move],
    exempt: Collection[HostId] = frozenset(),
) -> bool:
    """Return whether the first of the planned moves is allowed now, and all of them together still reduce a penalty."""
    return may_continue(build_problem(policies, members, fleet.copy(), exempt), moves)


def hosts_after(members: Iterable[Member], moves: Iterable[Move] = ()) -> Mapping[str, HostId]:
    """Return the host of each member after some moves."""
    return {member.id: member.host for member in members} | {move.member: move.destination for move in moves}


def _search(problem: Problem, seed: int, timeout_s: float) -> tuple[MovePlan, int, bool] | None:
    """Return the best plan found, a lower bound for its number of moves, and whether it is proved to be optimal.

    Host classes that take less than their sum of room promised are split into single hosts, and the search repeats. So
    it does, a few times, for provider trees that take fewer members than their providers have room for in sum.
    """
    with requires("solver", "Rebalancing"):
        from covey.scheduler.rebalancing.solve import solve  # noqa: PLC0415 -- optional, and slow to import

    single, caps = set[int](), dict[tuple[int, int], int]()
    repeats = _MAX_REPEATS
    best: tuple[MovePlan, int, bool] | None = None
    while timeout_s > 0:
        host_classes = classify_hosts(problem, single, caps)
        solution = solve(problem, host_classes, seed, timeout_s)
        if solution is None:
            break
        assignment, doubtful = name_hosts(problem, host_classes, solution, seed)
        move_plan = order_moves(problem, assignment)
        if best is None or move_plan.objective <= best[0].objective:
            best = move_plan, solution.bound, solution.proved and not doubtful and not caps
        short = unserved(problem, move_plan) if repeats else {}
        if not doubtful and not short:
            break
        single |= doubtful
        caps |= short
        repeats -= bool(short)
        timeout_s -= solution.spent_s
    return best
