"""How often the providers of each tree can serve a query, in columns: an upper bound, exact where needs do not compete.

A need is met by one provider. Needs of different resource classes do not compete: then a tree serves as many servers as
its scarcest class allows. Where needs share a class, must be apart or have to bring traits together, the bound may be
too high; then the search for the providers of a server (`first_choice`) finds fewer.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from covey.scheduler.candidates.queries import UNSUFFIXED, CandidateQuery, RequestGroup
from covey.scheduler.candidates.trees import ResourceNeed, by_providers, needs_of, searchable_trees, trees_with_traits
from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.provider_trees import AnchoredProviders

Amounts = NDArray[np.int64]

_MANY = 2**31  # more servers than a tree ever serves


def count_in_trees(query: CandidateQuery, fleet: Fleet) -> Amounts:
    """Return for each tree how many servers it serves at most."""
    needs = needs_of(query, fleet)
    most = np.where(trees_with_traits(query, fleet, needs), _MANY, 0)
    for need, alike in _distinct(query, needs):
        times = need.providers.sums(_times(need, fleet))
        np.minimum(most, times if alike == 1 else times // alike, out=most)
    for name in query.contested:
        np.minimum(most, _sum_of(name, needs, fleet) // query.amounts[name], out=most)
    most[~_have_enough_providers(query, needs, fleet)] = 0
    return most


def may_serve_in_trees(query: CandidateQuery, fleet: Fleet) -> Mask:
    """Return the trees for which `count_in_trees` is at least one: comparisons, which cost less than divisions."""
    needs = needs_of(query, fleet)
    possible = searchable_trees(query, fleet, needs)
    for need, alike in _distinct(query, needs):
        if alike > 1:
            possible &= need.providers.sums(_times_up_to(alike, need, fleet)) >= alike
    for name in query.contested:
        possible &= _sum_of(name, needs, fleet) >= query.amounts[name]
    return possible & _have_enough_providers(query, needs, fleet)


def _have_enough_providers(query: CandidateQuery, needs: Sequence[ResourceNeed], fleet: Fleet) -> Mask:
    """Return the trees with as many providers as suffixed groups that have to be apart."""
    groups = [need for need in needs if need.suffix != UNSUFFIXED] if query.isolate else []
    if not groups:
        return np.ones(fleet.trees.anchored.roots.size, dtype=np.bool_)
    providers, able = _able(groups, fleet)
    enough: Mask = providers.sums(able) >= len(groups)
    return enough


def _distinct(query: CandidateQuery, needs: Sequence[ResourceNeed]) -> Iterator[tuple[ResourceNeed, int]]:
    """Yield each need, and how many suffixed groups are alike; of these the first one's need alone."""
    kinds = {group.suffix: _kind(group) for group in query.groups}
    alike = Counter(kinds.values())
    first = {kind: suffix for suffix, kind in reversed(kinds.items())}
    return ((need, alike[kinds[need.suffix]]) for need in needs if first[kinds[need.suffix]] == need.suffix)


def _kind(group: RequestGroup) -> object:
    """Return what makes two suffixed groups alike, so that the same providers serve them."""
    wanted = frozenset(group.resources.items()), frozenset(group.required), group.forbidden
    return group.suffix == UNSUFFIXED, *wanted, frozenset(group.member_of), group.not_member_of, group.in_tree


def _times(need: ResourceNeed, fleet: Fleet) -> Amounts:
    """Return how often each provider meets a need."""
    times = np.where(need.allowed, _MANY, 0)
    for name, amount in need.resources.items():
        np.minimum(times, _free(name, fleet, need.providers) // amount, out=times)
    return times


def _times_up_to(most: int, need: ResourceNeed, fleet: Fleet) -> Amounts:
    """Return how often each provider meets a need, up to a number."""
    times = need.allowed.astype(np.int64)  # once
    able = need.allowed
    free = {name: _free(name, fleet, need.providers) for name in need.resources}
    for number in range(2, most + 1):
        able = np.logical_and.reduce([able, *(free[name] >= number * each for name, each in need.resources.items())])
        times += able
    return times


def _sum_of(name: str, needs: Sequence[ResourceNeed], fleet: Fleet) -> Amounts:
    """Return what the providers of each tree have of a class, for all needs together."""
    providers, able = _able([need for need in needs if name in need.resources], fleet)
    return providers.sums(np.where(able, _free(name, fleet, providers), 0))


def _able(needs: Sequence[ResourceNeed], fleet: Fleet) -> tuple[AnchoredProviders, Mask]:
    """Return providers, and which of them meet one of the needs; no others do."""
    (providers, same), *others = by_providers(needs)
    if not others:
        return providers, np.logical_or.reduce([need.allowed for need in same])
    anchored = fleet.trees.anchored
    return anchored, np.logical_or.reduce([need.among_all(anchored).allowed for need in needs])


def _free(name: str, fleet: Fleet, providers: AnchoredProviders) -> Amounts:
    return np.maximum(fleet.inventories.free_of(name)[providers.provider], 0)
