"""From a question and the providers to the answer."""

from collections.abc import Iterable
from itertools import islice

import numpy as np

from covey.scheduler.candidates.flat import flat_candidates, flat_rows
from covey.scheduler.candidates.found import Candidate, Found, Room, Summary
from covey.scheduler.candidates.providers import NOBODY, Providers
from covey.scheduler.candidates.queries import Query
from covey.scheduler.candidates.trees import candidate, givers, needs_of, tree_choices


def find(query: Query, providers: Providers, limit: int | None = None) -> Found:
    """The ways to meet the question, or the first so many: always the same ones while nothing changes."""
    rows = flat_rows(query, providers)[:limit].tolist()
    candidates = flat_candidates(query, providers, rows)
    used = set(rows)
    if providers.reach.starts.size and (limit is None or len(candidates) < limit):
        left = None if limit is None else limit - len(candidates)
        others, drawn_on = _in_trees(query, providers, left)
        candidates += others
        used |= drawn_on
    shown = used if not query.nested else _whole_trees(used, providers)
    return Found(tuple(candidates), tuple(summaries(shown, providers)))


def _in_trees(query: Query, providers: Providers, limit: int | None) -> tuple[list[Candidate], set[int]]:
    """Candidates of trees, and the providers that they draw on."""
    needs = needs_of(query, providers)
    choices = list(islice(tree_choices(query, providers, needs), limit))
    used = set[int]().union(*(givers(choice, needs) for choice in choices))
    return [candidate(choice, needs, providers) for choice in choices], used


def _whole_trees(rows: set[int], providers: Providers) -> Iterable[int]:
    """All the providers of the trees that those are in."""
    whole = np.zeros(len(providers), dtype=np.bool_)
    whole[providers.root[np.fromiter(rows, dtype=np.intp, count=len(rows))]] = True
    everybody: list[int] = np.flatnonzero(whole[providers.root]).tolist()
    return everybody


def summaries(rows: Iterable[int], providers: Providers) -> list[Summary]:
    """The state of those providers, in the order of their rows."""
    wanted = np.array(sorted(rows), dtype=np.intp)
    rooms: list[dict[str, Room]] = [{} for _ in range(wanted.size)]
    for name, stock in providers.stocks.items():
        for place, capacity, used in zip(*stock.among(wanted), strict=True):
            rooms[place][name] = Room(capacity, used)
    uuids = providers.uuids
    parents, roots = providers.parent[wanted].tolist(), providers.root[wanted].tolist()
    return [
        Summary(uuids[row], None if parent == NOBODY else uuids[parent], uuids[root], providers.traits_of(row), has)
        for row, parent, root, has in zip(wanted.tolist(), parents, roots, rooms, strict=True)
    ]
