"""Room: which hosts have enough of each resource for one server, and for how many.

Most hosts serve all resources alone. A host with nested or sharing providers may serve some by them, and one server is
then allocated on several providers. How many servers a tree serves at most is a column; `provider_allocations` searches
the combination of providers for chosen hosts only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from covey.model.resources import GranularGroup, Resources
from covey.scheduler.candidates.flat import serves_alone
from covey.scheduler.candidates.queries import CandidateQuery, RequestGroup
from covey.scheduler.columns import ALL, Rows, groups_of, number_combinations
from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.reasons import Reason, Sentences
from covey.scheduler.request_spec import RequestSpec
from covey.scheduler.tree_counts import count_in_trees, may_serve_in_trees

# Other classes have their own names.
_WORDS = {"VCPU": "VCPUs", "MEMORY_MB": "memory", "DISK_GB": "disk"}
_UNITS = {"VCPU": "VCPUs", "MEMORY_MB": "MB of memory", "DISK_GB": "GB of disk"}
APART = "its resource providers do not serve the request together"
NOT_TOGETHER = "has no providers that serve it together", "have no providers that serve it together"


@dataclass(frozen=True, slots=True)
class Room:
    """The amounts are free, by allocation ratio and reserved amount, and the host's inventory allows their sizes."""

    def allows(self, spec: RequestSpec, fleet: Fleet) -> Mask:
        return has_room(spec, fleet)

    def reasons(self, spec: RequestSpec, fleet: Fleet, rejected: Mask) -> list[Reason]:
        found, rest = [], rejected
        for name, amount in spec.total.items():
            lacks = rest & lacks_class(fleet, name, amount)
            rest, word = rest & ~lacks, _WORDS.get(name, name)
            found.append(Reason(lacks, f"lacks {word}", f"lack {word}"))
        allowed = fleet.inventories.allows_sizes(spec.total)
        if allowed is not None:
            one, many = "does not allow this allocation size", "do not allow this allocation size"
            found.append(Reason(rest & ~allowed, one, many))
            rest = rest & allowed
        return [*found, Reason(rest, *NOT_TOGETHER)]

    def explain_hosts(self, spec: RequestSpec, fleet: Fleet, rows: Rows) -> Sentences:
        free = {name: largest_free(fleet, name)[rows] for name in spec.total}
        alike = [np.clip(free[name], 0, amount) for name, amount in spec.total.items()]
        restricted = fleet.inventories.units.items()
        alike += [units[kind, rows] for line, units in restricted for kind in range(len(units))]
        for _, places in groups_of(number_combinations(alike, rows.size), np.arange(rows.size)):
            of_host = {name: free[name].item(places[0]) for name in spec.total}
            yield rows[places], _explain(spec, fleet, rows.item(places[0]), of_host)


def _explain(spec: RequestSpec, fleet: Fleet, row: int, free: Mapping[str, int]) -> str:
    """Explain a host to an administrator, by the largest free amount of each class there."""
    short, sizes = [], []
    for name, amount in spec.total.items():
        unit, units = _UNITS.get(name, name), fleet.inventories.units_at(name, row)
        if free[name] < amount:
            short.append(f"{max(0, free[name])} {unit} are free, {amount} requested")
        if not units.allow(amount):
            allowed = f"from {units.min_unit} to {units.max_unit} in steps of {units.step_size}"
            sizes.append(f"{unit} are allocated {allowed}, {amount} requested")
    return "; ".join(short + sizes) or APART


def has_room(spec: RequestSpec, fleet: Fleet) -> Mask:
    """Return the hosts that have room for one server. In a tree, the providers with room may not combine."""
    alone = served_alone(spec, fleet)
    anchored = fleet.trees.anchored
    if not anchored.roots.size:
        return alone
    return alone | fleet.trees.at_roots(may_serve_in_trees(query_of(spec), fleet))


def count_fits(spec: RequestSpec, fleet: Fleet) -> NDArray[np.int64]:
    """Return how many servers each host has room for; in a tree, how many it has room for at most."""
    anchored = fleet.trees.anchored
    if not spec.granular and not anchored.roots.size:
        return fleet.inventories.count_fits(spec.amounts)
    counts = np.where(served_alone(spec, fleet), fleet.inventories.count_multiples(spec.total), 0)
    if anchored.roots.size:
        roots = anchored.roots
        counts[roots] = np.maximum(counts[roots], count_in_trees(query_of(spec), fleet))
    return counts


def served_alone(spec: RequestSpec, fleet: Fleet, rows: Rows | slice = ALL) -> Mask:
    """Return which of the hosts serve one server without other providers."""
    if not spec.granular and not fleet.trees.anchored.roots.size:
        return fleet.fits(spec.amounts)[rows]  # another constraint compares its traits
    query = query_of(spec)
    if query.contested or (spec.granular and spec.isolate):
        return serves_alone(query, fleet, rows)
    alone = fleet.fits(spec.total)[rows]
    required = [traits for group in query.groups for traits in group.required]
    if required:  # a trait of a provider that serves nothing does not count
        alone = alone & fleet.traits.one_of_each(required, rows)
    forbidden = frozenset[str]().union(*(group.forbidden for group in query.groups if spec.granular))
    if forbidden:
        alone = alone & ~fleet.traits.any_of(forbidden, rows)
    return alone


def needs_providers(spec: RequestSpec, fleet: Fleet, candidates: Mask) -> bool:
    """Return whether a candidate may need several providers, or several groups, so that each server is searched."""
    anchored = fleet.trees.anchored
    if spec.granular or not anchored.roots.size:
        return bool(spec.granular)
    if spec.count > 1:  # a host that serves one server alone may serve the next one by others
        return bool(candidates[anchored.roots].any())
    return bool((candidates & ~served_alone(spec, fleet)).any())


def lacks_class(fleet: Fleet, name: str, amount: int) -> Mask:
    """Return the hosts on which no provider has this amount free."""
    has, anchored = fleet.inventories.free_of(name) >= amount, fleet.trees.anchored
    if anchored.roots.size:
        providers = fleet.class_providers(name)
        has[anchored.roots] = providers.any(has[providers.provider])
    return ~has


def largest_free(fleet: Fleet, name: str) -> NDArray[np.int64]:
    """Return the free amount of a class on each host: in a tree, that of the provider with the most."""
    free, anchored = fleet.inventories.free_of(name), fleet.trees.anchored
    if not anchored.roots.size:
        return free
    most = free.copy()
    most[anchored.roots] = np.maximum.reduceat(free[anchored.provider], anchored.starts[:-1])
    return most


def query_of(spec: RequestSpec) -> CandidateQuery:
    """Return the request for one server as a query for allocation candidates."""
    nothing: frozenset[str] = frozenset()
    required = nothing if spec.forced else spec.requirements.required_traits
    forbidden = nothing if spec.forced else spec.requirements.forbidden_traits
    return _query(spec.amounts, spec.granular, required, forbidden, isolate=spec.isolate)


@lru_cache(maxsize=1024)  # for requests of one kind, and for the parts of one decision
def _query(
    amounts: Resources,
    granular: tuple[GranularGroup, ...],
    required: frozenset[str],
    forbidden: frozenset[str],
    *,
    isolate: bool,
) -> CandidateQuery:
    common = RequestGroup(
        resources=amounts, required=tuple(frozenset({name}) for name in sorted(required)), forbidden=forbidden
    )
    suffixed = (
        RequestGroup(
            group.suffix,
            group.resources,
            tuple(frozenset({name}) for name in sorted(group.required)),
            group.forbidden,
        )
        for group in granular
    )
    groups = (common, *suffixed) if amounts else tuple(suffixed)
    return CandidateQuery(groups, isolate=isolate)
