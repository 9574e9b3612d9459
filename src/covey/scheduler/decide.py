"""The scheduler's pipeline: filter the hosts, rank the candidates, choose. Equal inputs give equal decisions."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from covey.model.claims import Allocations
from covey.model.ids import HostId
from covey.model.resources import Resources
from covey.scheduler import batch
from covey.scheduler.constraints import DYNAMIC, FORCED, STATIC, WITHOUT_GROUP, Constraint
from covey.scheduler.fleet import Fleet, Mask, Rows, best_rows
from covey.scheduler.policies import soft_policies
from covey.scheduler.request_spec import RequestSpec
from covey.scheduler.serving import allocations_on, needs_providers
from covey.scheduler.tie_breaking import TieBreaker, pick

_MAX_STATIC_MASKS = 256


@dataclass(frozen=True, slots=True)
class Decision:
    """The chosen hosts, one for each server, and the seed that leads to the same choice again."""

    chosen: tuple[HostId, ...]  # empty when fewer servers fit than the minimum
    fitting: tuple[HostId, ...]  # the same, whatever the minimum
    candidates: int  # hosts that admit the first server
    seed: int
    proved: bool = True  # no more servers fit, up to the count; False if the search stopped at its limit
    served: tuple[Allocations, ...] | None = None  # by several providers, for each chosen host; None: by the host alone

    def allocations(self, amounts: Resources) -> Iterable[Allocations]:
        """Return what each server takes of each provider; of its host these amounts, if that serves it alone."""
        return ({host: amounts} for host in self.chosen) if self.served is None else self.served


def decide(spec: RequestSpec, fleet: Fleet, seed: int, subset: int = 1) -> Decision:
    """Choose a host for each server of the request: as many as fit up to its count, none below its minimum.

    Each host is picked randomly among the `subset` top-ranked ones, as with Nova's host_subset_size.
    """
    mask = allowed_hosts(spec, fleet)
    candidates = int(np.count_nonzero(mask))
    chosen, proved = list[int](), True
    if candidates and needs_providers(spec, fleet, mask):
        return _one_by_one(spec, fleet, candidates, seed)
    if candidates and spec.count == 1 and subset == 1:
        chosen = [pick(_best(spec, fleet, mask), seed)]
    elif candidates:
        chosen, proved = batch.choose(spec, fleet, np.flatnonzero(mask), TieBreaker(seed, subset))
    hosts = tuple(HostId(host) for host in fleet.ids[chosen].tolist()) if chosen else ()
    return Decision(hosts if len(hosts) >= spec.minimum else (), hosts, candidates, seed, proved)


def _one_by_one(spec: RequestSpec, fleet: Fleet, candidates: int, seed: int) -> Decision:
    """Decide servers that several providers may serve: each on what the ones before it left."""
    left, places = fleet.copy(), dict(spec.group.places)
    hosts, served = list[HostId](), list[Allocations]()
    while len(hosts) < spec.count:
        one = replace(spec, count=1, minimum=1, group=replace(spec.group, places=dict(places)))
        found = _served_best(one, left, seed + len(hosts))
        if found is None:
            break
        row, allocations = found
        left.take_all(allocations.items())
        hosts.append(HostId(int(fleet.ids[row])))
        served.append(allocations)
        places[hosts[-1]] = places.get(hosts[-1], 0) + 1
    enough = len(hosts) >= spec.minimum
    chosen = tuple(hosts) if enough else ()
    return Decision(chosen, tuple(hosts), candidates, seed, served=tuple(served) if enough else ())


def _served_best(spec: RequestSpec, fleet: Fleet, seed: int) -> tuple[int, Allocations] | None:
    """Return the best host whose providers serve the server together, and what it takes of each."""
    mask = allowed_hosts(spec, fleet)
    while mask.any():
        row = pick(_best(spec, fleet, mask), seed)
        allocations = allocations_on(spec, fleet, row)
        if allocations is not None:
            return row, allocations
        mask = mask.copy()
        mask[row] = False
    return None


def allowed_hosts(spec: RequestSpec, fleet: Fleet) -> Mask:
    """Return the hosts that every constraint admits."""
    if spec.forced:
        return _product(spec, fleet, FORCED)
    mask = _static_mask(spec, fleet)
    for constraint in DYNAMIC if spec.group.policies else WITHOUT_GROUP:
        column = constraint.allows(spec, fleet)
        if column is not None:
            mask = mask & column
    return mask


def _best(spec: RequestSpec, fleet: Fleet, mask: Mask) -> Rows:
    """Return the candidates that rank first: by the soft policies in their order, then by the weighers."""
    if spec.group.policies:
        for kind, policy in soft_policies(spec.group):
            mask = kind.best(policy, spec.group, fleet, mask)
    return best_rows(fleet.weight, mask)


def _static_mask(spec: RequestSpec, fleet: Fleet) -> Mask:
    """Return the product of the static constraints, which the fleet caches."""
    cached = fleet.static_masks.get(spec.requirements)
    if cached is None:
        if len(fleet.static_masks) >= _MAX_STATIC_MASKS:
            fleet.static_masks.clear()
        cached = fleet.static_masks[spec.requirements] = _product(spec, fleet, STATIC)
    return cached


def _product(spec: RequestSpec, fleet: Fleet, constraints: tuple[Constraint, ...]) -> Mask:
    mask: Mask = fleet.is_host.copy()
    for constraint in constraints:
        column = constraint.allows(spec, fleet)
        if column is not None:
            mask &= column
    return mask
