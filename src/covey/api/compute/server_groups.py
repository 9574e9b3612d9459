"""/os-server-groups: sets of servers with affinity and anti-affinity policies."""

from dataclasses import dataclass

import falcon

from covey.api.compute import schemas
from covey.api.compute.identifiers import bounded, page_size
from covey.api.compute.microversions import COVEY, FIRST, POLICY_RULES, SOFT_POLICIES, STRICT_LISTS
from covey.api.compute.server_group_views import show
from covey.api.requests import Json, Request, read_body, read_query
from covey.api.validation import JsonSchema, Query, Schema
from covey.api.versions import Versioned, only_from
from covey.services.groups import GroupChange, NewGroup
from covey.services.groups import Groups as Service

_HARD = ["anti-affinity", "affinity"]
_ALL = [*_HARD, "soft-anti-affinity", "soft-affinity"]
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
_ANY_RULES: JsonSchema = {
    "type": "object",
    "patternProperties": {"^max_server_per_[a-zA-Z0-9_.-]{1,255}$": schemas.POSITIVE_LIMIT},
    "additionalProperties": False,
}
# The specification's form: only anti-affinity has rules.
_NESTED: JsonSchema = {
    "oneOf": [
        schemas.fields({"name": {"type": "string", "enum": ["anti-affinity"]}, "rules": _RULES}, "name"),
        schemas.fields({"name": {"type": "string", "enum": [k for k in _ALL if k != "anti-affinity"]}}, "name"),
    ]
}
_POLICIES: JsonSchema = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": 600},
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
    "single": Schema(schemas.body("server_group", schemas.fields(_SINGLE, "name", "policy"))),
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
    max_limit: int

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        query = read_query(req, LIST)
        groups = self.service.find(
            req.actor,
            all_projects="all_projects" in query,
            offset=bounded(query.get("offset", "")),
            limit=page_size(query, self.max_limit),
        )
        resp.media = {"server_groups": [show(group, req.version) for group in groups]}

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        new = _read(req)
        resp.media = {"server_group": show(self.service.create(req.actor, new), req.version)}

    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        read_query(req, schemas.NO_PARAMETERS)
        resp.media = {"server_group": show(self.service.get(req.actor, key), req.version)}

    @only_from(COVEY)
    def on_put_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        body = read_body(req, _ANYTHING)
        UPDATE[_form(body)].check(body)
        resp.media = {
            "server_group": show(self.service.update(req.actor, key, _change(body["server_group"])), req.version)
        }

    on_post_one = on_put_one

    def on_delete_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        self.service.delete(req.actor, key)
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
