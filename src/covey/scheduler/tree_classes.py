"""Groups equivalent provider trees: if one can serve the request, all of its class can.

A search in one tree then holds for every tree of its class. What a query sees of a provider is which needs it may
meet, which of the required traits it has, and how much of a class that several groups request.
"""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from covey.scheduler.candidates.queries import UNSUFFIXED, CandidateQuery
from covey.scheduler.candidates.trees import ResourceNeed, by_providers
from covey.scheduler.columns import Mask, Rows, combinations, number_combinations
from covey.scheduler.fleet import Fleet
from covey.scheduler.provider_trees import AnchoredProviders

_MAX_PROVIDER_CLASSES = 128
_FEW_PROVIDER_CLASSES = 16  # of which some may not occur
_MAX_COUNTS = 2**12  # combinations of counts that are added up at once


def tree_classes(query: CandidateQuery, fleet: Fleet, needs: Sequence[ResourceNeed]) -> Rows:
    """Return a number for each tree, equal for trees that look the same to the query."""
    anchored, trees = fleet.trees.anchored, fleet.trees.anchored.roots.size
    groups = by_providers(needs)
    if any(one.overlaps(other) for (one, _), (other, _) in itertools.combinations(groups, 2)):
        # A provider looks like all that its groups see of it.
        groups = [(anchored, [need.among_all(anchored) for need in needs])]
    columns = list[Rows]()
    for providers, same in groups:
        provider_class, number = _provider_classes(query, fleet, providers, same)
        if number > _MAX_PROVIDER_CLASSES:
            return np.arange(trees)  # almost every tree is a class of its own
        columns += _counts(providers, provider_class, number)
    return number_combinations(columns, trees)


def _counts(providers: AnchoredProviders, provider_class: Rows, number: int) -> Iterator[Rows]:
    """Yield numbers of trees that tell apart how many providers of each class they have, except class zero."""
    base = (providers.each or int(np.diff(providers.starts).max(initial=0))) + 1  # more than any count
    at_once = max(1, int(math.log(_MAX_COUNTS, base)))
    for first in range(1, number + 1, at_once):
        weights = np.zeros(number + 1, dtype=np.int64)
        weights[first : first + at_once] = [base**place for place in range(min(at_once, number + 1 - first))]
        yield providers.sums(weights[provider_class])


def _provider_classes(
    query: CandidateQuery, fleet: Fleet, rows: AnchoredProviders, needs: Sequence[ResourceNeed]
) -> tuple[Rows, int]:
    """Number what the query sees of each provider: zero where it may meet no need. Return also the highest number."""
    masks = [need.allowed for need in needs]
    useful: Mask = masks[0] if len(masks) == 1 else np.logical_or.reduce(masks)
    for group in query.groups:
        if group.suffix == UNSUFFIXED:
            masks += [rows.traits.any_of(traits) for traits in group.required]
    numbers, most = combinations([*masks, *_shared_amounts(query, fleet, rows.provider)], useful.size)
    if most > _FEW_PROVIDER_CLASSES:
        numbers = number_combinations([numbers], useful.size)
        most = int(numbers.max()) + 1
    return (numbers + 1 if useful.all() else (numbers + 1) * useful), most


def _shared_amounts(query: CandidateQuery, fleet: Fleet, rows: Rows) -> list[Rows]:
    """Return what each provider can serve of the classes that several groups request, up to what they request."""
    amounts, columns = query.amounts, list[Rows]()
    for name in sorted(query.contested):
        free = fleet.inventories.free_of(name)[rows]
        units = fleet.inventories.units.get(fleet.inventories.classes.get(name, -1))
        most = free if units is None else np.minimum(free, units[1, rows])
        columns.append(np.clip(most, 0, amounts[name]))
    return columns
