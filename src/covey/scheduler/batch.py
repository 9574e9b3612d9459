"""Many equal servers in one decision: each sees the ones before it, and none costs a full pass.

The outcome is that of deciding one after another, except that a batch which has to be together begins where most of
it fits. What makes it quick is that a placement changes little: one host's room and weight, and one domain's count
for each policy.
"""

import heapq
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from covey.model.groups import HOST, PolicyKind
from covey.scheduler import preferences
from covey.scheduler.ask import Ask
from covey.scheduler.constraints.room import times_it_fits
from covey.scheduler.fleet import NOWHERE, Column, Fleet, Mask, Rows, counts_by_domain
from covey.scheduler.luck import luck
from covey.scheduler.preferences.soft_policies import SoftPolicy

Luck = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Draw:
    """How one of the best is drawn."""

    seed: int
    subset: int = 1

    def index(self, step: int, size: int) -> int:
        """Which of `size` candidates, at a step of the batch."""
        return 0 if size == 1 else int(luck(np.array([step]), self.seed)[0] % np.uint64(size))


@dataclass(slots=True)
class _Limit:
    """A hard anti-affinity policy: how many more each domain may take."""

    domain: NDArray[np.intp]  # of each candidate
    left: NDArray[np.int64]  # of each domain
    is_wide: bool = False  # a domain may have several hosts


@dataclass(slots=True)
class _Taste:
    """A soft policy: the score of each domain, which changes as the batch goes."""

    domain: NDArray[np.intp]  # of each candidate
    score: Column  # of each domain
    step: float  # by how much one more member changes its domain's score
    is_wide: bool = False  # a domain may have several hosts

    def of(self, candidate: int) -> float:
        return self.score.item(self.domain.item(candidate))


@dataclass(slots=True)
class _State:
    """The candidates (hosts that may take the first server) and what placements did to them."""

    ask: Ask
    fleet: Fleet
    rows: Rows
    weight: Column
    luck: Luck
    fits: NDArray[np.int64]
    taken: NDArray[np.int64]
    limits: list[_Limit] = field(default_factory=list)
    together: list[NDArray[np.intp]] = field(default_factory=list)  # hard affinity that no member decided yet
    home: int | None = None  # the first candidate that was chosen, which decides it
    tastes: list[_Taste] = field(default_factory=list)

    def may(self, candidate: int) -> bool:
        """Whether a candidate may take one more."""
        if self.fits.item(candidate) <= 0:
            return False
        for limit in self.limits:
            if limit.left.item(limit.domain.item(candidate)) <= 0:
                return False
        return self.home is None or all(domain[candidate] == domain[self.home] for domain in self.together)

    def place(self, candidate: int) -> None:
        """One more server is there."""
        self.fits[candidate] -= 1
        self.taken[candidate] += 1
        for limit in self.limits:
            limit.left[limit.domain[candidate]] -= 1
        for taste in self.tastes:
            taste.score[taste.domain[candidate]] += taste.step
        if self.home is None:
            self.home = candidate

    def reweigh(self, candidate: int) -> None:
        """What it weighs after the servers that it took."""
        row, times = int(self.rows[candidate]), int(self.taken[candidate])
        self.weight[candidate] = self.fleet.weight_after(row, self.ask.amounts, times)


class _Picker(Protocol):
    """Finds the best candidate, step by step; each answer is placed before the next question."""

    def next(self, step: int) -> int | None: ...


def choose(ask: Ask, fleet: Fleet, rows: Rows, lucky: Luck, draw: Draw) -> list[int]:
    """The rows for as many servers as fit, up to the ask's count."""
    state = _begin(ask, fleet, rows, lucky)
    best = _picker(state, draw)
    chosen: list[int] = []
    while len(chosen) < ask.count:
        candidate = best.next(len(chosen))
        if candidate is None:
            break
        chosen.append(int(rows[candidate]))
        state.place(candidate)
    return chosen


def _picker(state: _State, draw: Draw) -> _Picker:
    """The quickest way that is exact.

    A taste of the host scope changes with the host itself, so a line of hosts can be kept in order. One of a
    wider scope changes for all hosts of a domain at once, so each domain has a line of its own, as long as
    the wider tastes come first. Whatever is left is looked at stage by stage, every time.
    """
    wide = [taste.is_wide for taste in state.tastes]
    if draw.subset > 1 and state.tastes:
        return _Stages(state, draw)  # a lot is drawn among those that the soft policies leave
    if not any(wide):
        return _OneLine(state, draw)
    return _ManyLines(state) if wide == sorted(wide, reverse=True) else _Stages(state, draw)


def _begin(ask: Ask, fleet: Fleet, rows: Rows, lucky: Luck) -> _State:
    fits = times_it_fits(ask, fleet)[rows]
    state = _State(ask, fleet, rows, fleet.weight[rows], lucky, fits, np.zeros(rows.size, dtype=np.int64))
    if ask.forced:
        return state
    for policy in ask.group.policies:
        if policy.target is not None and not policy.kind.is_soft:
            continue  # the constraint ruled out what it rules out, for good
        domains = fleet.domains(policy.scope.id)
        counts = counts_by_domain(domains, fleet, ask.group.places)
        if policy.kind is PolicyKind.ANTI_AFFINITY:
            state.limits.append(_Limit(domains.of_host[rows], policy.limit - counts, is_wide=policy.scope != HOST))
        elif policy.kind is PolicyKind.AFFINITY and not counts[:NOWHERE].any():
            state.together.append(domains.of_host[rows])
    state.tastes += [_taste(soft, ask, fleet, rows) for soft in preferences.of(ask)]
    if state.together and ask.count > 1:
        state.fits[~_takes_most(state)] = 0
    return state


def _takes_most(state: _State) -> Mask:
    """Candidates in the domains that take the most of the batch, if all of it has to be in one.

    Exact unless the group stays apart by several scopes wider than a host, which may get in each other's way.
    """
    _, home = np.unique(np.stack(state.together), axis=1, return_inverse=True)
    home = home.reshape(-1)
    fits = np.minimum(state.fits, state.ask.count)
    for limit in state.limits:
        if not limit.is_wide:
            fits = np.minimum(fits, limit.left[limit.domain])
    most = np.minimum(_sums(home, fits), state.ask.count)
    for limit in state.limits:
        if limit.is_wide:
            parts, part = np.unique(np.stack([home, limit.domain]), axis=1, return_inverse=True)
            room = np.minimum(_sums(part.reshape(-1), fits), limit.left[parts[1]])
            most = np.minimum(most, _sums(parts[0], room))
    chosen: Mask = (most == most.max())[home]
    return chosen


def _sums(keys: NDArray[np.intp], amounts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The amounts of each key, which are numbers from zero, together."""
    found = np.zeros(int(keys.max()) + 1, dtype=np.int64)
    np.add.at(found, keys, amounts)
    return found


def _taste(soft: SoftPolicy, ask: Ask, fleet: Fleet, rows: Rows) -> _Taste:
    if soft.policy.target is not None:
        return _Taste(np.arange(rows.size, dtype=np.intp), soft.scores(ask, fleet)[rows], 0.0)
    domains = fleet.domains(soft.policy.scope.id)
    scores = soft.of_counts(counts_by_domain(domains, fleet, ask.group.places))
    together = soft.policy.kind is PolicyKind.SOFT_AFFINITY
    return _Taste(domains.of_host[rows], scores, 1.0 if together else -1.0, is_wide=soft.policy.scope != HOST)


class _Stages:
    """The best candidate when soft policies rank them: stage by stage, over those that are left."""

    def __init__(self, state: _State, draw: Draw) -> None:
        self._state, self._draw = state, draw
        self._alive = state.fits > 0
        self._last: int | None = None

    def next(self, step: int) -> int | None:
        state = self._state
        if self._last is not None:
            self._retire(self._last)
        left = np.flatnonzero(self._alive)
        if not left.size:
            return None
        for taste in state.tastes:
            scores = taste.score[taste.domain[left]]
            left = left[scores == scores.max()]
        self._last = _draw(state, left, self._draw, step)
        return self._last

    def _retire(self, placed: int) -> None:
        """Who may no longer, because of the last placement."""
        state = self._state
        state.reweigh(placed)
        self._alive[placed] = state.fits[placed] > 0
        for limit in state.limits:
            if limit.left[limit.domain[placed]] <= 0:
                self._alive &= limit.domain != limit.domain[placed]
        if placed == state.home:
            for domain in state.together:
                self._alive &= domain == domain[placed]


def _draw(state: _State, left: Rows, draw: Draw, step: int) -> int:
    """By weight, then by luck; or any of the first few."""
    if draw.subset == 1:
        weight = state.weight[left]
        left = left[weight == weight.max()]
        return int(left[state.luck[left].argmax()])
    order = np.lexsort((state.luck[left], state.weight[left]))[::-1][: draw.subset]
    return int(left[order[draw.index(step, order.size)]])


class _Line:
    """Candidates in order: by their own tastes, then weight, then luck.

    Those never chosen stand in line, best first; only as many are sorted as are likely to be needed. Those
    chosen before, who rank otherwise now, wait in a heap beside it.
    """

    def __init__(self, state: _State, members: Rows, *, is_sorted: bool = False) -> None:
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


class _OneLine:
    """No taste is wider than a host: all candidates stand in one line."""

    def __init__(self, state: _State, draw: Draw) -> None:
        self._line = _Line(state, np.arange(state.rows.size))
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


class _ManyLines:
    """Wider tastes come first: a line for each combination of their domains, and the firsts of all lines in a heap.

    What the heap says of a line may be too good, never too bad: a line that got better is put in anew, and one that
    got worse is noticed when its turn comes.
    """

    def __init__(self, state: _State) -> None:
        self._state = state
        self._wide = [taste for taste in state.tastes if taste.is_wide]
        combinations = np.stack([taste.domain for taste in self._wide])
        domains, cell_of = np.unique(combinations, axis=1, return_inverse=True)
        self._domains: list[list[int]] = domains.T.tolist()
        self._lines = [_Line(state, members, is_sorted=True) for members in _by_cell(state, cell_of)]
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


def _by_cell(state: _State, cell_of: NDArray[np.intp]) -> list[Rows]:
    """The candidates of each cell, best first."""
    near = [taste.score[taste.domain] for taste in reversed(state.tastes) if not taste.is_wide]
    order = np.lexsort((state.luck, state.weight, *near))[::-1]
    order = order[np.argsort(cell_of[order], kind="stable")]
    return np.split(order, np.cumsum(np.bincount(cell_of))[:-1])
