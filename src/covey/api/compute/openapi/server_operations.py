"""Operations on servers, server groups and policy scopes."""

from covey.api.compute import policy_scopes, rebalances, schemas, server_group_actions, server_groups, server_schemas
from covey.api.compute.openapi import request_bodies
from covey.api.compute.openapi.operations import (
    TEXT,
    UUID,
    Operation,
    actions,
    any_of,
    array_of,
    body,
    map_of,
    page,
    ref,
    shape,
    wrapped,
)
from covey.api.compute.placement_explain import EXPLAIN
from covey.api.validation import JsonSchema

_SERVER = wrapped("server", ref("Server"))
_METADATA = wrapped("metadata", map_of(TEXT))
_META = wrapped("meta", {**map_of(TEXT), "minProperties": 1, "maxProperties": 1})
_TAGS = wrapped("tags", array_of(TEXT))
_GROUP = wrapped("server_group", ref("ServerGroup"))
_EVACUATIONS = wrapped("evacuations", array_of(ref("Evacuation")))
_SCOPE = wrapped("policy_scope", ref("PolicyScope"))
_TIME: JsonSchema = {"type": "string", "format": "date-time"}
_SPAN = {"changes-since": _TIME, "changes-before": _TIME}
_LOG = {**_SPAN, "marker": schemas.SHORT}
_REGEX: JsonSchema = {"type": "string", "format": "re2"}
_AGGREGATE: JsonSchema = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]+$"}, UUID]}
_KEY: JsonSchema = {"type": "string", "minLength": 1, "maxLength": 255}

SERVERS: dict[str, Operation] = {
    "GET /servers": Operation(
        "List servers by id and name.",
        {200: page("servers", ref("ServerName"), "servers_links")},
        server_schemas.LIST,
        stricter={**_SPAN, "name": _REGEX},
    ),
    "GET /servers/detail": Operation(
        "List servers with details.",
        {200: page("servers", ref("Server"), "servers_links")},
        server_schemas.LIST,
        stricter={**_SPAN, "name": _REGEX},
    ),
    "POST /servers": Operation(
        "Create servers. A server without a valid host becomes ERROR, with the reason as its fault.",
        {202: {"anyOf": [wrapped("server", ref("NewServer")), wrapped("reservation_id", TEXT)]}},
        body=request_bodies.NEW_SERVER,
        errors=(404, 409),
        headers={"Idempotency-Key": _KEY},
    ),
    "GET /servers/{key}": Operation("Show a server.", {200: _SERVER}, schemas.NO_PARAMETERS),
    "PUT /servers/{key}": Operation(
        "Change a server's name, description, addresses or pinned zone.",
        {200: _SERVER},
        body=body(server_schemas.UPDATE),
        errors=(409,),
    ),
    "DELETE /servers/{key}": Operation("Delete a server.", {204: None}, errors=(409,)),
    "POST /servers/{key}/action": Operation(
        "Run one action on a server.",
        {200: {"anyOf": [shape({}), wrapped("output", {"type": "string"})]}, 202: None, 204: None},
        body=any_of(form for name, form in server_schemas.ACTIONS.items() if name != "resetNetwork"),  # always 410
        errors=(409,),
    ),
    "GET /servers/{key}/metadata": Operation("Show a server's metadata.", {200: _METADATA}),
    "POST /servers/{key}/metadata": Operation(
        "Add metadata to a server.", {200: _METADATA}, body=body(server_schemas.METADATA), errors=(409,)
    ),
    "PUT /servers/{key}/metadata": Operation(
        "Replace a server's metadata.", {200: _METADATA}, body=body(server_schemas.METADATA), errors=(409,)
    ),
    "GET /servers/{key}/metadata/{item}": Operation("Show one item of the metadata.", {200: _META}),
    "PUT /servers/{key}/metadata/{item}": Operation(
        "Set one item of the metadata; the body repeats its key.",
        {200: _META},
        body=body(server_schemas.META_ITEM),
        errors=(409,),
        stricter={"item": {"type": "string", "pattern": schemas.KEY}},
    ),
    "DELETE /servers/{key}/metadata/{item}": Operation("Remove one item of the metadata.", {204: None}, errors=(409,)),
    "GET /servers/{key}/migrations": Operation(
        "List a server's live migrations in progress; for administrators.",
        {200: wrapped("migrations", array_of(ref("LiveMigration")))},
        schemas.NO_PARAMETERS,
    ),
    "GET /servers/{key}/migrations/{migration}": Operation(
        "Show a live migration in progress; for administrators.",
        {200: wrapped("migration", ref("LiveMigration"))},
        schemas.NO_PARAMETERS,
    ),
    "DELETE /servers/{key}/migrations/{migration}": Operation(
        "Abort a live migration; for administrators.", {202: None}, errors=(400, 409)
    ),
    "GET /servers/{key}/os-instance-actions": Operation(
        "List a server's instance actions.",
        {200: page("instanceActions", ref("Action"), "links")},
        server_schemas.ACTION_LIST,
        stricter=_LOG,
    ),
    "GET /servers/{key}/os-instance-actions/{request_id}": Operation(
        "Show an instance action with its events.",
        {200: wrapped("instanceAction", ref("ActionWithEvents"))},
        schemas.NO_PARAMETERS,
    ),
    "GET /servers/{key}/placement": Operation(
        "Explain the placement of a server, or of an instance that Nova runs.",
        {200: wrapped("placement", {"anyOf": [ref("Placement"), ref("InstancePlacement")]})},
    ),
    "GET /servers/{key}/tags": Operation("List a server's tags.", {200: _TAGS}),
    "PUT /servers/{key}/tags": Operation("Replace a server's tags.", {200: _TAGS}, body=body(server_schemas.TAGS_BODY)),
    "DELETE /servers/{key}/tags": Operation("Remove all tags of a server.", {204: None}),
    "GET /servers/{key}/tags/{tag}": Operation("Check whether a server has a tag.", {204: None}),
    "PUT /servers/{key}/tags/{tag}": Operation(
        "Add a tag to a server.", {201: None, 204: None}, stricter={"tag": server_schemas.TAG}
    ),
    "DELETE /servers/{key}/tags/{tag}": Operation("Remove a tag of a server.", {204: None}),
    "POST /os-placement-explain": Operation(
        "Explain for each host why it can or cannot take a server; for administrators.",
        {200: wrapped("explanation", ref("Explanation"))},
        body=body(EXPLAIN),
        errors=(404,),
    ),
    "GET /os-migrations": Operation(
        "List migrations; for administrators.",
        {200: page("migrations", ref("Migration"), "migrations_links")},
        server_schemas.MIGRATIONS,
        stricter=_LOG,
    ),
}

GROUPS: dict[str, Operation] = {
    "GET /os-server-groups": Operation(
        "List server groups.", {200: page("server_groups", ref("ServerGroup"))}, server_groups.LIST
    ),
    "POST /os-server-groups": Operation(
        "Create a server group, in any of the three forms.",
        {200: _GROUP},
        body=request_bodies.NEW_GROUP,
        errors=(409,),
    ),
    "GET /os-server-groups/{key}": Operation("Show a server group.", {200: _GROUP}, schemas.NO_PARAMETERS),
    **{
        f"{method} /os-server-groups/{{key}}": Operation(
            "Change a server group's name, policies or rules.",
            {200: _GROUP},
            body=request_bodies.GROUP_CHANGE,
            errors=(409,),
        )
        for method in ("POST", "PUT")
    },
    "DELETE /os-server-groups/{key}": Operation("Delete a server group; its servers stay.", {204: None}, errors=(409,)),
    "POST /os-server-groups/{key}/action": Operation(
        "Run one action on a server group: add or remove a member, preview, headroom, start or cancel a rebalance, "
        "evacuate its members.",
        {
            200: {
                "anyOf": [
                    _GROUP,
                    wrapped("preview", ref("Preview")),
                    wrapped("headroom", ref("Headroom")),
                    wrapped("rebalance", ref("RebalancePlan")),
                ]
            },
            202: {"anyOf": [wrapped("rebalance", ref("Rebalance")), _EVACUATIONS]},
        },
        body=actions({**server_group_actions.ACTIONS, **rebalances.ACTIONS}),
        errors=(409,),
    ),
    "GET /os-server-groups/{key}/audit": Operation(
        "Audit a server group: the placement of its members and, with `violations`, its policy violations.",
        {200: wrapped("server_group_policy_audit", ref("Audit"))},
        server_group_actions.VIOLATIONS,
    ),
    "GET /os-server-groups/{key}/rebalance": Operation(
        "Show the latest rebalance.", {200: wrapped("rebalance", ref("Rebalance"))}, schemas.NO_PARAMETERS
    ),
}

SCOPES: dict[str, Operation] = {
    "GET /os-policy-scopes": Operation(
        "List policy scopes.", {200: page("policy_scopes", ref("PolicyScope"))}, policy_scopes.AS_TENANT
    ),
    "POST /os-policy-scopes": Operation(
        "Create a policy scope.", {200: _SCOPE}, body=body(policy_scopes.CREATE), errors=(409,)
    ),
    "GET /os-policy-scopes/{key}": Operation("Show a policy scope.", {200: _SCOPE}, policy_scopes.AS_TENANT),
    **{
        f"{method} /os-policy-scopes/{{key}}": Operation(
            "Change a policy scope.", {200: _SCOPE}, body=body(policy_scopes.UPDATE), errors=(409,)
        )
        for method in ("POST", "PUT")
    },
    "DELETE /os-policy-scopes/{key}": Operation("Delete a policy scope.", {204: None}, errors=(409,)),
    "POST /os-policy-scopes/{key}/action": Operation(
        "Add an aggregate to a scope, or remove one.",
        {200: _SCOPE},
        body=any_of(
            schemas.action(verb, schemas.fields({field: _AGGREGATE}, field))
            for verb in policy_scopes.ACTIONS
            for field in ("aggregate", "aggregate_id")
        ),
        errors=(409,),
    ),
}
