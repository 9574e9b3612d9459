"""/os-server-groups: sets of servers with affinity and anti-affinity policies."""

from dataclasses import dataclass

import falcon

from covey.api.compute import schemas
from covey.api.compute.identifiers import bounded, page_size
from covey.api.compute.microversions import COVEY, FIRST, POLICY_RULES, SOFT_POLICIES, STRICT_LISTS
from covey.api.compute.nova_groups import asking_nova, token_of
from covey.api.compute.server_group_views import show
from covey.api.requests import Json, Request, read_body, read_query
from covey.api.validation import JsonSchema, Query, Schema
from covey.api.versions import Versioned, only_from
from covey.model.errors import ReadOnly
from covey.model.groups import PolicyKind
from covey.services.groups import GroupChange, NewGroup
from covey.services.groups import Groups as Service
from covey.services.nova_groups import NovaGroups

_ALL = [kind.value for kind in PolicyKind]
_HARD = [kind.value for kind in PolicyKind if not kind.is_soft]
_RULES: JsonSchema = schemas.fields({"max_server_per_host": schemas.POSITIVE_LIMIT})


def _old(kinds: list[str]) -> Schema:
    policies = {
        "type": "array",
        "items": {"type": "string", "enum": kinds},
        "uniqueItems": True,
        "minItems": 1,
        "maxItems": 1,
    }
    group = schemas.fields({"name": schemas.NAME, "policies": policies}, "name", "policies")
    return Schema(schemas.body("server_group", group))


_SINGLE: dict[str, JsonSchema] = {
    "name": schemas.NAME,
    "policy": {"type": "string", "enum": _ALL},
    "rules": _RULES,
}
_ANY_LIMIT: JsonSchema = {**schemas.LIMIT, "minimum": -schemas.MAX_INT}  # the model refuses less than 1, in plain words
_ANY_RULES: JsonSchema = {
    "type": "object",
    "patternProperties": {"^max_server_per_[a-zA-Z0-9_.-]{1,255}$": _ANY_LIMIT},
    "additionalProperties": False,
}
_POLICY: JsonSchema = {"type": "string", "minLength": 1, "maxLength": 600}
# The specification's form, as responses show it. Only anti-affinity has rules; the model checks that.
_NESTED: JsonSchema = schemas.fields({"name": _POLICY, "rules": _ANY_RULES}, "name")
_POLICIES: JsonSchema = {
    "type": "array",
    "items": _POLICY,
    "uniqueItems": True,
    "minItems": 1,
    "maxItems": 32,
}
CREATE = Versioned(
    {
        FIRST: _old(_HARD),
        SOFT_POLICIES: _old(_ALL),
        POLICY_RULES: Schema(schemas.body("server_group", schemas.fields(_SINGLE, "name", "policy"))),
    }
)
CREATE_ANY = {
    "nested": Schema(
        schemas.body("server_group", schemas.fields({"name": schemas.NAME, "policy": _NESTED}, "name", "policy"))
    ),
    "single": Schema(schemas.body("server_group", schemas.fields({**_SINGLE, "rules": _ANY_RULES}, "name", "policy"))),
    "several": Schema(
        schemas.body(
            "server_group",
            schemas.fields({"name": schemas.NAME, "policies": _POLICIES, "rules": _ANY_RULES}, "name", "policies"),
        )
    ),
}
_SOMETHING: JsonSchema = {"minProperties": 1}
UPDATE = {
    "nested": Schema(
        schemas.body("server_group", {**schemas.fields({"name": schemas.NAME, "policy": _NESTED}), **_SOMETHING})
    ),
    "single": Schema(schemas.body("server_group", {**schemas.fields({**_SINGLE, "rules": _ANY_RULES}), **_SOMETHING})),
    "several": Schema(
        schemas.body(
            "server_group",
            {
                **schemas.fields({"name": schemas.NAME, "policies": _POLICIES, "rules": _ANY_RULES}),
                **_SOMETHING,
            },
        )
    ),
}
LIST = Query(
    {"all_projects": schemas.STRING, "limit": schemas.NOT_NEGATIVE, "offset": schemas.NOT_NEGATIVE}, STRICT_LISTS
)


@dataclass(frozen=True, slots=True)
class ServerGroups:
    """Server groups."""

    service: Service
    nova: NovaGroups
    max_limit: int

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        query = read_query(req, LIST)
        groups = self.service.find(
            req.actor,
            all_projects="all_projects" in query,
            offset=bounded(query.get("offset", "")),
            limit=page_size(query, self.max_limit) or self.max_limit,  # 0 is no limit here, as in Nova
        )
        resp.media = {"server_groups": [show(group, req.version) for group in groups]}

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        new = _read(req)
        resp.media = {"server_group": show(self.service.create(req.actor, new), req.version)}

    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        read_query(req, schemas.NO_PARAMETERS)
        group = asking_nova(self.nova, req, key, lambda: self.service.get(req.actor, key))
        resp.media = {"server_group": show(group, req.version)}

    @only_from(COVEY)
    def on_put_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        body = read_body(req, _ANYTHING)
        UPDATE[_form(body)].check(body)
        change = _change(body["server_group"])
        group = asking_nova(self.nova, req, key, lambda: self.service.update(req.actor, key, change))
        resp.media = {"server_group": show(group, req.version)}

    on_post_one = on_put_one

    def on_delete_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        try:
            self.service.delete(req.actor, key)
        except ReadOnly:
            if not self.nova.is_gone(req.actor, token_of(req), key):
                raise
            self.service.delete(req.actor, key, gone_in_nova=True)
        resp.status = falcon.HTTP_204


def _read(req: Request) -> NewGroup:
    body = read_body(req, _ANYTHING) if req.version >= COVEY else read_body(req, CREATE.at(req.version))
    if req.version >= COVEY:
        CREATE_ANY[_form(body)].check(body)
    return _parse(body["server_group"])


_ANYTHING = Schema({"type": "object"})


def _form(body: Json) -> str:
    """Return which of the three forms of a server group the body has."""
    group = body.get("server_group")
    if isinstance(group, dict) and "policies" in group:
        return "several"
    return "nested" if isinstance(group, dict) and isinstance(group.get("policy"), dict) else "single"


def _parse(group: Json) -> NewGroup:
    change = _change(group)
    return NewGroup(group["name"], change.policies or (), change.rules or {})


def _change(group: Json) -> GroupChange:
    rules, policy = group.get("rules"), group.get("policy")
    policies: list[str] | None = group.get("policies")
    if isinstance(policy, dict):
        policies, rules = [policy["name"]], policy.get("rules", {})
    elif policy is not None:
        policies = [policy]
    limits = None if rules is None else {name: int(limit) for name, limit in rules.items()}
    return GroupChange(group.get("name"), None if policies is None else tuple(policies), limits)
