"""Who is best: candidates in blocks, each with its leader, and heaps of leaders above the blocks.

Blocks of one rack are parts of the rack, racks below one switch are parts of the switch, as far as the policies know
racks and switches. Inside a part everybody pays for its domains alike, so its own heap need not know what they cost:
only the part's rank, in the heap above, does. So a placement changes one host's value, its block's leader, and one rank
in each heap on the way up. Where scopes cross, a domain is in several parts, and all of those are ranked again.
"""

from collections.abc import Callable
from heapq import heappop, heappush, heapreplace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from covey.scheduler.batch_state import Domain, Shared, State
from covey.scheduler.fleet import Rows
from covey.scheduler.tie_breaking import Lots

Rank = tuple[int, float, int, int, int]  # cost, -weight, -lot, position, and of which part: less is better

_LARGEST = 256  # candidates in a block
_OUT = complex(-np.inf)  # the value of one who may not


class _Block(NamedTuple):
    """Neighbours by position: the first of those with the highest value leads, which is the luckiest."""

    start: int
    value: NDArray[np.complex128]  # such numbers compare by their real part, and then by the imaginary one
    lots: Lots
    own_cost: int


class _Part:
    """Candidates in the same domains: in parts of their own, or in a block."""

    __slots__ = ("above", "block", "domains", "heap", "number", "path", "ranks")

    def __init__(self, ranks: list[Rank | None], above: "_Part | None", domains: tuple[Domain, ...]) -> None:
        self.number, self.ranks = len(ranks), ranks  # of all parts; if ranks knew their parts, it would be a circle
        ranks.append(None)
        self.above, self.domains = above, domains
        self.path: tuple[Domain, ...] = (*domains, *above.path) if above else ()  # all that its candidates are in
        self.block: _Block | None = None
        self.heap: list[Rank] = []  # its parts' ranks; one that is out of date goes when it is seen

    def leader(self) -> Rank | None:
        """The best of its candidates."""
        if self.block is not None:
            start, values, lots, own_cost = self.block
            index = int(values.argmax())
            value = values.item(index)
            if value == _OUT:
                return None
            return int(-value.real) * own_cost, -value.imag, -lots.item(index), start + index, self.number
        heap, ranks = self.heap, self.ranks
        while heap:
            first = heap[0]
            if ranks[first[4]] is first:
                return first
            heappop(heap)
        return None

    def ranked(self) -> Rank | None:
        """The same as seen from outside, with what its domains cost; None also if one of them is full."""
        leader = self.leader()
        if leader is None:
            return None
        cost, weight, lot, position, _ = leader
        for domain in self.domains:
            if domain.left <= 0:
                return None
            cost += domain.cost
        return cost, weight, lot, position, self.number

    def enter(self) -> None:
        """Join the heap above, for the first time."""
        rank = self.ranks[self.number] = self.ranked()
        if rank is not None and self.above is not None:
            heappush(self.above.heap, rank)

    def climb(self) -> None:
        """Its candidates or its domains changed: rank it again, and all that it is a part of."""
        part, above, ranks = self, self.above, self.ranks
        while above is not None:
            number, heap = part.number, above.heap
            old, new = ranks[number], part.ranked()
            ranks[number] = new
            if new is None:
                pass  # the old one is out of date now
            elif heap and heap[0] is old:
                heapreplace(heap, new)
            else:
                heappush(heap, new)
            part, above = above, above.above


class Ranking:
    """All candidates by position: those in the same domains are neighbours, and the luckiest of them comes first."""

    def __init__(self, state: State, weight_after: Callable[[int, int], float]) -> None:
        shared = sorted([*state.limits, *state.tastes], key=lambda each: len(each.domains))  # the widest domains above
        self._order = order = np.lexsort((~state.lots, *(_small(each) for each in reversed(shared))))
        self._own_step, self._together, self._weight_after = state.own_step, state.together, weight_after
        self._rows, self._fits, self._value = state.rows[order], state.fits[order], state.value[order]
        self._taken: dict[int, int] = {}
        self._root = _Part([], None, ())
        self._twins: dict[int, list[_Part]] = {}  # by a domain's identity: the parts that it is in, where scopes cross
        self._blocks, self._block_of = self._divide(shared, state)

    def best(self) -> int | None:
        """The position of the best candidate; None if nobody may any more."""
        leader = self._root.leader()
        return None if leader is None else leader[3]

    def few(self, size: int) -> list[int]:
        """The best, and the next ones that the soft policies like as much: up to so many."""
        found: dict[int, complex] = {}
        leader = first = self._root.leader()
        while leader is not None and first is not None and leader[0] == first[0] and len(found) < size:
            found[leader[3]] = self._value.item(leader[3])
            self._set(leader[3], _OUT)
            leader = self._root.leader()
        for position, value in found.items():
            self._set(position, value)
        return list(found)

    def place(self, position: int) -> int:
        """One more server is there: returns the row."""
        row: int = self._rows.item(position)
        times = self._taken[position] = self._taken.get(position, 0) + 1
        value = _OUT
        if times < self._fits.item(position):
            own = self._value.item(position).real + self._own_step
            value = complex(own, self._weight_after(row, times))
        self._value[position] = value
        block = self._blocks[self._block_of.item(position)]
        for domain in block.path:
            domain.cost += domain.step
            domain.left -= 1
        block.climb()
        if self._twins:
            self._follow(block.path)
        if self._together:
            self._stay_with(position)
        return row

    def _set(self, position: int, value: complex) -> None:
        self._value[position] = value
        self._blocks[self._block_of.item(position)].climb()

    def _follow(self, path: tuple[Domain, ...]) -> None:
        """Elsewhere the same domains changed, too."""
        for domain in path:
            if domain.step or not domain.left:
                for part in self._twins.get(id(domain), ()):
                    part.climb()

    def _stay_with(self, position: int) -> None:
        """Whoever is not in the same domains by hard affinity is out; once is enough."""
        for of in self._together:
            domains = of[self._order]
            self._value[domains != domains[position]] = _OUT
        self._together = []
        for block in self._blocks:
            block.climb()

    def _divide(self, shared: list[Shared], state: State) -> tuple[list[_Part], Rows]:
        """Parts in parts, down to those that have a block; and which of these each position is in."""
        levels, starts, size = [[self._root]], np.zeros(1, dtype=np.intp), self._order.size
        for policies, part_starts in _levels(shared, self._order):
            up, first = np.searchsorted(starts, part_starts, side="right") - 1, self._order[part_starts]
            domains = [[each.domains[number] for number in each.of[first].tolist()] for each in policies]
            places = zip(up.tolist(), *domains, strict=True)
            levels.append([_Part(self._root.ranks, levels[-1][above], tuple(inside)) for above, *inside in places])
            self._find_twins(levels[-1], domains)
            starts = part_starts
        lots, ends = state.lots[self._order], [*starts[1:].tolist(), size]
        for part, start, end in zip(levels[-1], starts.tolist(), ends, strict=True):
            part.block = _Block(start, self._value[start:end], lots[start:end], state.own_cost)
        for parts in levels[:0:-1]:
            for part in parts:
                part.enter()
        return levels[-1], np.repeat(np.arange(starts.size), np.diff(starts, append=size))

    def _find_twins(self, parts: list[_Part], domains: list[list[Domain]]) -> None:
        """Of each policy there is the domain of each part."""
        for column in domains:
            if len(set(map(id, column))) < len(column):
                for part, domain in zip(parts, column, strict=True):
                    self._twins.setdefault(id(domain), []).append(part)


def _levels(shared: list[Shared], order: Rows) -> list[tuple[list[Shared], Rows]]:
    """Where the parts start, level by level, and which policies tell them apart."""
    found: list[tuple[list[Shared], Rows]] = []
    is_start = np.zeros(order.size, dtype=np.bool_)
    is_start[0] = True
    for each in shared:
        of = each.of[order]
        is_start[1:] |= of[1:] != of[:-1]
        starts = np.flatnonzero(is_start)
        if found and found[-1][1].size == starts.size:
            found[-1][0].append(each)
        else:
            found.append(([each], starts))
    if not found or np.diff(found[-1][1], append=order.size).max() > _LARGEST:
        is_start[::_LARGEST] = True
        found.append(([], np.flatnonzero(is_start)))
    return found


def _small(shared: Shared) -> NDArray[np.intp] | NDArray[np.uint16]:
    """The domain of each candidate in two bytes if they do, because such numbers are sorted without comparing."""
    return shared.of.astype(np.uint16) if len(shared.domains) <= 2**16 else shared.of
