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
from covey.scheduler.room import NOT_TOGETHER

_LIMIT = re.compile(r"hold \d+ of")


def leading_reason(spec: RequestSpec, fleet: Fleet, placed: tuple[HostId, ...] = ()) -> str:
    """Return the reason that rules out most hosts for one more server, after each host of `placed` took one.

    The text is that of an explanation without numbers, so that equal reasons add up. Hosts that static constraints
    rule out, such as a host that is down or in another zone, count only if they are all that is left: the decision
    has cached them, and an explanation would spend most of its time on them.
    """
    remaining = fleet.static_masks[spec.requirements]
    if placed or not remaining.any():
        return _most_frequent(explain(spec, fleet, placed).reasons, Zone().allows(spec, fleet))
    reasons: list[Reason] = []
    for constraint in DYNAMIC:
        column = constraint.allows(spec, fleet)
        if column is not None:
            reasons += constraint.reasons(spec, fleet, remaining & ~column)
            remaining = remaining & column
    if remaining.any():  # their providers have room, and do not combine
        reasons.append(Reason(remaining, *NOT_TOGETHER))
    return _most_frequent(reasons)


def _most_frequent(reasons: Sequence[Reason], among: Mask | None = None) -> str:
    """Return the reason that rejects the most hosts, of all or of those in `among`."""
    if not reasons:
        return "are none"
    most = max(
        reasons, key=lambda reason: np.count_nonzero(reason.rejected if among is None else reason.rejected & among)
    )
    return _LIMIT.sub("hold enough of", most.many)
