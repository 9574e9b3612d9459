"""Policies at work: before an action each of a cluster's policies has its say, and some take note of it afterwards."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from covey.model.clustering.actions import Verb
from covey.model.clustering.checks import affinity, deletion, scaling, zones
from covey.model.clustering.checks.situation import Refused, Situation
from covey.model.clustering.policy_types import AFFINITY, DELETION, SCALING, ZONE_PLACEMENT
from covey.model.clustering.specs import Binding, Document
from covey.model.errors import Forbidden, Invalid

_SERVERS = frozenset({"os.nova.server-1.0"})
_SCALES = frozenset({Verb.CLUSTER_SCALE_OUT, Verb.CLUSTER_SCALE_IN})
_GROWS = frozenset({Verb.CLUSTER_SCALE_OUT, Verb.CLUSTER_RESIZE, Verb.NODE_CREATE})
_SHRINKS = frozenset({Verb.CLUSTER_SCALE_IN, Verb.CLUSTER_RESIZE, Verb.CLUSTER_DEL_NODES, Verb.NODE_DELETE})


class Moment(Enum):
    """When policies are asked."""

    BEFORE = auto()
    AFTER = auto()


@dataclass(frozen=True, slots=True)
class Kind:
    """What all policies of a type have in common."""

    priority: int  # the lower, the earlier it is asked
    targets: frozenset[Verb]
    before: Callable[[Binding, Situation, Document], Document]
    noted: frozenset[Verb] = frozenset()  # actions whose time it remembers
    repeatable: bool = False  # a cluster may have several
    profiles: frozenset[str] | None = None  # types that it is for; None: all


# Zones are settled before servers are placed in them, so of equals they are listed first.
KINDS: Mapping[str, Kind] = {
    SCALING: Kind(100, _SCALES, scaling.before, noted=_SCALES, repeatable=True),
    ZONE_PLACEMENT: Kind(300, _GROWS | {Verb.CLUSTER_SCALE_IN}, zones.before, profiles=_SERVERS),
    AFFINITY: Kind(300, _GROWS, affinity.before, profiles=_SERVERS),
    DELETION: Kind(400, _SHRINKS, deletion.before),
}
_ORDER = {kind: place for place, kind in enumerate(KINDS)}


@dataclass(frozen=True, slots=True)
class Checked:
    """What policies made of an action."""

    data: Document
    failure: str | None = None  # why it must not be done
    noted: tuple[Binding, ...] = ()  # bindings whose last_op changed


def check(moment: Moment, bindings: Iterable[Binding], situation: Situation) -> Checked:
    """Ask every enabled policy, one after the other; each sees what those before it decided."""
    asked = sorted((b for b in bindings if b.enabled and b.policy.kind in KINDS), key=_turn)
    data = situation.action.data
    if moment is Moment.AFTER:
        noting = [binding for binding in asked if situation.verb in KINDS[binding.policy.kind].noted]
        return Checked(data, noted=tuple(replace(binding, last_op=situation.now) for binding in noting))
    for binding in asked:
        kind = KINDS[binding.policy.kind]
        if situation.verb not in kind.targets:
            continue
        try:
            data = kind.before(binding, situation, data)
        except (Invalid, Forbidden) as refusal:
            return _failed(binding, data, refusal)
    return Checked({**data, "status": "OK", "reason": "Completed policy checking."})


def _failed(binding: Binding, data: Document, refusal: Invalid | Forbidden) -> Checked:
    reason = f"Failed policy '{binding.policy.name}': {refusal.message}"
    failure = {"status": "ERROR", "status_reason": refusal.message}
    if isinstance(refusal, Refused) and refusal.alone:
        return Checked(failure, reason)
    return Checked({**data, **failure, "reason": reason}, reason)


def _turn(binding: Binding) -> tuple[int, int, str]:
    return binding.priority, _ORDER[binding.policy.kind], binding.id
