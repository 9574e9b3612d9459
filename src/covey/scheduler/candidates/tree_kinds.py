"""Kinds of trees: trees that look the same to a query serve one server all, or none of them does.

A search in one tree then holds for every tree of its kind. What a query sees of a provider is which needs it may
meet, which of the required traits it has, and how much of a class that several groups request.
"""

import numpy as np

from covey.scheduler.candidates.queries import UNSUFFIXED, CandidateQuery
from covey.scheduler.candidates.trees import needs_of
from covey.scheduler.columns import Rows, number_combinations
from covey.scheduler.fleet import Fleet

_MAX_SIGHTS = 128  # of providers


def kinds_of_trees(query: CandidateQuery, fleet: Fleet) -> Rows:
    """Return a number for each tree, equal for trees that look the same to the query."""
    anchored = fleet.trees.anchored
    needs = needs_of(query, fleet)
    columns = [need.allowed for need in needs]
    for group in query.groups:
        if group.suffix == UNSUFFIXED:
            columns += [fleet.traits.any_of(traits, anchored.provider) for traits in group.required]
    useful = np.logical_or.reduce(columns[: len(needs)])
    sights = [column * useful for column in (useful, *columns, *_shared_amounts(query, fleet))]
    sight = number_combinations(sights, useful.size)
    number = int(sight.max(initial=0)) + 1
    if number > _MAX_SIGHTS:
        return np.arange(anchored.starts.size)  # almost every tree is a kind of its own
    counts = (anchored.sums((sight == each) & useful) for each in range(number))
    return number_combinations(counts, anchored.starts.size)


def _shared_amounts(query: CandidateQuery, fleet: Fleet) -> list[Rows]:
    """Return what each provider can serve of the classes that several groups request, up to what they request."""
    rows, amounts, columns = fleet.trees.anchored.provider, query.amounts, list[Rows]()
    for name in sorted(query.contested):
        free = fleet.inventories.free_of(name)[rows]
        units = fleet.inventories.units.get(fleet.inventories.classes.get(name, -1))
        most = free if units is None else np.minimum(free, units[1, rows])
        columns.append(np.clip(most, 0, amounts[name]))
    return columns
