"""Depth-first search over all placements of a batch whose servers several providers serve together.

Serving host by host places fewer servers than fit if hosts compete for a provider: the search for one host takes the
first providers that serve it, although others would leave room for another host. This search tries every host and
every choice of its providers for each server, so it proves how many servers fit if it ends within its budget.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from covey.model.claims import Allocations
from covey.model.ids import HostId
from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.max_flow import Budget
from covey.scheduler.provider_allocations import all_allocations_on
from covey.scheduler.request_spec import RequestSpec
from covey.scheduler.room import count_fits

_STEPS_PER_SERVER, _ROWS_PER_STEP = 200, 20  # the constraints of one more server, and their columns
_STEPS_PER_HOST, _STEPS_PER_OPTION = 100, 20

Constraints = Callable[[RequestSpec, Fleet], Mask]
"""The hosts that all constraints admit."""


class _Placed(NamedTuple):
    """A server on a host. Equal servers are tried in one order alone: by rows, and on one row by what they take."""

    row: int
    key: tuple[tuple[int, tuple[tuple[str, int], ...]], ...]
    allocations: Allocations


@dataclass(slots=True)
class Placement:
    """The host of each server, and what it takes of each provider."""

    hosts: list[HostId] = field(default_factory=list)
    allocations: list[Allocations] = field(default_factory=list)


class TreeBatchSearch:
    """The search of one decision for a placement of more servers than are known to fit."""

    def __init__(self, spec: RequestSpec, fleet: Fleet, constraints: Constraints, budget: Budget) -> None:
        self._spec, self._constraints, self._budget = spec, constraints, budget
        self._fleet = fleet.copy()
        self._placed: list[_Placed] = []
        self._most = 0

    def more_than(self, number: int) -> Placement | None:
        """Return a placement of the most servers that fit, up to the count; None if that is no more than `number`.

        It is the best one that was found if the budget is spent.
        """
        self._most, best = number, None
        levels = [self._options()]  # of the next server, after those that are placed
        while levels and self._most < self._spec.count and not self._budget.spent:
            option = next(levels[-1], None)
            if option is None:
                levels.pop()
                if self._placed:
                    self._take(self._placed.pop(), -1)
                continue
            self._placed.append(option)
            self._take(option, 1)
            if len(self._placed) > self._most:
                self._most, best = len(self._placed), self._placement()
            levels.append(self._options())
        return best

    def _options(self) -> Iterator[_Placed]:
        """Yield each host and choice of the next server, until a bound shows that no more servers would fit.

        The budget may end it.
        """
        self._budget.left -= _STEPS_PER_SERVER + len(self._fleet) // _ROWS_PER_STEP
        last = self._placed[-1] if self._placed else None
        spec = replace(self._spec, count=self._spec.count - len(self._placed))
        spec = replace(spec, group=replace(spec.group, members_by_host=self._members_by_host()))
        mask = self._constraints(spec, self._fleet)
        if last is not None:
            mask = mask & (np.arange(mask.size) >= last.row)
        rows = np.flatnonzero(mask)
        fits = np.minimum(count_fits(spec, self._fleet)[rows], spec.count)
        for row, left in zip(rows.tolist(), np.cumsum(fits[::-1])[::-1].tolist(), strict=True):
            if len(self._placed) + min(spec.count, left) <= self._most or self._budget.spent:
                return
            self._budget.left -= _STEPS_PER_HOST
            tried = set()
            for allocations in all_allocations_on(spec, self._fleet, row, self._budget):
                self._budget.left -= _STEPS_PER_OPTION
                key = tuple(sorted((each, tuple(sorted(amounts.items()))) for each, amounts in allocations.items()))
                if key not in tried and (last is None or (row, key) >= (last.row, last.key)):
                    tried.add(key)
                    yield _Placed(row, key, allocations)

    def _members_by_host(self) -> Counter[int]:
        return Counter[int](self._spec.group.members_by_host) + Counter[int](self._placement().hosts)

    def _placement(self) -> Placement:
        hosts = [HostId(self._fleet.ids.item(each.row)) for each in self._placed]
        return Placement(hosts, [each.allocations for each in self._placed])

    def _take(self, placed: _Placed, times: int) -> None:
        self._fleet.take_all((provider, amounts * times) for provider, amounts in placed.allocations.items())
