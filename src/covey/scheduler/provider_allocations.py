"""Which resource providers serve a server on a chosen host: the host alone, or others of its tree as well."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from covey.model.claims import Allocations
from covey.model.resources import Resources
from covey.scheduler.candidates.trees import ResourceNeed, choices_on, first_choice, has_choice, needs_of
from covey.scheduler.columns import Rows
from covey.scheduler.fleet import UNLIMITED, Fleet, Mask
from covey.scheduler.max_flow import Budget
from covey.scheduler.request_spec import RequestSpec
from covey.scheduler.room import query_of, served_alone
from covey.scheduler.tree_classes import tree_classes

MAX_STEPS = 30_000  # of the searches of a decision: about 30 ms, with the fleet locked
_STEPS_PER_SERVER, _STEPS_PER_FAILURE = 100, 200
_STEPS_TOGETHER, _MAX_TOGETHER = 2_000, 8  # of a search for several servers on one host, and how many they are
_MAX_ORDERS = 8  # in which hosts that share providers are served


@dataclass(slots=True)
class ProviderAllocations:
    """The row of each server that is served, what it takes of each provider, and the rows that serve no more."""

    rows: list[int] = field(default_factory=list)
    allocations: list[Allocations] = field(default_factory=list)
    full: list[int] = field(default_factory=list)


class TreeSearch:
    """The searches of one decision for the providers of its servers.

    `most` is how many servers each row serves at most, where that is fewer than its columns say. It is `exact` unless
    other servers held what the row lacked, or the search for another server was too long.
    """

    def __init__(self, spec: RequestSpec, fleet: Fleet, budget: Budget | None = None) -> None:
        self.budget = budget or search_budget(spec.count)
        self.most = np.full(len(fleet), UNLIMITED, dtype=np.int64)
        self.exact = True
        self.findings = 0  # grows whenever `most` changes
        self._spec, self._fleet = spec, fleet
        self._tree_classes: Rows | None = None

    def still_open(self, mask: Mask, held: NDArray[np.int64]) -> Mask:
        """Return the rows of the mask that may serve more servers than they hold."""
        return mask & (self.most > held) if self.findings else mask

    def serve(self, left: Fleet, rows: Sequence[int], held: NDArray[np.int64]) -> ProviderAllocations:
        """Serve a server on each of the rows, which may repeat, as far as the providers allow and the budget lasts.

        `held` is how many servers each row has already. The servers take their room of the fleet that is left, unless
        the request is for one: then none follows.
        """
        by_row, full = self._in_good_order(left, Counter(rows), held)
        served = ProviderAllocations(full=full)
        nexts = {row: iter(found) for row, found in by_row.items()}
        for row in rows:
            allocations = next(nexts[row], None)
            if allocations is not None:
                served.rows.append(row)
                served.allocations.append(allocations)
        return served

    def _in_good_order(
        self, left: Fleet, wanted: Mapping[int, int], held: NDArray[np.int64]
    ) -> tuple[dict[int, list[Allocations]], list[int]]:
        """Serve hosts with few providers first. Those that lack what others took are served before them next."""
        sharing = {row for row in wanted if _shares(left, row)} if left.trees.shared.any() else set()
        order = sorted(wanted, key=lambda row: _size(left, row)) if sharing else [*wanted]
        for more_orders in reversed(range(_MAX_ORDERS)):
            by_row, complete = dict[int, list[Allocations]](), dict[int, bool]()
            for row in order:
                by_row[row], complete[row] = self._serve_on(left, row, wanted[row])
            full = [row for row in order if len(by_row[row]) < wanted[row]]
            late = [row for row in full if row in sharing and row != order[0]]
            if not late or not more_orders or self.budget.spent:
                break
            for found in by_row.values():
                self._take(left, found, -1)
            order = [*late, *(row for row in order if row not in late)]
        for row in full:
            self._note(row, len(by_row[row]), held.item(row), complete=complete[row])
        return by_row, full

    def _serve_on(self, left: Fleet, row: int, number: int) -> tuple[list[Allocations], bool]:
        """Serve up to this number of servers on one row. Return also whether it certainly serves no more of them."""
        found: list[Allocations] = []
        while len(found) < number and self.most[row] and not self.budget.spent:
            allocations = allocations_on(self._spec, left, row, self.budget)
            if allocations is None:
                self.budget.left -= _STEPS_PER_FAILURE
                break
            missing = number - len(found)
            more = [allocations] * (min(missing, _multiples(allocations, left)) if missing > 1 else 1)
            self._take(left, more)
            found += more
        if found and len(found) < number and not self.budget.spent:
            return self._together(left, row, found, number)
        return found, not self.budget.spent

    def _together(self, left: Fleet, row: int, found: list[Allocations], number: int) -> tuple[list[Allocations], bool]:
        """Search for more servers than were served one after another: each may take what another one needs."""
        self._take(left, found, -1)
        complete = False
        while len(found) < min(number, _MAX_TOGETHER):
            budget = Budget(min(_STEPS_TOGETHER, self.budget.left))
            self.budget.left -= budget.left
            more = _several_on(self._spec, left, row, budget, len(found) + 1)
            self.budget.left += max(0, budget.left)
            if more is None:
                complete = not budget.spent
                break
            found = more
        self._take(left, found)
        return found, complete

    def _take(self, left: Fleet, served: list[Allocations], times: int = 1) -> None:
        if self._spec.count > 1:
            left.take_all((row, amounts * times) for allocations in served for row, amounts in allocations.items())

    def _note(self, row: int, served: int, held: int, *, complete: bool) -> None:
        """Note that a row serves no more than these servers and those that it held."""
        self.findings += served + held < self.most[row]
        shares = _shares(self._fleet, row)
        if not served and not held and self.most[row]:
            alone = allocations_on(self._spec, self._fleet, row, self.budget) if shares else None
            if alone is None and not self.budget.spent:
                self.most[self._alike(row)] = 0
                return
        if served + held < self.most[row]:
            self.exact = self.exact and complete and not shares and not held
        self.most[row] = min(self.most[row], served + held)

    def _alike(self, row: int) -> Rows:
        """Return the roots of the trees that serve one server if the tree of this root does."""
        roots = self._fleet.trees.anchored.roots
        if self._tree_classes is None:
            query = query_of(self._spec)
            self._tree_classes = tree_classes(query, self._fleet, needs_of(query, self._fleet))
        found: Rows = roots[self._tree_classes == self._tree_classes[np.searchsorted(roots, row)]]
        return found


class NotTogether(NamedTuple):
    """Hosts whose providers have room for a server, but do not serve it together."""

    never: Mask
    unknown: Mask  # the search stopped at its limit


def not_together(spec: RequestSpec, fleet: Fleet, among: Mask) -> NotTogether | None:
    """Search all trees among these hosts for providers that serve one server: a search for each class of trees.

    None if these hosts serve it alone.
    """
    trees = fleet.trees
    if not trees.anchored.roots.size:
        return None
    doubtful = (among & ~served_alone(spec, fleet)).take(trees.anchored.roots)
    if not doubtful.any():
        return None
    query = query_of(spec)
    needs = needs_of(query, fleet)
    classes = tree_classes(query, fleet, needs)
    number = np.bincount(classes if doubtful.all() else classes[doubtful], minlength=int(classes.max()) + 1)
    budget, never, unknown = search_budget(1), np.zeros(number.size, dtype=np.bool_), number > 0
    for each in np.argsort(-number, kind="stable")[: np.count_nonzero(number)].tolist():  # the most frequent ones first
        first = int((doubtful & (classes == each)).argmax())
        serves = has_choice(query, fleet, needs, first, budget)
        unknown[each] = not serves and budget.spent
        never[each] = not serves and not unknown[each]
        budget.left -= _STEPS_PER_FAILURE
        if budget.spent:
            break
    return NotTogether(trees.at_roots(doubtful & never.take(classes)), trees.at_roots(doubtful & unknown.take(classes)))


def search_budget(count: int) -> Budget:
    """Return the steps that the search for the providers of this number of servers may take."""
    return Budget(MAX_STEPS + _STEPS_PER_SERVER * count)


def allocations_on(spec: RequestSpec, fleet: Fleet, row: int, budget: Budget) -> Allocations | None:
    """Return what one server takes of each provider, on the host of a row; None if they cannot serve it together."""
    if _serves_alone_at(spec, fleet, row):
        return {int(fleet.ids[row]): spec.total}
    found = _several_on(spec, fleet, row, budget, 1)
    return found[0] if found else None


def all_allocations_on(spec: RequestSpec, fleet: Fleet, row: int, budget: Budget) -> Iterator[Allocations]:
    """Yield what one server may take of each provider, on the host of a row. The budget may end the search."""
    if not fleet.trees.anchored.tree_of(row).provider.size:
        if _serves_alone_at(spec, fleet, row):
            yield {int(fleet.ids[row]): spec.total}
        return
    for choice, needs in choices_on(query_of(spec), fleet, row, budget):
        yield _allocations(fleet, zip(choice, needs, strict=True))


def _several_on(spec: RequestSpec, fleet: Fleet, row: int, budget: Budget, servers: int) -> list[Allocations] | None:
    """Return what each of some servers takes, if the providers of one tree serve them all."""
    found = first_choice(query_of(spec), fleet, row, budget, servers)
    if found is None:
        return None
    taken = list(zip(*found, strict=True))
    length = len(taken) // servers
    return [_allocations(fleet, taken[start : start + length]) for start in range(0, len(taken), length)]


def _allocations(fleet: Fleet, served: Iterable[tuple[int, ResourceNeed]]) -> Allocations:
    taken: dict[int, dict[str, int]] = {}
    for provider, need in served:
        for name, amount in need.resources.items():
            amounts = taken.setdefault(fleet.ids.item(provider), {})
            amounts[name] = amounts.get(name, 0) + amount
    return {provider: Resources(amounts) for provider, amounts in taken.items()}


def _serves_alone_at(spec: RequestSpec, fleet: Fleet, row: int) -> bool:
    """Return `served_alone` for one row."""
    return bool(served_alone(spec, fleet, np.array([row], dtype=np.intp))[0])


def _multiples(allocations: Allocations, fleet: Fleet) -> int:
    """Return how many times the providers have room for these allocations."""
    free, classes = fleet.free, fleet.inventories.classes
    multiples = (
        int(free[classes[name], fleet.row_of[provider]]) // amount
        for provider, amounts in allocations.items()
        for name, amount in amounts.items()
    )
    return min(multiples, default=UNLIMITED)  # a server may take nothing


def _shares(fleet: Fleet, row: int) -> bool:
    """Return whether trees compete for a provider that may serve a server on this row."""
    return bool(fleet.trees.shared[fleet.trees.anchored.tree_of(row).provider].any())


def _size(fleet: Fleet, row: int) -> int:
    """Return how many providers may serve a server on this row."""
    return fleet.trees.anchored.tree_of(row).provider.size
