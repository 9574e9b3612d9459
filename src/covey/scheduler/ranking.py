"""Ranking: a tree of heaps over blocks of candidates, from which the best candidate is read at once.

Blocks of one rack are parts of the rack, and racks behind one switch are parts of the switch, as far as the policies
name racks and switches. The candidates of a part share the cost of its domains, so the part's own heap leaves it out:
only the part's rank in the heap above includes it. A placement changes one host's value, the best of its block, and one
rank in each heap above. Where scopes cross, a domain is in several parts, and all of those are ranked again.
"""

from collections.abc import Callable
from heapq import heappop, heappush, heapreplace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from covey.scheduler.batch_state import BatchState, DomainState, PolicyDomains
from covey.scheduler.fleet import Rows
from covey.scheduler.tie_breaking import TieKeys

Rank = tuple[int, float, int, int, int]  # cost, -weight, -tie key, position, and the number of the part: less is better

_MAX_BLOCK = 256  # candidates
_FULL = complex(-np.inf)  # the value of a candidate that takes no more servers


class _Block(NamedTuple):
    """Neighbours by position: the first of those with the highest value is the best, which has the highest tie key."""

    start: int
    value: NDArray[np.complex128]  # complex numbers compare by real part, then by imaginary part
    tie_keys: TieKeys
    own_cost: int


class _Part:
    """Candidates in the same domains, divided into smaller parts or held in one block."""

    __slots__ = ("above", "block", "domains", "heap", "number", "path", "ranks")

    def __init__(self, ranks: list[Rank | None], above: "_Part | None", domains: tuple[DomainState, ...]) -> None:
        self.number, self.ranks = len(ranks), ranks  # of all parts, by number: references to parts would be a cycle
        ranks.append(None)
        self.above, self.domains = above, domains
        self.path: tuple[DomainState, ...] = (*domains, *above.path) if above else ()  # all domains of its candidates
        self.block: _Block | None = None
        self.heap: list[Rank] = []  # its parts' ranks; an outdated one is dropped when it comes to the top

    def best(self) -> Rank | None:
        """Return the rank of its best candidate."""
        if self.block is not None:
            start, values, tie_keys, own_cost = self.block
            index = int(values.argmax())
            value = values.item(index)
            if value == _FULL:
                return None
            return int(-value.real) * own_cost, -value.imag, -tie_keys.item(index), start + index, self.number
        heap, ranks = self.heap, self.ranks
        while heap:
            first = heap[0]
            if ranks[first[4]] is first:
                return first
            heappop(heap)
        return None

    def ranked(self) -> Rank | None:
        """Return the rank of its best candidate, with the cost of its own domains.

        None if no candidate takes another server, or one of its domains is full.
        """
        best = self.best()
        if best is None:
            return None
        cost, weight, tie_key, position, _ = best
        for domain in self.domains:
            if domain.left <= 0:
                return None
            cost += domain.cost
        return cost, weight, tie_key, position, self.number

    def enter(self) -> None:
        """Add it to the heap above."""
        rank = self.ranks[self.number] = self.ranked()
        if rank is not None and self.above is not None:
            heappush(self.above.heap, rank)

    def update(self) -> None:
        """Rank it again after a change of its candidates or domains, and all parts above it."""
        part, above, ranks = self, self.above, self.ranks
        while above is not None:
            number, heap = part.number, above.heap
            old, new = ranks[number], part.ranked()
            ranks[number] = new
            if new is None:
                pass  # the old rank is outdated now
            elif heap and heap[0] is old:
                heapreplace(heap, new)
            else:
                heappush(heap, new)
            part, above = above, above.above


class Ranking:
    """All candidates by position: those in the same domains are neighbours, the highest tie key first."""

    def __init__(self, state: BatchState, weight_after: Callable[[int, int], float]) -> None:
        policies = sorted([*state.limits, *state.preferences], key=lambda policy: len(policy.domains))  # widest first
        self._order = order = np.lexsort((~state.tie_keys, *(_sort_key(policy) for policy in reversed(policies))))
        self._own_step, self._weight_after = state.own_step, weight_after
        self._affinity_domains = state.affinity_domains
        self._rows, self._fits, self._value = state.rows[order], state.fits[order], state.value[order]
        self._taken: dict[int, int] = {}
        self._root = _Part([], None, ())
        self._crossing: dict[int, list[_Part]] = {}  # by the id() of a domain that is in several parts: those parts
        self._blocks, self._block_of = self._divide(policies, state)

    def best(self) -> int | None:
        """Return the position of the best candidate; None if none takes another server."""
        best = self._root.best()
        return None if best is None else best[3]

    def top(self, size: int) -> list[int]:
        """Return the best candidate and the next ones of equal cost to the soft policies, `size` in all."""
        found: dict[int, complex] = {}
        best = first = self._root.best()
        while best is not None and first is not None and best[0] == first[0] and len(found) < size:
            found[best[3]] = self._value.item(best[3])
            self._set(best[3], _FULL)
            best = self._root.best()
        for position, value in found.items():
            self._set(position, value)
        return list(found)

    def place(self, position: int) -> int:
        """Place a server on the candidate, and return its row."""
        row: int = self._rows.item(position)
        times = self._taken[position] = self._taken.get(position, 0) + 1
        value = _FULL
        if times < self._fits.item(position):
            own = self._value.item(position).real + self._own_step
            value = complex(own, self._weight_after(row, times))
        self._value[position] = value
        block = self._blocks[self._block_of.item(position)]
        for domain in block.path:
            domain.cost += domain.step
            domain.left -= 1
        block.update()
        if self._crossing:
            self._update_crossing(block.path)
        if self._affinity_domains:
            self._keep_together(position)
        return row

    def _set(self, position: int, value: complex) -> None:
        self._value[position] = value
        self._blocks[self._block_of.item(position)].update()

    def _update_crossing(self, path: tuple[DomainState, ...]) -> None:
        """Rank the other parts that share these domains again."""
        for domain in path:
            if domain.step or not domain.left:
                for part in self._crossing.get(id(domain), ()):
                    part.update()

    def _keep_together(self, position: int) -> None:
        """Rule out the candidates outside the first server's affinity domains."""
        for of in self._affinity_domains:
            domains = of[self._order]
            self._value[domains != domains[position]] = _FULL
        self._affinity_domains = []
        for block in self._blocks:
            block.update()

    def _divide(self, policies: list[PolicyDomains], state: BatchState) -> tuple[list[_Part], Rows]:
        """Build the tree, and return its lowest parts, which have blocks, and which of these each position is in."""
        levels, starts, size = [[self._root]], np.zeros(1, dtype=np.intp), self._order.size
        for level, part_starts in _levels(policies, self._order):
            up, first = np.searchsorted(starts, part_starts, side="right") - 1, self._order[part_starts]
            domains = [[policy.domains[number] for number in policy.of[first].tolist()] for policy in level]
            places = zip(up.tolist(), *domains, strict=True)
            levels.append([_Part(self._root.ranks, levels[-1][above], tuple(inside)) for above, *inside in places])
            self._find_crossing(levels[-1], domains)
            starts = part_starts
        tie_keys, ends = state.tie_keys[self._order], [*starts[1:].tolist(), size]
        for part, start, end in zip(levels[-1], starts.tolist(), ends, strict=True):
            part.block = _Block(start, self._value[start:end], tie_keys[start:end], state.own_cost)
        for parts in levels[:0:-1]:
            for part in parts:
                part.enter()
        return levels[-1], np.repeat(np.arange(starts.size), np.diff(starts, append=size))

    def _find_crossing(self, parts: list[_Part], domains: list[list[DomainState]]) -> None:
        """Note the domains that are in several parts; `domains` lists, for each policy, the domain of each part."""
        for column in domains:
            if len(set(map(id, column))) < len(column):
                for part, domain in zip(parts, column, strict=True):
                    self._crossing.setdefault(id(domain), []).append(part)


def _levels(policies: list[PolicyDomains], order: Rows) -> list[tuple[list[PolicyDomains], Rows]]:
    """Return the policies that divide the parts of each level, and where the parts start."""
    found: list[tuple[list[PolicyDomains], Rows]] = []
    is_start = np.zeros(order.size, dtype=np.bool_)
    is_start[0] = True
    for policy in policies:
        of = policy.of[order]
        is_start[1:] |= of[1:] != of[:-1]
        starts = np.flatnonzero(is_start)
        if found and found[-1][1].size == starts.size:
            found[-1][0].append(policy)
        else:
            found.append(([policy], starts))
    if not found or np.diff(found[-1][1], append=order.size).max() > _MAX_BLOCK:
        is_start[::_MAX_BLOCK] = True
        found.append(([], np.flatnonzero(is_start)))
    return found


def _sort_key(policy: PolicyDomains) -> NDArray[np.intp] | NDArray[np.uint16]:
    """Return the domain of each candidate, in two bytes where possible: NumPy sorts those by radix."""
    return policy.of.astype(np.uint16) if len(policy.domains) <= 2**16 else policy.of
