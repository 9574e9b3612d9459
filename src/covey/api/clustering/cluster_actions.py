"""/v1/clusters/{cluster}/actions and /ops."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import falcon

from covey.api.clustering.action_requests import accepted, recovery_params, require_map, single_entry
from covey.api.clustering.errors import Malformed
from covey.api.clustering.fields import boolean, checked, count_of, mapping, small, small_mapping, text
from covey.api.clustering.microversions import (
    COMPLETE_LIFECYCLE,
    DESTROY_AFTER_DELETION,
    OPERATIONS,
    REPLACE_NODES,
    require,
    since,
)
from covey.api.requests import Json, Request
from covey.model.clustering.actions import Action, Verb
from covey.services.clustering import Clustering
from covey.services.clustering.health_actions import Operation

StartFunction = Callable[[Request, str, Json], Action]

_NOT_A_MAP = "The data provided is not a map"
_FILTERS = ("name", "profile_id", "status", "role")


@dataclass(frozen=True, slots=True)
class ClusterActions:
    """Starts actions and operations on a cluster."""

    services: Clustering

    def on_post(self, req: Request, resp: falcon.Response, key: str) -> None:
        name, data = single_entry(req, "action", _NOT_A_MAP)
        start = self._start_functions().get(name)
        if start is None:
            raise Malformed(f"Unrecognized action '{name}' specified")
        action = start(req, key, require_map(data, _NOT_A_MAP))
        accepted(req, resp, action.id, {"action": action.id})

    @since(OPERATIONS)
    def on_post_ops(self, req: Request, resp: falcon.Response, key: str) -> None:
        name, data = single_entry(req, "operation", _NOT_A_MAP)
        given = checked(require_map(data, _NOT_A_MAP), optional=("params", "filters"))
        filters = checked(mapping(given, "filters") or {}, optional=_FILTERS)
        selected = {field: _text_list(field, value) for field, value in filters.items() if value is not None}
        action = self.services.health_actions.operate(
            req.actor, key, Operation(name, small_mapping(given, "params") or {}, selected)
        )
        accepted(req, resp, action.id, {"action": action.id})

    def _start_functions(self) -> Mapping[str, StartFunction]:
        """Return the function that starts each action, by its name in a body."""
        return {
            "scale_out": self._scale_out,
            "scale_in": self._scale_in,
            "resize": self._resize,
            "add_nodes": self._add_nodes,
            "del_nodes": self._del_nodes,
            "replace_nodes": self._replace_nodes,
            "policy_attach": self._attach,
            "policy_detach": self._detach,
            "policy_update": self._update_policy,
            "check": self._check,
            "recover": self._recover,
            "complete_lifecycle": self._complete_lifecycle,
        }

    def _scale_out(self, req: Request, key: str, data: Json) -> Action:
        return self.services.scaling.scale(req.actor, key, Verb.CLUSTER_SCALE_OUT, count_of(data))

    def _scale_in(self, req: Request, key: str, data: Json) -> Action:
        return self.services.scaling.scale(req.actor, key, Verb.CLUSTER_SCALE_IN, count_of(data))

    def _resize(self, req: Request, key: str, data: Json) -> Action:
        return self.services.scaling.resize(req.actor, key, data | {"strict": boolean(data, "strict")})

    def _add_nodes(self, req: Request, key: str, data: Json) -> Action:
        return self.services.membership.add(req.actor, key, _nodes(data))

    def _del_nodes(self, req: Request, key: str, data: Json) -> Action:
        nodes, destroy = _nodes(data), boolean(data, "destroy_after_deletion") or False
        destroy = destroy and req.version >= DESTROY_AFTER_DELETION
        return self.services.membership.remove(req.actor, key, nodes, destroy=destroy)

    def _replace_nodes(self, req: Request, key: str, data: Json) -> Action:
        require(req, REPLACE_NODES)
        return self.services.membership.replace(req.actor, key, _pairs(data))

    def _attach(self, req: Request, key: str, data: Json) -> Action:
        policy, enabled = _policy(data)
        return self.services.bindings.attach(req.actor, key, policy, enabled=enabled is not False)

    def _detach(self, req: Request, key: str, data: Json) -> Action:
        policy = text(checked(data, ("policy_id",)), "policy_id")
        assert policy is not None
        return self.services.bindings.detach(req.actor, key, policy)

    def _update_policy(self, req: Request, key: str, data: Json) -> Action:
        policy, enabled = _policy(data)
        return self.services.bindings.update(req.actor, key, policy, enabled=enabled)

    def _check(self, req: Request, key: str, data: Json) -> Action:
        return self.services.health_actions.check(req.actor, key, small("check", data))

    def _recover(self, req: Request, key: str, data: Json) -> Action:
        return self.services.health_actions.recover(req.actor, key, recovery_params(req, data))

    def _complete_lifecycle(self, req: Request, key: str, data: Json) -> Action:
        require(req, COMPLETE_LIFECYCLE)
        token = text(checked(data, ("lifecycle_action_token",)), "lifecycle_action_token")
        assert token is not None
        return self.services.health_actions.complete_lifecycle(req.actor, key, token)


def _policy(data: Json) -> tuple[str, bool | None]:
    given = checked(data, ("policy_id",), ("enabled",))
    policy = text(given, "policy_id")
    assert policy is not None
    return policy, boolean(given, "enabled")


def _nodes(data: Json) -> list[str]:
    """Return the keys of nodes, without duplicates."""
    given: Any = data.get("nodes")
    if given is None or given == []:
        raise Malformed("Value for 'nodes' must have at least 1 item(s).")
    if not isinstance(given, list) or len({str(node) for node in given}) < len(given):
        raise Malformed("Items for 'nodes' must be unique")
    return _text_list("nodes", given)


def _pairs(data: Json) -> dict[str, str]:
    """Return the keys of nodes and of their replacements."""
    given = data.get("nodes")
    if not isinstance(given, dict) or not given:
        raise Malformed(_NOT_A_MAP)
    for old, new in given.items():
        if new is None:
            raise Malformed(f"Field `nodes[{old}]' cannot be None")
    found = _text_list("nodes", list(given.values()))
    if len(set(found)) < len(found):
        raise Malformed("Map contains duplicated values")
    return dict(zip(given, found, strict=True))


def _text_list(name: str, value: object) -> list[str]:
    given = value if isinstance(value, list) else [value]
    texts = [item for item in given if isinstance(item, str)]
    if len(texts) < len(given):
        raise Malformed(f"The value for {name} must be text, or a list of texts.")
    return texts
