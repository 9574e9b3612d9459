"""Many equal servers in one decision: each sees the ones before it, and none costs a full pass over the fleet.

The outcome equals deciding one server after another, except that a batch which must be together starts where most of
it fits, and that a batch with limits that cross is searched if one after another places too few (`batch_search`).

A placement changes little: the room and weight of one host, and one domain's count for each policy. So each
candidate's cost and weight are computed once (`batch_state`). Candidates then form small blocks that share their
domains; each block knows its best host, and heaps above know the best block (`ranking`). A placement updates one host
and the path above it. The result is exact: the top of the heaps is the best of all candidates.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from covey.scheduler.batch_classes import classify
from covey.scheduler.batch_search import MAX_STEPS, search
from covey.scheduler.batch_state import BatchState, DomainState, PolicyDomains
from covey.scheduler.fleet import Fleet, Rows
from covey.scheduler.policies import hard_policies, soft_policies
from covey.scheduler.policies.protocol import BatchCost
from covey.scheduler.ranking import Ranking
from covey.scheduler.request_spec import RequestSpec
from covey.scheduler.room import count_fits
from covey.scheduler.tie_breaking import TieBreaker

Most = NDArray[np.int64] | None


class Choice(NamedTuple):
    """The row of each server that fits."""

    rows: list[int]
    proved: bool  # no more fit, up to the count; False if the search stopped at its limit


def choose(spec: RequestSpec, fleet: Fleet, rows: Rows, tie_breaker: TieBreaker, most: Most = None) -> Choice:
    """Return a row for each server that fits, up to the request's count; `rows` are the candidates for the first.

    `most` is how many servers each row of the fleet takes at most, where that is known besides its columns.
    """
    state = _initial_state(spec, fleet, rows, tie_breaker, most)
    if state.affinity_domains and spec.count > 1:
        state = _initial_state(spec, fleet, rows[_where_most_fit(state, spec.count)], tie_breaker, most)
    chosen = _place_in_turn(spec, fleet, state, tie_breaker)
    if len(chosen) == spec.count or len(state.limits) <= 1:  # limits that cannot cross: no order places more
        return Choice(chosen, proved=True)
    return _search(spec, fleet, rows, tie_breaker, most, chosen)


def _place_in_turn(spec: RequestSpec, fleet: Fleet, state: BatchState, tie_breaker: TieBreaker) -> list[int]:
    """Place each server on the host that ranks first after the servers before it."""
    ranking = Ranking(state, fleet.weight_after(spec.amounts))
    subset, chosen = tie_breaker.subset, list[int]()
    for step in range(spec.count):
        best = ranking.best() if subset == 1 else tie_breaker.choose(ranking.top(subset), step)
        if best is None:
            break
        chosen.append(ranking.place(best))
    return chosen


def _search(
    spec: RequestSpec, fleet: Fleet, rows: Rows, tie_breaker: TieBreaker, most: Most, placed: list[int]
) -> Choice:
    """Search for more servers than were placed in turn.

    The search decides how many servers each host class takes; they are then placed in turn within these numbers.
    """
    state = _initial_state(spec, fleet, rows, tie_breaker, most)
    classes = classify(state, spec.count)
    counts = np.zeros_like(classes.room)
    np.add.at(counts, classes.of[np.searchsorted(rows, placed)], 1)
    homes = classes.home[classes.of[np.lexsort((state.tie_keys, state.value))[::-1]]]  # of the best hosts first
    found = search(classes, counts, dict.fromkeys(homes.tolist()), spec.count, MAX_STEPS)
    if found.counts.sum() == len(placed):
        return Choice(placed, found.proved)
    inside = found.counts[classes.of] > 0
    state = _initial_state(spec, fleet, rows[inside], tie_breaker, most)
    used = np.flatnonzero(found.counts)
    limits = [DomainState(left=number) for number in found.counts[used].tolist()]
    state.limits, state.affinity_domains = [PolicyDomains(np.searchsorted(used, classes.of[inside]), limits)], []
    return Choice(_place_in_turn(spec, fleet, state, tie_breaker), found.proved)


def _initial_state(spec: RequestSpec, fleet: Fleet, rows: Rows, tie_breaker: TieBreaker, most: Most) -> BatchState:
    value = np.zeros(rows.size, dtype=np.complex128)
    value.imag = fleet.weight[rows]
    fits = count_fits(spec, fleet)[rows]
    if most is not None:
        fits = np.minimum(fits, most[rows])
    state = BatchState(rows, tie_breaker.keys(fleet.ids[rows]), fits, value)
    if spec.forced:
        return state
    for hard, policy in hard_policies(spec.group):
        hard.constrain_batch(policy, spec.group, fleet, state)
    unit = 1
    for soft, policy in reversed(soft_policies(spec.group)):
        unit *= soft.rank_batch(policy, spec.group, fleet, state, BatchCost(spec.count, unit))
    return state


def _where_most_fit(state: BatchState, count: int) -> Rows:
    """Return the candidates in the domains that take the most of a batch that must be in one domain.

    Exact unless anti-affinity limits cross there: then it is where most may fit.
    """
    classes = classify(state, count)
    bounds = classes.bounds(count)
    return np.flatnonzero((bounds == bounds.max())[classes.home[classes.of]])
