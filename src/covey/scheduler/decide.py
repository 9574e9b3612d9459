"""The scheduler's pipeline: filter the hosts, rank the candidates, choose. Equal inputs give equal decisions."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from covey.model.claims import Allocations
from covey.model.ids import HostId
from covey.model.resources import Resources
from covey.scheduler import batch
from covey.scheduler.constraints import DYNAMIC, FORCED, STATIC, WITHOUT_GROUP, Constraint
from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.policies import soft_policies
from covey.scheduler.provider_allocations import TreeSearch
from covey.scheduler.request_spec import RequestSpec
from covey.scheduler.room import needs_providers
from covey.scheduler.tie_breaking import SPLITMIX, TieBreaker
from covey.scheduler.tree_batch_search import TreeBatchSearch

_MAX_STATIC_MASKS = 256


@dataclass(frozen=True, slots=True)
class Decision:
    """The chosen hosts, one for each server, and the seed that leads to the same choice again."""

    chosen: tuple[HostId, ...]  # empty when fewer servers fit than the minimum
    fitting: tuple[HostId, ...]  # the same, without regard to the minimum
    candidates: int  # hosts that admit the first server
    seed: int
    proved: bool = True  # no more servers fit, up to the count; False if the search stopped at its limit
    provider_allocations: tuple[Allocations, ...] | None = None  # of each fitting server; None: of its host alone

    def allocations(self, amounts: Resources) -> Iterable[Allocations]:
        """Return what each chosen server takes of each provider; of its host these amounts, if that serves it alone."""
        if self.provider_allocations is None:
            return ({host: amounts} for host in self.chosen)
        return self.provider_allocations[: len(self.chosen)]


def decide(spec: RequestSpec, fleet: Fleet, seed: int, subset: int = 1) -> Decision:
    """Choose a host for each server of the request: as many as fit up to its count, none below its minimum.

    Each host is picked randomly among the `subset` top-ranked ones, as with Nova's host_subset_size.
    """
    mask = allowed_hosts(spec, fleet)
    candidates = int(np.count_nonzero(mask))
    if candidates and needs_providers(spec, fleet, mask):
        return _decide_in_trees(spec, fleet, mask, seed, subset)
    chosen, proved = _choose(spec, fleet, mask, seed, subset) if candidates else (list[int](), True)
    hosts = tuple(HostId(host) for host in fleet.ids[chosen].tolist()) if chosen else ()
    return Decision(hosts if len(hosts) >= spec.minimum else (), hosts, candidates, seed, proved)


def _choose(
    spec: RequestSpec, fleet: Fleet, mask: Mask, seed: int, subset: int, most: NDArray[np.int64] | None = None
) -> tuple[list[int], bool]:
    """Return a row for each server that fits by the columns, and whether it is proved that no more do.

    `most` is how many servers each row takes at most, where that is known besides its columns.
    """
    if spec.count == 1 and subset == 1:
        return [_best(spec, fleet, mask, seed)], True
    return batch.choose(spec, fleet, np.flatnonzero(mask), TieBreaker(seed, subset), most)


@dataclass(slots=True)
class _ServedServers:
    """Servers that several providers may serve together, and whether no placement serves more of them."""

    hosts: list[HostId] = field(default_factory=list)
    allocations: list[Allocations] = field(default_factory=list)
    proved: bool = True


def _decide_in_trees(spec: RequestSpec, fleet: Fleet, mask: Mask, seed: int, subset: int) -> Decision:
    """Decide servers that several providers may serve together.

    The columns say how many servers a tree serves at most. Where it serves fewer, the rest is decided again without it.
    If that places fewer servers than requested, all of them are decided again, with what the searches have shown, and
    then without the hosts that took what trees share. At last all placements are searched, if no proof was found.
    """
    search, best = TreeSearch(spec, fleet), _ServedServers()
    while len(best.hosts) < spec.count and not search.budget.spent:
        known = search.findings
        served = _serve_in_turn(spec, fleet, mask, seed, subset, search)
        if len(served.hosts) >= len(best.hosts):
            best = served
        if served.proved or search.findings == known:
            break
    if len(best.hosts) < spec.count and not search.exact:
        own = mask & ~_borrowers(best, fleet)
        again = _serve_in_turn(spec, fleet, own, seed, subset, TreeSearch(spec, fleet, search.budget))
        best = again if len(again.hosts) > len(best.hosts) else best
    proved = len(best.hosts) == spec.count or (best.proved and search.exact and not search.budget.spent)
    if not proved and not search.budget.spent:
        more = TreeBatchSearch(spec, fleet, allowed_hosts, search.budget).more_than(len(best.hosts))
        best = best if more is None else _ServedServers(more.hosts, more.allocations)
        proved = len(best.hosts) == spec.count or not search.budget.spent
    hosts = tuple(best.hosts)
    chosen = hosts if len(hosts) >= spec.minimum else ()
    return Decision(chosen, hosts, int(np.count_nonzero(mask)), seed, proved, tuple(best.allocations))


def _borrowers(served: _ServedServers, fleet: Fleet) -> Mask:
    """Return the hosts with a server that another tree's provider serves: other hosts may lack what they took."""
    mask = np.zeros(len(fleet), dtype=np.bool_)
    for host, allocations in zip(served.hosts, served.allocations, strict=True):
        row = fleet.row_of[host]
        mask[row] |= (fleet.root[fleet.rows(allocations)] != row).any()
    return mask


def _serve_in_turn(
    spec: RequestSpec, fleet: Fleet, mask: Mask, seed: int, subset: int, search: TreeSearch
) -> _ServedServers:
    """Choose hosts and serve servers on them. Where some are not served, the rest is decided beside the others."""
    left = fleet if spec.count == 1 else fleet.copy()
    served, rest, held = _ServedServers(), spec, np.zeros(len(fleet), dtype=np.int64)
    mask, alone = search.still_open(mask, held).copy(), True
    while mask.any() and not search.budget.spent:
        most = search.most - held if rest.count > 1 and search.findings else None
        rows, no_more = _choose(rest, left, mask, seed + len(served.hosts), subset, most)
        found = search.serve(left, rows, held)
        served.hosts += map(HostId, fleet.ids[found.rows].tolist())
        served.allocations += found.allocations
        np.add.at(held, found.rows, 1)
        alone = alone and not (found.full and served.hosts)
        served.proved = alone and (no_more or bool(found.full))
        if len(served.hosts) == spec.count or not found.full:
            break
        if found.rows:
            members_by_host = Counter(spec.group.members_by_host) + Counter(served.hosts)
            rest = replace(
                spec, count=spec.count - len(served.hosts), group=replace(spec.group, members_by_host=members_by_host)
            )
            mask = mask & allowed_hosts(rest, left)
        mask[found.full] = False
        mask = search.still_open(mask, held)
    return served


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


def _best(spec: RequestSpec, fleet: Fleet, mask: Mask, seed: int) -> int:
    """Return a candidate that ranks first: by the soft policies in their order, by the weighers, then by the seed."""
    if spec.group.policies:
        for kind, policy in soft_policies(spec.group):
            mask = kind.best(policy, spec.group, fleet, mask)
    return fleet.inventories.heaviest(mask, _hash_seed(seed))


def _hash_seed(seed: int) -> int:
    """Return what tie_breaking.hash_ids returns for id 1, without the cost of a column."""
    step, first, second = SPLITMIX
    mixed = (1 + seed) * step % 2**64
    mixed = (mixed ^ mixed >> 30) * first % 2**64
    mixed = (mixed ^ mixed >> 27) * second % 2**64
    return mixed ^ mixed >> 31


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
