"""The leading reason of a refusal: the one that rules out most hosts."""

import re
from collections.abc import Sequence

import numpy as np

from covey.model.ids import HostId
from covey.scheduler.constraints import DYNAMIC
from covey.scheduler.constraints.static import Zone
from covey.scheduler.explain import explain
from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.reasons import Reason
from covey.scheduler.request_spec import RequestSpec

_LIMIT = re.compile(r"hold \d+ of")


def leading_reason(spec: RequestSpec, fleet: Fleet, lacking: tuple[HostId, ...] = ()) -> str:
    """Return the reason that rules out most hosts for one more server, after the `lacking` hosts took theirs.

    The text is that of an explanation without numbers, so that equal reasons add up. Hosts that static constraints
    rule out, such as a host that is down or in another zone, count only if they are all that is left: the decision
    has cached them, and an explanation would spend most of its time on them.
    """
    alive = fleet.static_masks[spec.requirements]
    if lacking or not alive.any():
        return _most(explain(spec, fleet, lacking).reasons, Zone().allows(spec, fleet))
    reasons: list[Reason] = []
    for constraint in DYNAMIC:
        column = constraint.allows(spec, fleet)
        if column is not None:
            reasons += constraint.reasons(spec, fleet, alive & ~column)
            alive = alive & column
    return _most(reasons)


def _most(reasons: Sequence[Reason], among: Mask | None = None) -> str:
    """Return the reason with the most hosts, of all hosts or of some."""
    if not reasons:
        return "are none"
    most = max(
        reasons, key=lambda reason: np.count_nonzero(reason.rejected if among is None else reason.rejected & among)
    )
    return _LIMIT.sub("hold enough of", most.many)
