"""What a batch knows as it goes: the candidates, and what each placement did to them."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from covey.scheduler.ask import Ask
from covey.scheduler.fleet import Column, Fleet, Rows
from covey.scheduler.luck import luck

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
class Limit:
    """A hard anti-affinity policy: how many more each domain may take."""

    domain: NDArray[np.intp]  # of each candidate
    left: NDArray[np.int64]  # of each domain
    is_wide: bool = False  # a domain may have several hosts


@dataclass(slots=True)
class Taste:
    """A soft policy: the score of each domain, which changes as the batch goes."""

    domain: NDArray[np.intp]  # of each candidate
    score: Column  # of each domain
    step: float  # by how much one more member changes its domain's score
    is_wide: bool = False  # a domain may have several hosts

    def of(self, candidate: int) -> float:
        return self.score.item(self.domain.item(candidate))


@dataclass(slots=True)
class State:
    """The candidates (hosts that may take the first server) and what placements did to them."""

    ask: Ask
    fleet: Fleet
    rows: Rows
    weight: Column
    luck: Luck
    fits: NDArray[np.int64]
    taken: NDArray[np.int64]
    limits: list[Limit] = field(default_factory=list)
    together: list[NDArray[np.intp]] = field(default_factory=list)  # hard affinity that no member decided yet
    home: int | None = None  # the first candidate that was chosen, which decides it
    tastes: list[Taste] = field(default_factory=list)

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
