"""How often the providers of each tree can serve a query, in columns: an upper bound, exact where needs do not compete.

A need is met by one provider. Needs of different resource classes do not compete: then a tree serves as many servers as
its scarcest class allows. Where needs share a class, must be apart or have to bring traits together, the bound may be
too high; then the search for the providers of a server (`first_choice`) finds fewer.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from covey.scheduler.candidates.flat import can_allocate
from covey.scheduler.candidates.queries import UNSUFFIXED, CandidateQuery, RequestGroup
from covey.scheduler.candidates.trees import ResourceNeed, needs_of, searchable_trees, trees_with_traits
from covey.scheduler.fleet import Fleet, Mask

Amounts = NDArray[np.int64]

_MANY = 2**31  # more servers than a tree ever serves


def count_in_trees(query: CandidateQuery, fleet: Fleet) -> Amounts:
    """Return for each tree how many servers it serves at most."""
    needs, anchored = needs_of(query, fleet), fleet.trees.anchored
    most = np.where(trees_with_traits(query, fleet, needs), _MANY, 0)
    kinds = {group.suffix: _kind(group) for group in query.groups}
    alike = Counter(kinds[group.suffix] for group in query.groups)
    for need in needs:
        times = anchored.sums(_times(need, fleet))
        np.minimum(most, times // alike[kinds[need.suffix]], out=most)
    for name in query.contested:
        np.minimum(most, _sum_of(name, needs, fleet) // query.amounts[name], out=most)
    if query.isolate:
        groups = [need.allowed for need in needs if need.suffix != UNSUFFIXED]
        if groups:
            most[anchored.sums(np.logical_or.reduce(groups)) < len(groups)] = 0
    return most


def may_serve_in_trees(query: CandidateQuery, fleet: Fleet) -> Mask:
    """Return the trees that serve a server of a request as far as `count_in_trees` tells.

    A request names no aggregate and no tree: without traits and groups, each class is a matter of its own.
    """
    if query.contested or query.isolate:
        return count_in_trees(query, fleet) > 0
    if query.traits or len(query.groups) != 1 or query.groups[0].suffix != UNSUFFIXED:
        return searchable_trees(query, fleet, needs_of(query, fleet))
    able = np.ones(fleet.trees.anchored.starts.size, dtype=np.bool_)
    for name, amount in query.groups[0].resources.items():
        providers = fleet.class_providers(name)
        able &= providers.trees_with(can_allocate(fleet, name, amount, providers.provider))
    return able


def _kind(group: RequestGroup) -> object:
    """Return what makes two suffixed groups alike, so that the same providers serve them."""
    wanted = frozenset(group.resources.items()), frozenset(group.required), group.forbidden
    return group.suffix == UNSUFFIXED, *wanted, frozenset(group.member_of), group.not_member_of, group.in_tree


def _times(need: ResourceNeed, fleet: Fleet) -> Amounts:
    """Return how often each provider meets a need."""
    times = np.where(need.allowed, _MANY, 0)
    for name, amount in need.resources.items():
        np.minimum(times, _free(name, fleet) // amount, out=times)
    return times


def _sum_of(name: str, needs: Sequence[ResourceNeed], fleet: Fleet) -> Amounts:
    """Return what the providers of each tree have of a class, for all needs together."""
    able = np.logical_or.reduce([need.allowed for need in needs if name in need.resources])
    return fleet.trees.anchored.sums(np.where(able, _free(name, fleet), 0))


def _free(name: str, fleet: Fleet) -> Amounts:
    return np.maximum(fleet.inventories.free_of(name)[fleet.trees.anchored.provider], 0)
