"""/os-policy-scopes: the topology levels that server group policies can refer to, such as rack."""

import uuid
from dataclasses import dataclass

import falcon

from covey.api.compute import schemas
from covey.api.compute.identifiers import integer, read_action
from covey.api.compute.microversions import COVEY
from covey.api.requests import Json, Request, read_body, read_query
from covey.api.validation import JsonSchema, Query, Schema, is_true, is_uuid
from covey.api.versions import only_from
from covey.model.errors import Invalid
from covey.model.ids import ProjectId
from covey.services.scopes import NewScope, ScopeChange, VisibleDomain, VisibleScope
from covey.services.scopes import Scopes as Service

_NAME: JsonSchema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[a-zA-Z0-9_.-]+\Z"}
_CHANGEABLE: dict[str, JsonSchema] = {
    "name": _NAME,
    "allow_identifiers": schemas.BOOLEAN,
    "obfuscate_identifiers": schemas.BOOLEAN,
}
_NAMESPACE: JsonSchema = {"type": "string", "format": "uuid"}
CREATE = Schema(
    schemas.body("policy_scope", schemas.fields({**_CHANGEABLE, "obfuscate_namespace_uuid": _NAMESPACE}, "name"))
)
UPDATE = Schema(schemas.body("policy_scope", {**schemas.fields(_CHANGEABLE), "minProperties": 1}))
_ID: JsonSchema = {"type": ["integer", "string"]}
_REMOVED_AGGREGATE: JsonSchema = {
    **schemas.fields({"aggregate": _ID, "aggregate_id": _ID, "force": schemas.BOOLEAN}),
    "oneOf": [{"required": ["aggregate"]}, {"required": ["aggregate_id"]}],
}
_ADDED_AGGREGATE: JsonSchema = {
    **schemas.fields({"aggregate": _ID, "aggregate_id": _ID}),
    "minProperties": 1,
    "maxProperties": 1,
}
ACTIONS = {
    "add_aggregate": schemas.action("add_aggregate", _ADDED_AGGREGATE),
    "remove_aggregate": schemas.action("remove_aggregate", _REMOVED_AGGREGATE),
}
AS_TENANT = Query({"as_tenant_id": schemas.SHORT}, COVEY)


@dataclass(frozen=True, slots=True)
class PolicyScopes:
    """Policy scopes and their actions."""

    service: Service

    @only_from(COVEY)
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        resp.media = {"policy_scopes": [show(scope) for scope in self.service.all(req.actor, _tenant(req))]}

    @only_from(COVEY)
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        body = read_body(req, CREATE)["policy_scope"]
        namespace = body.get("obfuscate_namespace_uuid")
        new = NewScope(
            body["name"],
            is_true(body.get("allow_identifiers", False)),
            is_true(body.get("obfuscate_identifiers", False)),
            None if namespace is None else str(uuid.UUID(namespace)),
        )
        _respond(resp, self.service.create(req.actor, new))

    @only_from(COVEY)
    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        _respond(resp, self.service.get(req.actor, key, _tenant(req)))

    @only_from(COVEY)
    def on_post_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        body = read_body(req, UPDATE)["policy_scope"]
        allow, obfuscate = (
            is_true(body[flag]) if flag in body else None for flag in ("allow_identifiers", "obfuscate_identifiers")
        )
        _respond(resp, self.service.update(req.actor, key, ScopeChange(body.get("name"), allow, obfuscate)))

    on_put_one = on_post_one

    @only_from(COVEY)
    def on_delete_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        self.service.delete(req.actor, key)
        resp.status = falcon.HTTP_204

    @only_from(COVEY)
    def on_post_action(self, req: Request, resp: falcon.Response, key: str) -> None:
        name, parameters = read_action(req, ACTIONS)
        force = is_true(parameters.pop("force", False))
        ((field, value),) = parameters.items()
        aggregate = _aggregate(field, str(value))
        if name == "add_aggregate":
            _respond(resp, self.service.add_aggregate(req.actor, key, aggregate))
        else:
            _respond(resp, self.service.remove_aggregate(req.actor, key, aggregate, force=force))


def _tenant(req: Request) -> ProjectId | None:
    tenant = read_query(req, AS_TENANT).get("as_tenant_id")
    return None if tenant is None else ProjectId(tenant)


def _aggregate(field: str, text: str) -> int | str:
    """Return an aggregate's id or uuid. Raises Invalid."""
    if is_uuid(text):
        return str(uuid.UUID(text))
    if text.isascii() and text.isdecimal():
        return integer(text)
    raise Invalid(
        f"Invalid input for field/attribute {field}. Value: {text}. It must be an aggregate's id or its uuid."
    )


def _respond(resp: falcon.Response, seen: VisibleScope) -> None:
    resp.media = {"policy_scope": show(seen)}


def show(seen: VisibleScope) -> Json:
    """Return a scope with the attributes that the caller may see."""
    scope = seen.scope
    doc: Json = {
        "id": scope.id,
        "name": scope.name,
        "allow_identifiers": scope.allow_identifiers,
        "obfuscate_identifiers": scope.obfuscate_identifiers,
        "aggregates": [_domain(domain) for domain in seen.domains],
    }
    if seen.shows_namespace:
        doc["obfuscate_namespace_uuid"] = scope.namespace_uuid or None
    return doc


def _domain(domain: VisibleDomain) -> Json:
    doc: Json = {"group_id": domain.identifier}
    if domain.aggregate is not None:
        aggregate = domain.aggregate
        doc |= {"id": aggregate.id, "uuid": aggregate.uuid, "name": aggregate.name, "hosts": list(aggregate.hosts)}
    if domain.obfuscated is not None:
        doc["obfuscated_group_id"] = domain.obfuscated
    return doc
