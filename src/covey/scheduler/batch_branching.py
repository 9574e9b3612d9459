"""The most servers of a batch within three or more chains of limits, by branch and bound.

The problem is as hard as three-dimensional matching. The search looks at the domain with the least room to spare, since
that is the first one to stay short, and gives one of its classes all that the class can take. If that leads to nothing
better, the class takes less. A branch ends where the domains of some scope take no more than the best placement has.
"""

import numpy as np

from covey.scheduler.batch_classes import Amounts, HostClasses
from covey.scheduler.max_flow import Budget

_STEPS_PER_BRANCH, _CLASSES_PER_STEP = 50, 8


def most_by_branching(classes: HostClasses, placed: Amounts, wanted: int, budget: Budget) -> Amounts:
    """Return the most servers that each class of one home takes, up to `wanted` in all, or fewer if the budget ends."""
    limits = [limit for chain in classes.chains for limit in chain]
    starts = np.cumsum([0, *(len(limit.left) for limit in limits[:-1])])
    domains = np.stack([limit.part + start for limit, start in zip(limits, starts, strict=True)])
    best, most = placed, int(placed.sum())
    # A branch: what each class takes, what it may still take, and what each domain may still take.
    branches = [(np.zeros_like(placed), classes.room, np.concatenate([limit.left for limit in limits]))]
    while branches and most < wanted and not budget.spent:
        budget.left -= _STEPS_PER_BRANCH + placed.size // _CLASSES_PER_STEP
        counts, room, left = branches.pop()
        total = int(counts.sum())
        if total > most:
            best, most = counts, total
        room = np.minimum(room, left[domains].min(axis=0))
        offered = _by_domain(domains, room, left.size)
        takes = np.minimum(offered, left)
        if total + np.add.reduceat(takes, starts).min() <= most:
            continue
        options = _by_domain(domains, room > 0, left.size)
        hardest = int(np.where(takes > 0, offered - left, np.inf).argmin())
        inside = np.flatnonzero((domains == hardest).any(axis=0) & (room > 0))
        chosen = int(inside[options[domains[:, inside]].sum(axis=0).argmin()])  # it uses up the fewest other options
        amount = min(int(room[chosen]), wanted - total)
        branches.append((counts, _with(room, chosen, amount - 1), left))
        lower = left.copy()
        lower[domains[:, chosen]] -= amount
        branches.append((_with(counts, chosen, counts[chosen] + amount), _with(room, chosen, 0), lower))
    return best


def _by_domain(domains: Amounts, amounts: Amounts, size: int) -> Amounts:
    """Return the sum over the classes in each domain."""
    sums: Amounts = np.bincount(domains.ravel(), np.tile(amounts, len(domains)), size).astype(np.int64)
    return sums


def _with(values: Amounts, index: int, value: int) -> Amounts:
    changed = values.copy()
    changed[index] = value
    return changed
