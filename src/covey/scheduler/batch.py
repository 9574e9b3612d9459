"""Many equal servers in one decision: each sees the ones before it, and none costs a full pass over the fleet.

The outcome equals deciding one server after another, except that a batch which must be together starts where most of
it fits. A placement changes little: the room and weight of one host, and one domain's count for each policy. So each
candidate's cost and weight are computed once (`batch_state`). Candidates then form small blocks that share their
domains; each block knows its best host, and heaps above know the best block (`ranking`). A placement updates one host
and the path above it. The result is exact: the top of the heaps is the best of all candidates.
"""

import numpy as np
from numpy.typing import NDArray

from covey.scheduler.batch_state import BatchState
from covey.scheduler.constraints.room import count_fits
from covey.scheduler.fleet import Fleet, Rows
from covey.scheduler.policies import hard_policies, soft_policies
from covey.scheduler.policies.protocol import BatchCost
from covey.scheduler.ranking import Ranking
from covey.scheduler.request_spec import RequestSpec
from covey.scheduler.tie_breaking import TieBreaker


def choose(spec: RequestSpec, fleet: Fleet, rows: Rows, tie_breaker: TieBreaker) -> list[int]:
    """Return a row for each server that fits, up to the request's count; `rows` are the candidates for the first."""
    state = _initial_state(spec, fleet, rows, tie_breaker)
    if state.affinity_domains and spec.count > 1:
        state = _initial_state(spec, fleet, rows[_where_most_fit(state, spec.count)], tie_breaker)
    ranking = Ranking(state, fleet.weight_after(spec.amounts))
    subset, chosen = tie_breaker.subset, list[int]()
    for step in range(spec.count):
        best = ranking.best() if subset == 1 else tie_breaker.choose(ranking.top(subset), step)
        if best is None:
            break
        chosen.append(ranking.place(best))
    return chosen


def _initial_state(spec: RequestSpec, fleet: Fleet, rows: Rows, tie_breaker: TieBreaker) -> BatchState:
    value = np.zeros(rows.size, dtype=np.complex128)
    value.imag = fleet.weight[rows]
    state = BatchState(rows, tie_breaker.keys(fleet.ids[rows]), count_fits(spec, fleet)[rows], value)
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

    Exact unless the group has anti-affinity in several scopes wider than a host, whose limits may overlap.
    """
    home = state.affinity_domains[0]
    for other in state.affinity_domains[1:]:
        _, home = np.unique(home * (other.max() + 1) + other, return_inverse=True)
    fits = np.minimum(state.fits, count)
    most = np.minimum(_sum_by_key(home, fits), count)
    for limit in state.limits:
        left = np.array([domain.left for domain in limit.domains])
        parts, part = np.unique(home * left.size + limit.of, return_inverse=True)
        room = np.minimum(_sum_by_key(part, fits), left[parts % left.size])
        most = np.minimum(most, _sum_by_key(parts // left.size, room))
    return np.flatnonzero(most[home] == most.max())


def _sum_by_key(keys: NDArray[np.intp], amounts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sum of the amounts of each key; keys are numbers from zero."""
    sums = np.zeros(int(keys.max()) + 1, dtype=np.int64)
    np.add.at(sums, keys, amounts)
    return sums
