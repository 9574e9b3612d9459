"""Rebalancing: the fewest moves that put a group right, in an order in which each of them may be made."""

from collections.abc import Iterable, Mapping, Sequence

from covey.model.extras import requires
from covey.model.groups import GroupPolicy
from covey.model.ids import HostId
from covey.scheduler.fleet import Fleet
from covey.scheduler.rebalancing.assignments import name_hosts
from covey.scheduler.rebalancing.host_classes import find_spots
from covey.scheduler.rebalancing.order import MovePlan, in_order, may_go_on
from covey.scheduler.rebalancing.plans import Move, Plan
from covey.scheduler.rebalancing.problem import Member, Problem, look_at
from covey.scheduler.violations import violations

__all__ = ["Member", "Move", "Plan", "places_of", "plan", "still_right"]


def plan(
    policies: Sequence[GroupPolicy], members: Sequence[Member], fleet: Fleet, seed: int, *, patience_s: float
) -> Plan:
    """What to move so that as little as possible is wrong: first by the hard policies, then by the soft ones.

    The fleet's use is left as it is. Equal inputs give equal plans, unless the patience ends before the search does.
    """
    places = places_of(members)
    before = tuple(violations(policies, places, fleet))
    case = look_at(policies, members, _own(fleet))
    if not before or not case.crews:
        return Plan((), 0, optimal=True, before=before, after=before)
    found = _search(case, seed, patience_s)
    if found is None:
        return Plan((), 0, optimal=False, before=before, after=before)
    way, bound, proved = found
    after = tuple(violations(policies, places_of(members, way.moves), fleet))
    optimal = proved and not way.left
    return Plan(way.moves, bound if optimal else min(bound, len(way.moves)), optimal, before, after, way.left)


def still_right(
    policies: Sequence[GroupPolicy], members: Sequence[Member], fleet: Fleet, moves: Sequence[Move]
) -> bool:
    """Whether the first of some planned moves may be made now, and all of them still make something better."""
    return may_go_on(look_at(policies, members, _own(fleet)), moves)


def places_of(members: Iterable[Member], moves: Iterable[Move] = ()) -> Mapping[str, HostId]:
    """Where the members are, after some moves."""
    return {member.id: member.host for member in members} | {move.member: move.destination for move in moves}


def _search(case: Problem, seed: int, patience_s: float) -> tuple[MovePlan, int, bool] | None:
    """The best way that is found, the fewest moves to its end, and whether that is proved.

    Lots of hosts that promised too much are looked at one by one the next time.
    """
    with requires("solver", "Rebalancing"):
        from covey.scheduler.rebalancing.solve import solve  # noqa: PLC0415 -- optional, and slow to import

    alone: set[int] = set()
    best: tuple[MovePlan, int, bool] | None = None
    while patience_s > 0:
        spots = find_spots(case, alone)
        end = solve(case, spots, seed, patience_s)
        if end is None:
            break
        errands, doubtful = name_hosts(case, spots, end, seed)
        way = in_order(case, errands)
        if best is None or way.worth <= best[0].worth:
            best = way, end.bound, end.proved and not doubtful
        if not doubtful:
            break
        alone |= doubtful
        patience_s -= end.spent_s
    return best


def _own(fleet: Fleet) -> Fleet:
    """The same fleet, which remembers what is asked of it by itself."""
    own = fleet.copy()
    own.static_masks = dict(fleet.static_masks)
    return own
