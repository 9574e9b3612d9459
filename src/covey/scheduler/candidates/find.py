"""From a query and the providers to the candidates."""

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice

import numpy as np

from covey.model.vocabulary import CUSTOM
from covey.scheduler.candidates.flat import flat_candidates, flat_rows
from covey.scheduler.candidates.queries import CandidateQuery
from covey.scheduler.candidates.results import Candidate, CandidateResult, ProviderSummary, ResourceSummary
from covey.scheduler.candidates.trees import candidate, needs_of, serving_rows, tree_choices
from covey.scheduler.fleet import Fleet
from covey.scheduler.provider_trees import NO_PROVIDER


def find(query: CandidateQuery, fleet: Fleet, limit: int | None = None) -> CandidateResult:
    """Return the candidates, or the first `limit`, in an order that is stable while the providers are unchanged."""
    rows = flat_rows(query, fleet)[:limit].tolist()
    candidates = flat_candidates(query, fleet, rows)
    used = set(rows)
    if fleet.trees.anchored.roots.size and (limit is None or len(candidates) < limit):
        left = None if limit is None else limit - len(candidates)
        others, drawn_on = _in_trees(query, fleet, left)
        candidates += others
        used |= drawn_on
    shown = used if not query.nested else _whole_trees(used, fleet)
    return CandidateResult(tuple(candidates), tuple(summaries(shown, fleet)))


def _in_trees(query: CandidateQuery, fleet: Fleet, limit: int | None) -> tuple[list[Candidate], set[int]]:
    """Return candidates that span trees, and the rows of their providers."""
    needs = needs_of(query, fleet)
    choices = list(islice(tree_choices(query, fleet, needs), limit))
    used = set[int]().union(*(serving_rows(choice, needs) for choice in choices))
    return [candidate(choice, needs, fleet) for choice in choices], used


def _whole_trees(rows: set[int], fleet: Fleet) -> Iterable[int]:
    """Return the rows of every provider in the trees of these rows."""
    whole = np.zeros(len(fleet), dtype=np.bool_)
    whole[fleet.root[np.fromiter(rows, dtype=np.intp, count=len(rows))]] = True
    rows_of_trees: list[int] = np.flatnonzero(whole[fleet.root]).tolist()
    return rows_of_trees


def summaries(rows: Iterable[int], fleet: Fleet) -> list[ProviderSummary]:
    """Return the summaries of the providers in these rows, in row order."""
    ordered = np.array(sorted(rows), dtype=np.intp)
    resources: list[dict[str, ResourceSummary]] = [{} for _ in range(ordered.size)]
    for name, line in fleet.inventories.classes.items():
        places = np.flatnonzero(fleet.inventories.exists[line, ordered])
        capacity, free = fleet.capacity[line, ordered[places]], fleet.free[line, ordered[places]]
        for place, most, used in zip(places.tolist(), capacity.tolist(), (capacity - free).tolist(), strict=True):
            resources[place][name] = ResourceSummary(most, used)
    uuids = fleet.uuids
    parents, roots = fleet.parent[ordered].tolist(), fleet.root[ordered].tolist()
    return [
        ProviderSummary(
            uuids[row],
            None if parent == NO_PROVIDER else uuids[parent],
            uuids[root],
            ordered_traits(fleet.traits[row]),
            has,
        )
        for row, parent, root, has in zip(ordered.tolist(), parents, roots, resources, strict=True)
    ]


@lru_cache(maxsize=4096)
def ordered_traits(traits: frozenset[str]) -> tuple[str, ...]:
    """Return traits in the order of the API: standard ones, then custom ones, each by name."""
    return tuple(sorted(traits, key=lambda trait: (trait.startswith(CUSTOM), trait)))
