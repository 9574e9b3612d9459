"""The policy types: the actions each one applies to, its priority, and what it does before and after an action."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from covey.model.clustering.actions import Verb
from covey.model.clustering.policies import affinity, deletion, scaling, zone_placement
from covey.model.clustering.policies.context import PolicyCheckFailed, PolicyContext
from covey.model.clustering.policy_types import AFFINITY, DELETION, SCALING, ZONE_PLACEMENT
from covey.model.clustering.specs import Binding, Document
from covey.model.errors import Forbidden, Invalid

_SERVER_PROFILES = frozenset({"os.nova.server-1.0"})
_SCALE = frozenset({Verb.CLUSTER_SCALE_OUT, Verb.CLUSTER_SCALE_IN})
_CREATE_NODES = frozenset({Verb.CLUSTER_SCALE_OUT, Verb.CLUSTER_RESIZE, Verb.NODE_CREATE})
_REMOVE_NODES = frozenset({Verb.CLUSTER_SCALE_IN, Verb.CLUSTER_RESIZE, Verb.CLUSTER_DEL_NODES, Verb.NODE_DELETE})


@dataclass(frozen=True, slots=True)
class PolicyPlugin:
    """The behaviour of one policy type."""

    priority: int  # a lower number is checked earlier
    targets: frozenset[Verb]
    pre_op: Callable[[Binding, PolicyContext, Document], Document]
    sets_last_op: frozenset[Verb] = frozenset()  # actions after which the binding's last_op is set
    singleton: bool = True  # whether a cluster has at most one policy of the type
    profile_types: frozenset[str] | None = None  # None: every profile type


# Of two types with one priority the first one listed is checked first: zones are chosen before server groups.
PLUGINS: Mapping[str, PolicyPlugin] = {
    SCALING: PolicyPlugin(100, _SCALE, scaling.pre_op, sets_last_op=_SCALE, singleton=False),
    ZONE_PLACEMENT: PolicyPlugin(
        300, _CREATE_NODES | {Verb.CLUSTER_SCALE_IN}, zone_placement.pre_op, profile_types=_SERVER_PROFILES
    ),
    AFFINITY: PolicyPlugin(300, _CREATE_NODES, affinity.pre_op, profile_types=_SERVER_PROFILES),
    DELETION: PolicyPlugin(400, _REMOVE_NODES, deletion.pre_op),
}
_POSITIONS = {type_name: position for position, type_name in enumerate(PLUGINS)}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The action's data after the policy checks, and the reason if one of them failed."""

    data: Document
    failure: str | None = None


def pre_op(bindings: Iterable[Binding], context: PolicyContext) -> CheckResult:
    """Run the checks of every enabled policy in priority order; each one sees the data of those before it."""
    data = context.action.data
    for binding in _enabled(bindings):
        plugin = PLUGINS[binding.policy.type_name]
        if context.verb not in plugin.targets:
            continue
        try:
            data = plugin.pre_op(binding, context, data)
        except (Invalid, Forbidden) as failure:
            return _failed(binding, data, failure)
    return CheckResult({**data, "status": "OK", "reason": "Completed policy checking."})


def post_op(bindings: Iterable[Binding], verb: Verb, now: datetime) -> list[Binding]:
    """Return the bindings that a completed action changes: those whose cooldown starts now."""
    return [
        replace(binding, last_op=now)
        for binding in _enabled(bindings)
        if verb in PLUGINS[binding.policy.type_name].sets_last_op
    ]


def _enabled(bindings: Iterable[Binding]) -> list[Binding]:
    enabled = (binding for binding in bindings if binding.enabled and binding.policy.type_name in PLUGINS)
    return sorted(enabled, key=lambda b: (b.priority, _POSITIONS[b.policy.type_name], b.id))


def _failed(binding: Binding, data: Document, failure: Invalid | Forbidden) -> CheckResult:
    reason = f"Failed policy '{binding.policy.name}': {failure.message}"
    error = {"status": "ERROR", "status_reason": failure.message}
    if isinstance(failure, PolicyCheckFailed) and failure.replaces_data:
        return CheckResult(error, reason)
    return CheckResult({**data, **error, "reason": reason}, reason)
