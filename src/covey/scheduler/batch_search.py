"""An exact search for a batch with limits that cross, such as one server in a rack and one in a power domain.

It counts servers by host class, home by home, from the highest bound down. Two chains of limits are a network, and a
maximum flow is the answer. Three or more chains are as hard as three-dimensional matching: branch and bound.

The search ends when no better placement can exist, or after a fixed number of steps; then the answer says so.
docs/decisions/0019-exact-batches.md has the reasons.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from covey.scheduler.batch_classes import Amounts, HostClasses, Limit, sum_by_key
from covey.scheduler.max_flow import SINK, SOURCE, Budget, Network

MAX_STEPS = 200_000  # less than 100 ms
_STEPS_PER_HOME = 300
_STEPS_PER_CLASS = 4  # to build the network of a flow
_STEPS_PER_BRANCH, _CLASSES_PER_STEP = 50, 8
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
        most = _most_by_flow if len(classes.chains) == _FLOW_CHAINS else _most_by_branching
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


def _most_by_flow(classes: HostClasses, placed: Amounts, wanted: int, budget: Budget) -> Amounts:
    """Return the most servers that each class of one home takes, up to `wanted` in all, or fewer if the budget ends.

    A unit of flow is a server. It goes from the source to the widest domain of one chain, down to a host class, up the
    other chain, and to the sink. The flow grows from `placed` along shortest paths: servers change their class only to
    let one more fit.
    """
    budget.left -= _STEPS_PER_CLASS * placed.size
    if budget.spent:
        return placed
    network = Network()
    down, up = (
        _connect_domains(network, chain, placed, end) for chain, end in zip(classes.chains, (SOURCE, SINK), strict=True)
    )
    rooms, flows = classes.room.tolist(), placed.tolist()
    arcs = [network.connect(*arc) for arc in zip(down, up, rooms, flows, strict=True)]
    network.augment(wanted - sum(flows), budget)
    return np.array([network.flow(arc) for arc in arcs], dtype=np.int64)


def _connect_domains(network: Network, chain: Sequence[Limit], placed: Amounts, end: int) -> list[int]:
    """Connect the domains of a chain with the source or the sink, and return the node of each class's narrowest one."""
    above = np.full(placed.size, end)
    for limit in reversed(chain):  # from the widest scope to the narrowest
        taken = np.zeros_like(limit.left)
        np.add.at(taken, limit.part, placed)
        nodes = [network.add_node() for _ in limit.left]
        arcs = zip(above[limit.first].tolist(), nodes, limit.left.tolist(), taken.tolist(), strict=True)
        for outer, inner, left, flow in arcs:
            tail, head = (outer, inner) if end == SOURCE else (inner, outer)
            network.connect(tail, head, left, flow)
        above = np.array(nodes)[limit.part]
    nodes_of_classes: list[int] = above.tolist()
    return nodes_of_classes


def _most_by_branching(classes: HostClasses, placed: Amounts, wanted: int, budget: Budget) -> Amounts:
    """Return the most servers that each class of one home takes, up to `wanted` in all, or fewer if the budget ends.

    The search selects the domain with the least room to spare, and gives one of its classes all that the class can
    take, or else less. A branch ends where the domains of some scope take no more than the best placement has.
    """
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
