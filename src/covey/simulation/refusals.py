"""Why a server found no place: the one reason that most of the hosts in question gave."""

import re
from collections.abc import Sequence

import numpy as np

from covey.model.ids import HostId
from covey.scheduler.constraints import DYNAMIC
from covey.scheduler.constraints.zone import Zone
from covey.scheduler.explain import explain
from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.reasons import Reason
from covey.scheduler.request_spec import RequestSpec

_LIMIT = re.compile(r"hold \d+ of")


def leading_reason(spec: RequestSpec, fleet: Fleet, lacking: tuple[HostId, ...] = ()) -> str:
    """Why no host takes one more, also after those that would have done for a batch that is too large.

    In the words of an explanation, but without numbers, so that alike refusals add up. Hosts that could never do,
    being down or in another zone, have no say unless all are such: an explanation spends most of its time on
    them, and the decision before remembered them.
    """
    alive = fleet.static_masks[spec.requirements]
    if lacking or not alive.any():
        return _most(explain(spec, fleet, lacking).reasons, Zone().allows(spec, fleet))
    found: list[Reason] = []
    for constraint in DYNAMIC:
        column = constraint.allows(spec, fleet)
        if column is not None:
            found += constraint.reasons(spec, fleet, alive & ~column)
            alive = alive & column
    return _most(found)


def _most(reasons: Sequence[Reason], among: Mask | None = None) -> str:
    """The most usual, of all hosts or of some."""
    if not reasons:
        return "are none"
    most = max(reasons, key=lambda reason: np.count_nonzero(reason.lost if among is None else reason.lost & among))
    return _LIMIT.sub("hold enough of", most.many)
