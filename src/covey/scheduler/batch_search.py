"""An exact search for a batch with limits that cross, such as one server in a rack and one in a power domain.

It counts servers by host class, home by home, from the highest bound down. Two chains of limits are a network, and a
maximum flow is the answer (`batch_flow`). More chains need branch and bound (`batch_branching`).

The search ends when no better placement can exist, or after a fixed number of steps; then the answer says so.
docs/decisions/0019-exact-batches.md has the reasons.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from covey.scheduler.batch_branching import most_by_branching
from covey.scheduler.batch_classes import Amounts, HostClasses, sum_by_key
from covey.scheduler.batch_flow import most_by_flow
from covey.scheduler.max_flow import Budget

MAX_STEPS = 200_000  # less than 100 ms
_STEPS_PER_HOME = 300
_FLOW_CHAINS = 2


class Counts(NamedTuple):
    """How many servers each class takes."""

    counts: Amounts
    proved: bool  # no placement has more; False if the search stopped at its limit


def search(classes: HostClasses, placed: Amounts, homes: Iterable[int], count: int, steps: int) -> Counts:
    """Return a placement of the most servers, up to `count`, and never of fewer than are placed already.

    `placed` is in a home with the highest bound, and no more servers fit beside it. `homes` lists all homes, in the
    order in which they are searched if their bounds are equal.
    """
    budget, bounds = Budget(steps), classes.bounds(count)
    best = placed
    for home in sorted(homes, key=lambda home: -bounds.item(home)):
        wanted = bounds.item(home)
        if wanted <= best.sum():
            break
        budget.left -= _STEPS_PER_HOME
        inside = np.flatnonzero(classes.home == home)
        here = classes.only(inside)
        most = most_by_flow if len(classes.chains) == _FLOW_CHAINS else most_by_branching
        counts = most(here, placed[inside], wanted, budget)
        if budget.spent:
            counts = _fill(here, counts, wanted)
        if counts.sum() > best.sum():
            best = np.zeros_like(placed)
            best[inside] = counts
        if budget.spent and best.sum() < wanted:
            return Counts(best, proved=False)
    return Counts(best, proved=True)


def _fill(classes: HostClasses, counts: Amounts, wanted: int) -> Amounts:
    """Return the counts of an unfinished search with the servers that fit beside them."""
    counts = counts.copy()
    while (missing := wanted - int(counts.sum())) > 0:
        room = classes.room - counts
        for chain in classes.chains:
            for limit in chain:
                room = np.minimum(room, (limit.left - sum_by_key(limit.part, counts))[limit.part])
        roomiest = int(room.argmax())
        if room[roomiest] <= 0:
            break
        counts[roomiest] += min(missing, int(room[roomiest]))
    return counts
