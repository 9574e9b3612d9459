"""Candidates of a batch in lines, best first, so that the next one is found without looking at all of them."""

import heapq

import numpy as np
from numpy.typing import NDArray

from covey.scheduler.batch_state import Draw, State
from covey.scheduler.fleet import Rows


class Line:
    """Candidates in order: by their own tastes, then weight, then luck.

    Those never chosen stand in line, best first; only as many are sorted as are likely to be needed. Those
    chosen before, who rank otherwise now, wait in a heap beside it.
    """

    def __init__(self, state: State, members: Rows, *, is_sorted: bool = False) -> None:
        self._state, self._members = state, members
        self._near = [taste for taste in state.tastes if not taste.is_wide]
        self._line = members.tolist() if is_sorted else self._front(4 * state.ask.count + 64)
        self._all = len(self._line) == members.size
        self._next = 0
        self._again: list[tuple[float, ...]] = []

    def best(self) -> tuple[float, ...] | None:
        """The rank of the best who still may, which ends with who it is; less is better."""
        fresh, again = self._ends()
        return again if fresh is None or (again is not None and again < fresh) else fresh

    def take(self, candidate: int) -> None:
        """Whoever was the best is out of the line until it is put back."""
        if self._next < len(self._line) and self._line[self._next] == candidate:
            self._next += 1
        else:
            heapq.heappop(self._again)

    def pop(self) -> int | None:
        """The best who still may, taken."""
        best = self.best()
        if best is None:
            return None
        self.take(int(best[-1]))
        return int(best[-1])

    def put_back(self, candidate: int) -> None:
        """It may be chosen again, if it still may, at the rank that it has now."""
        if self._state.may(candidate):
            self._state.reweigh(candidate)
            heapq.heappush(self._again, self._key(candidate))

    def _ends(self) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
        """The keys of the first in line and of the first in the heap, leaving out whoever may no longer."""
        may = self._state.may
        while True:
            while self._next < len(self._line) and not may(self._line[self._next]):
                self._next += 1
            if self._next < len(self._line) or self._all:
                break
            self._stretch()
        while self._again and not may(int(self._again[0][-1])):
            heapq.heappop(self._again)
        fresh = self._key(self._line[self._next]) if self._next < len(self._line) else None
        return fresh, self._again[0] if self._again else None

    def _key(self, candidate: int) -> tuple[float, ...]:
        weight, lucky = -self._state.weight.item(candidate), -self._state.luck.item(candidate)
        if not self._near:
            return weight, lucky, candidate
        return *(-taste.of(candidate) for taste in self._near), weight, lucky, candidate

    def _front(self, size: int) -> list[int]:
        """The best members in order, and all that are as good as the last of them."""
        some, weight, lucky = self._members, self._state.weight, self._state.luck
        if not self._near and size < some.size:
            mine = weight[some]
            some = some[mine >= np.partition(mine, -size)[-size]]
        tastes = [taste.score[taste.domain[some]] for taste in reversed(self._near)]
        order: list[int] = some[np.lexsort((lucky[some], weight[some], *tastes))[::-1]].tolist()
        return order

    def _stretch(self) -> None:
        """Nobody is left in line: let in all who were not sorted before."""
        seen = set(self._line)
        self._line += [candidate for candidate in self._front(self._members.size) if candidate not in seen]
        self._all = True


class OneLine:
    """No taste is wider than a host: all candidates stand in one line."""

    def __init__(self, state: State, draw: Draw) -> None:
        self._line = Line(state, np.arange(state.rows.size))
        self._draw = draw
        self._last: int | None = None

    def next(self, step: int) -> int | None:
        if self._last is not None:
            self._line.put_back(self._last)
        if self._draw.subset == 1:
            self._last = self._line.pop()
            return self._last
        few: list[int] = []
        while len(few) < self._draw.subset and (candidate := self._line.pop()) is not None:
            few.append(candidate)
        self._last = few.pop(self._draw.index(step, len(few))) if few else None
        for candidate in few:
            self._line.put_back(candidate)
        return self._last


class ManyLines:
    """Wider tastes come first: a line for each combination of their domains, and the firsts of all lines in a heap.

    What the heap says of a line may be too good, never too bad: a line that got better is put in anew, and one that
    got worse is noticed when its turn comes.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._wide = [taste for taste in state.tastes if taste.is_wide]
        combinations = np.stack([taste.domain for taste in self._wide])
        domains, cell_of = np.unique(combinations, axis=1, return_inverse=True)
        self._domains: list[list[int]] = domains.T.tolist()
        self._lines = [Line(state, members, is_sorted=True) for members in _by_cell(state, cell_of)]
        self._together: list[tuple[int, dict[int, list[int]]]] = []  # lines that get better together
        for number, taste in enumerate(self._wide):
            if taste.step > 0 and len(self._wide) > 1:
                sharing: dict[int, list[int]] = {}
                for cell, places in enumerate(self._domains):
                    sharing.setdefault(places[number], []).append(cell)
                self._together.append((number, sharing))
        self._heap = [(key, cell) for cell in range(len(self._lines)) if (key := self._key(cell)) is not None]
        heapq.heapify(self._heap)
        self._last: tuple[int, int] | None = None

    def next(self, step: int) -> int | None:  # noqa: ARG002 -- chance is in the luck
        if self._last is not None:
            cell, placed = self._last
            self._lines[cell].put_back(placed)
            self._rank(cell)
            for number, sharing in self._together:
                for other in sharing[self._domains[cell][number]]:
                    self._rank(other)
        while self._heap:
            told, cell = heapq.heappop(self._heap)
            key = self._key(cell)
            if key == told:
                candidate = int(key[-1])
                self._lines[cell].take(candidate)
                self._last = cell, candidate
                return candidate
            if key is not None and key > told:
                heapq.heappush(self._heap, (key, cell))
        return None

    def _rank(self, cell: int) -> None:
        key = self._key(cell)
        if key is not None:
            heapq.heappush(self._heap, (key, cell))

    def _key(self, cell: int) -> tuple[float, ...] | None:
        """How good the first of a line is; less is better. None when nobody is left in it."""
        first = self._lines[cell].best()
        if first is None:
            return None
        places = zip(self._wide, self._domains[cell], strict=True)
        return *(-taste.score.item(domain) for taste, domain in places), *first


def _by_cell(state: State, cell_of: NDArray[np.intp]) -> list[Rows]:
    """The candidates of each cell, best first."""
    near = [taste.score[taste.domain] for taste in reversed(state.tastes) if not taste.is_wide]
    order = np.lexsort((state.luck, state.weight, *near))[::-1]
    order = order[np.argsort(cell_of[order], kind="stable")]
    return np.split(order, np.cumsum(np.bincount(cell_of))[:-1])
