"""From a query and the providers to the candidates."""

from collections.abc import Iterable
from itertools import islice

import numpy as np

from covey.scheduler.candidates.flat import flat_candidates, flat_rows
from covey.scheduler.candidates.providers import NO_PROVIDER, Providers
from covey.scheduler.candidates.queries import CandidateQuery
from covey.scheduler.candidates.results import Candidate, CandidateResult, ProviderSummary, ResourceSummary
from covey.scheduler.candidates.trees import candidate, needs_of, serving_rows, tree_choices


def find(query: CandidateQuery, providers: Providers, limit: int | None = None) -> CandidateResult:
    """Return the candidates, or the first `limit`, in an order that is stable while the providers are unchanged."""
    rows = flat_rows(query, providers)[:limit].tolist()
    candidates = flat_candidates(query, providers, rows)
    used = set(rows)
    if providers.anchored.starts.size and (limit is None or len(candidates) < limit):
        left = None if limit is None else limit - len(candidates)
        others, drawn_on = _in_trees(query, providers, left)
        candidates += others
        used |= drawn_on
    shown = used if not query.nested else _whole_trees(used, providers)
    return CandidateResult(tuple(candidates), tuple(summaries(shown, providers)))


def _in_trees(query: CandidateQuery, providers: Providers, limit: int | None) -> tuple[list[Candidate], set[int]]:
    """Return candidates that span trees, and the rows of their providers."""
    needs = needs_of(query, providers)
    choices = list(islice(tree_choices(query, providers, needs), limit))
    used = set[int]().union(*(serving_rows(choice, needs) for choice in choices))
    return [candidate(choice, needs, providers) for choice in choices], used


def _whole_trees(rows: set[int], providers: Providers) -> Iterable[int]:
    """Return the rows of every provider in the trees of these rows."""
    whole = np.zeros(len(providers), dtype=np.bool_)
    whole[providers.root[np.fromiter(rows, dtype=np.intp, count=len(rows))]] = True
    rows_of_trees: list[int] = np.flatnonzero(whole[providers.root]).tolist()
    return rows_of_trees


def summaries(rows: Iterable[int], providers: Providers) -> list[ProviderSummary]:
    """Return the summaries of these providers, in row order."""
    ordered = np.array(sorted(rows), dtype=np.intp)
    resources: list[dict[str, ResourceSummary]] = [{} for _ in range(ordered.size)]
    for name, column in providers.inventories_by_class.items():
        for place, capacity, used in zip(*column.among(ordered), strict=True):
            resources[place][name] = ResourceSummary(capacity, used)
    uuids = providers.uuids
    parents, roots = providers.parent[ordered].tolist(), providers.root[ordered].tolist()
    return [
        ProviderSummary(
            uuids[row], None if parent == NO_PROVIDER else uuids[parent], uuids[root], providers.traits_of(row), has
        )
        for row, parent, root, has in zip(ordered.tolist(), parents, roots, resources, strict=True)
    ]
