"""Serving: which resource providers serve a server on a host: the host alone, or others of its tree as well.

Most hosts serve all resources alone. A host with nested or sharing providers may serve some by them, and one server is
then allocated on several providers. Whether a tree has a provider for each need is a column; the combination is
searched for the chosen host only.
"""

from collections import Counter

import numpy as np

from covey.model.claims import Allocations
from covey.model.resources import Resources
from covey.scheduler.candidates.flat import serves_alone
from covey.scheduler.candidates.queries import CandidateQuery, RequestGroup
from covey.scheduler.candidates.trees import first_choice, needs_of, searchable_trees
from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.request_spec import RequestSpec


def has_room(spec: RequestSpec, fleet: Fleet) -> Mask:
    """Return the hosts that have room for one server. In a tree, each need has a provider; they may not combine."""
    alone = served_alone(spec, fleet)
    anchored = fleet.trees.anchored
    if not anchored.starts.size:
        return alone
    query = _query(spec)
    roots = anchored.anchor[anchored.starts[searchable_trees(query, fleet, needs_of(query, fleet))]]
    room = alone.copy()
    room[roots] = True
    return room


def served_alone(spec: RequestSpec, fleet: Fleet) -> Mask:
    """Return the hosts that serve one server without other providers."""
    if spec.granular:
        return serves_alone(_query(spec), fleet)
    alone = fleet.fits(spec.amounts)
    required = spec.requirements.required_traits
    if required and not spec.forced and fleet.trees.anchored.starts.size:
        alone = alone & fleet.traits.all_of(required)  # a trait of a provider that serves nothing does not count
    return alone


def allocations_on(spec: RequestSpec, fleet: Fleet, row: int) -> Allocations | None:
    """Return what one server takes of each provider, on the host of a row; None if they cannot serve it together."""
    if served_alone(spec, fleet)[row]:
        return {int(fleet.ids[row]): spec.total}
    found = first_choice(_query(spec), fleet, row)
    if found is None:
        return None
    taken: dict[int, Counter[str]] = {}
    for provider, need in zip(*found, strict=True):
        if need.resources:
            taken.setdefault(int(fleet.ids[provider]), Counter()).update(need.resources)
    return {provider: Resources(amounts) for provider, amounts in taken.items()}


def needs_providers(spec: RequestSpec, fleet: Fleet, candidates: Mask) -> bool:
    """Return whether a candidate may need several providers, or several groups, so that each server is searched."""
    if spec.granular:
        return True
    return bool(fleet.trees.anchored.starts.size) and bool((candidates & ~served_alone(spec, fleet)).any())


def lacks_class(fleet: Fleet, name: str, amount: int) -> Mask:
    """Return the hosts on which no provider has this amount free."""
    return ~fleet.trees.with_any(np.asarray(fleet.inventories.free_of(name) >= amount))


def _query(spec: RequestSpec) -> CandidateQuery:
    nothing: frozenset[str] = frozenset()
    required = nothing if spec.forced else spec.requirements.required_traits
    forbidden = nothing if spec.forced else spec.requirements.forbidden_traits
    common = RequestGroup(
        resources=spec.amounts, required=tuple(frozenset({name}) for name in sorted(required)), forbidden=forbidden
    )
    granular = (
        RequestGroup(
            group.suffix,
            group.resources,
            tuple(frozenset({name}) for name in sorted(group.required)),
            group.forbidden,
        )
        for group in spec.granular
    )
    groups = (common, *granular) if spec.amounts else tuple(granular)
    return CandidateQuery(groups, isolate=spec.isolate)
