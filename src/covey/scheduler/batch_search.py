"""An exact search for a batch with limits that cross, such as one server in a rack and one in a power domain.

It counts servers by host class. Two chains of limits are a network: from the source to the domains of one chain, to the
classes, to the domains of the other chain, to the sink. A maximum flow is an exact answer. With more chains, the flow
over two of them is an upper bound, and branch and bound closes the gap. Homes are searched from the highest bound down.

The search starts from a given placement. It ends when no better one can exist, or after a fixed number of steps; then
the answer says so. docs/decisions/0019-exact-batches.md has the reasons.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from covey.scheduler.batch_classes import Amounts, HostClasses, Numbers
from covey.scheduler.max_flow import SINK, SOURCE, Budget, Network

MAX_STEPS = 100_000  # arcs and classes looked at; about 50 ms
_CHAINS = 2  # that a network can represent
_STEPS_PER_CLASS = 8  # of one flow, before the flow is augmented


class Counts(NamedTuple):
    """How many servers each class takes."""

    counts: Amounts
    proved: bool  # no placement has more; False if the search stopped at its limit


def search(classes: HostClasses, placed: Amounts, homes: Iterable[int], count: int, steps: int) -> Counts:
    """Return a placement of the most servers, up to `count`: one that grows from `placed`, or one in another home.

    `homes` lists the homes in the order in which they are searched if their bounds are equal.
    """
    budget, bounds = Budget(steps), classes.bounds(count)
    best = placed
    for home in sorted(homes, key=lambda home: -bounds.item(home)):
        wanted = bounds.item(home)
        if wanted <= best.sum():
            break
        inside = np.flatnonzero(classes.home == home)
        counts = _Home(classes, inside).most(placed[inside].tolist(), wanted, budget)
        if sum(counts) > best.sum():
            best = np.zeros_like(placed)
            best[inside] = counts
        if budget.spent and best.sum() < wanted:
            return Counts(best, proved=False)
    return Counts(best, proved=True)


class _Home:
    """The classes of one home, and the domains that limit them, numbered over all limits."""

    def __init__(self, classes: HostClasses, inside: Numbers) -> None:
        self._room: list[int] = classes.room[inside].tolist()
        self._left: dict[int, int] = {}
        self._chains: list[list[tuple[int, ...]]] = []  # of each chain: the domains of each class, the narrowest first
        start = 0
        for chain in classes.chains:
            columns = []
            for limit in chain:
                parts = limit.part[inside]
                columns.append((parts + start).tolist())
                self._left |= zip(columns[-1], limit.left[parts].tolist(), strict=True)
                start += len(limit.left)
            self._chains.append(list(zip(*columns, strict=True)))
        self._domains = [tuple(d for chain in chains for d in chain) for chains in zip(*self._chains, strict=True)]

    def most(self, placed: Sequence[int], wanted: int, budget: Budget) -> list[int]:
        """Return the best counts found until they reach `wanted`, all branches are searched, or the budget is spent."""
        best = list(placed)
        branches = [([0] * len(self._room), self._room)]
        while branches and sum(best) < wanted and not budget.spent:
            least, most = branches.pop()
            bound = self._relaxed(least, most, placed, wanted, budget)
            if bound is None or sum(bound) <= sum(best):
                continue
            found = self._add(self._add([0] * len(bound), bound, wanted), self._room, wanted)
            best = max(best, found, key=sum)
            branches += self._branch(bound, least, most)
        return best

    def _relaxed(
        self, least: list[int], most: list[int], placed: Sequence[int], wanted: int, budget: Budget
    ) -> list[int] | None:
        """Return the counts of a maximum flow within the limits of two chains; None if `least` exceeds a limit."""
        budget.left -= _STEPS_PER_CLASS * len(least)
        taken = self._taken(least)
        left = {domain: left - taken[domain] for domain, left in self._left.items()}
        if min(left.values()) < 0:
            return None
        highest = [
            min(most, least + min(left[domain] for domain in domains))
            for least, most, domains in zip(least, most, self._domains, strict=True)
        ]
        start = self._add(least, [min(pair) for pair in zip(placed, highest, strict=True)], wanted)
        more = [after - before for after, before in zip(start, least, strict=True)]
        network = _DomainNetwork(left, self._taken(more))
        down, up = self._chains[:_CHAINS]
        arcs = [
            network.connect_class(down[number], up[number], highest[number] - least[number], more[number])
            for number in range(len(least))
        ]
        network.augment(wanted - sum(start), budget)
        return [number + network.flow(arc) for number, arc in zip(least, arcs, strict=True)]

    def _branch(self, bound: list[int], least: list[int], most: list[int]) -> list[tuple[list[int], list[int]]]:
        """Divide the search at a class in the domain that exceeds its limit most: this class takes fewer, or not."""
        taken = self._taken(bound)
        excess, domain = max((taken[domain] - left, domain) for domain, left in self._left.items())
        if excess <= 0:
            return []  # the bound is a solution
        inside = [number for number, domains in enumerate(self._domains) if domain in domains]
        fullest = max(inside, key=lambda number: bound[number] - least[number])
        fewer = max(least[fullest], bound[fullest] - excess)
        below, above = list(most), list(least)
        below[fullest], above[fullest] = fewer, fewer + 1
        return [(least, below), (above, most)]  # the last one is searched first

    def _add(self, counts: Sequence[int], targets: Sequence[int], wanted: int) -> list[int]:
        """Return the counts, raised towards their targets, class by class, as far as all limits and `wanted` admit."""
        taken, raised, missing = self._taken(counts), list(counts), wanted - sum(counts)
        for number, (count, target, domains) in enumerate(zip(counts, targets, self._domains, strict=True)):
            if target > count:
                more = min(target - count, missing, *(self._left[domain] - taken[domain] for domain in domains))
                raised[number] += more
                missing -= more
                for domain in domains:
                    taken[domain] += more
        return raised

    def _taken(self, counts: Sequence[int]) -> Counter[int]:
        """Count the servers in each domain."""
        taken: Counter[int] = Counter()
        for count, domains in zip(counts, self._domains, strict=True):
            if count:
                for domain in domains:
                    taken[domain] += count
        return taken


class _DomainNetwork(Network):
    """From the source to the widest domain of one chain, down to a class, up the other chain, and to the sink."""

    def __init__(self, left: Mapping[int, int], taken: Mapping[int, int]) -> None:
        super().__init__()
        self._left, self._taken = left, taken
        self._nodes: dict[int, int] = {}

    def connect_class(self, down: tuple[int, ...], up: tuple[int, ...], room: int, taken: int) -> int:
        """Return the arc of a class, which connects its narrowest domains of both chains."""
        return self.connect(self._node(down, SOURCE), self._node(up, SINK), room, taken)

    def _node(self, domains: tuple[int, ...], end: int) -> int:
        """Return the node of the first domain, connected to `end` through the others."""
        domain, *wider = domains
        if domain not in self._nodes:
            node = self._nodes[domain] = self.add_node()
            above = self._node(tuple(wider), end) if wider else end
            arc = (above, node) if end == SOURCE else (node, above)
            self.connect(*arc, self._left[domain], self._taken.get(domain, 0))
        return self._nodes[domain]
