"""The pipeline: constrain, prefer, pick. One server or a batch; equal inputs decide equally."""

import numpy as np

from covey.model.ids import HostId
from covey.scheduler import batch, preferences
from covey.scheduler.ask import Ask
from covey.scheduler.constraints import MOVING, STANDING, Constraint
from covey.scheduler.constraints.named_hosts import NamedHosts
from covey.scheduler.constraints.room import Room
from covey.scheduler.decision import Decision
from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.luck import Draw, pick

_REMEMBERED = 256  # standing masks


def decide(ask: Ask, fleet: Fleet, seed: int, subset: int = 1) -> Decision:
    """Choose a host for each server of the ask: as many as fit up to its count, none below its minimum.

    `subset` is how many of the best hosts one is drawn from, as Nova's host_subset_size.
    """
    may = allowed(ask, fleet)
    candidates = int(np.count_nonzero(may))
    chosen: list[int] = []
    if candidates and ask.count == 1 and subset == 1:
        chosen = [pick(preferences.best(ask, fleet, may), seed)]
    elif candidates:
        rows = np.flatnonzero(may)
        chosen = batch.choose(ask, fleet, rows, Draw(seed, subset))
    hosts = tuple(HostId(host) for host in fleet.ids[chosen].tolist()) if chosen else ()
    return Decision(hosts if len(hosts) >= ask.minimum else (), hosts, candidates, seed)


def allowed(ask: Ask, fleet: Fleet) -> Mask:
    """Who may: the product of all constraints."""
    if ask.forced:
        return _product(ask, fleet, (NamedHosts(), Room()))
    may = _standing(ask, fleet)
    for constraint in MOVING:
        column = constraint.allows(ask, fleet)
        if column is not None:
            may = may & column
    return may


def _standing(ask: Ask, fleet: Fleet) -> Mask:
    """The part that holds until the fleet's structure changes is worked out once."""
    known = fleet.standing_masks.get(ask.standing)
    if known is None:
        if len(fleet.standing_masks) >= _REMEMBERED:
            fleet.standing_masks.clear()
        known = fleet.standing_masks[ask.standing] = _product(ask, fleet, STANDING)
    return known


def _product(ask: Ask, fleet: Fleet, constraints: tuple[Constraint, ...]) -> Mask:
    may: Mask = np.ones(len(fleet), dtype=np.bool_)
    for constraint in constraints:
        column = constraint.allows(ask, fleet)
        if column is not None:
            may &= column
    return may
