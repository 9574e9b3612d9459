"""Many equal servers in one decision: each sees the ones before it, and none costs a full pass.

The outcome is that of deciding one after another, except that a batch which has to be together begins where most of
it fits. What makes it quick is that a placement changes little: one host's room and weight, and for each policy the
count of one domain. So every host is looked at once, and its cost to the soft policies and its weight are noted
(`batch_state`). After that, hosts stand in small blocks that share their domains, each block knows its best host, and
heaps above know the best block (`leaders`). A placement changes one host's note, and the way up from there. Nothing is
estimated: the best by those heaps is the best of all.
"""

import numpy as np
from numpy.typing import NDArray

from covey.scheduler.batch_state import State, begin
from covey.scheduler.fleet import Fleet, Rows
from covey.scheduler.ranking import Ranking
from covey.scheduler.request_spec import RequestSpec
from covey.scheduler.tie_breaking import TieKeys


def choose(spec: RequestSpec, fleet: Fleet, rows: Rows, draw: TieKeys) -> list[int]:
    """The rows for as many servers as fit, up to the ask's count."""
    state = begin(spec, fleet, rows, draw.lots(fleet.ids[rows]))
    if state.together and spec.count > 1:
        most = rows[_take_most(state, spec.count)]
        state = begin(spec, fleet, most, draw.lots(fleet.ids[most]))
    ranking = Ranking(state, fleet.weight_after(spec.amounts))
    chosen: list[int] = []
    for step in range(spec.count):
        best = ranking.best() if draw.subset == 1 else draw.one_of(ranking.few(draw.subset), step)
        if best is None:
            break
        chosen.append(ranking.place(best))
    return chosen


def _take_most(state: State, count: int) -> Rows:
    """Candidates in the domains that take the most of the batch, if all of it has to be in one.

    Exact unless the group stays apart by several scopes wider than a host, which may get in each other's way.
    """
    home = state.together[0]
    for other in state.together[1:]:
        _, home = np.unique(home * (other.max() + 1) + other, return_inverse=True)
    fits = np.minimum(state.fits, count)
    most = np.minimum(_sums(home, fits), count)
    for limit in state.limits:
        left = np.array([domain.left for domain in limit.domains])
        parts, part = np.unique(home * left.size + limit.of, return_inverse=True)
        room = np.minimum(_sums(part, fits), left[parts % left.size])
        most = np.minimum(most, _sums(parts // left.size, room))
    return np.flatnonzero(most[home] == most.max())


def _sums(keys: NDArray[np.intp], amounts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The amounts of each key, which are numbers from zero, together."""
    found = np.zeros(int(keys.max()) + 1, dtype=np.int64)
    np.add.at(found, keys, amounts)
    return found
