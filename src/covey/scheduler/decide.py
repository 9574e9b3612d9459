"""The pipeline: constrain, prefer, pick. One server or a batch; equal inputs decide equally."""

import numpy as np

from covey.model.ids import HostId
from covey.scheduler import batch, preferences
from covey.scheduler.constraints import DYNAMIC, STATIC, Constraint
from covey.scheduler.constraints.named_hosts import NamedHosts
from covey.scheduler.constraints.room import Room
from covey.scheduler.decision import Decision
from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.request_spec import RequestSpec
from covey.scheduler.tie_breaking import TieKeys, pick

_REMEMBERED = 256  # standing masks


def decide(spec: RequestSpec, fleet: Fleet, seed: int, subset: int = 1) -> Decision:
    """Choose a host for each server of the ask: as many as fit up to its count, none below its minimum.

    `subset` is how many of the best hosts one is drawn from, as Nova's host_subset_size.
    """
    may = allowed(spec, fleet)
    candidates = int(np.count_nonzero(may))
    chosen: list[int] = []
    if candidates and spec.count == 1 and subset == 1:
        chosen = [pick(preferences.best(spec, fleet, may), seed)]
    elif candidates:
        rows = np.flatnonzero(may)
        chosen = batch.choose(spec, fleet, rows, TieKeys(seed, subset))
    hosts = tuple(HostId(host) for host in fleet.ids[chosen].tolist()) if chosen else ()
    return Decision(hosts if len(hosts) >= spec.minimum else (), hosts, candidates, seed)


def allowed(spec: RequestSpec, fleet: Fleet) -> Mask:
    """Who may: the product of all constraints."""
    if spec.forced:
        return _product(spec, fleet, (NamedHosts(), Room()))
    may = _standing(spec, fleet)
    for constraint in DYNAMIC:
        column = constraint.allows(spec, fleet)
        if column is not None:
            may = may & column
    return may


def _standing(spec: RequestSpec, fleet: Fleet) -> Mask:
    """The part that holds until the fleet's structure changes is worked out once."""
    known = fleet.static_masks.get(spec.requirements)
    if known is None:
        if len(fleet.static_masks) >= _REMEMBERED:
            fleet.static_masks.clear()
        known = fleet.static_masks[spec.requirements] = _product(spec, fleet, STATIC)
    return known


def _product(spec: RequestSpec, fleet: Fleet, constraints: tuple[Constraint, ...]) -> Mask:
    may: Mask = np.ones(len(fleet), dtype=np.bool_)
    for constraint in constraints:
        column = constraint.allows(spec, fleet)
        if column is not None:
            may &= column
    return may
