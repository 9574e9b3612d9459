"""What tenants ask for: servers, server groups, policy scopes."""

from covey.api.compute import policy_scopes, rebalances, schemas, server_group_actions, server_groups, server_schemas
from covey.api.compute.openapi import rules
from covey.api.compute.openapi.operations import Operation, actions, any_of, body, under
from covey.api.compute.openapi.shapes import TEXT, UUID, by_name, page, ref, several, shape
from covey.api.compute.placement_explain import EXPLAIN
from covey.api.validation import JsonSchema

_SERVER = under("server", ref("Server"))
_METADATA = under("metadata", by_name(TEXT))
_META = under("meta", {**by_name(TEXT), "minProperties": 1, "maxProperties": 1})
_TAGS = under("tags", several(TEXT))
_GROUP = under("server_group", ref("ServerGroup"))
_SCOPE = under("policy_scope", ref("PolicyScope"))
_TIME: JsonSchema = {"type": "string", "format": "date-time"}
_SPAN = {"changes-since": _TIME, "changes-before": _TIME}
_LOG = {**_SPAN, "marker": schemas.SHORT}
_REGEX: JsonSchema = {"type": "string", "format": "python_regex"}
_AGGREGATE: JsonSchema = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]+$"}, UUID]}
_KEY: JsonSchema = {"type": "string", "minLength": 1, "maxLength": 255}

SERVERS: dict[str, Operation] = {
    "GET /servers": Operation(
        "List servers by id and name.",
        {200: page("servers", ref("ServerName"), "servers_links")},
        server_schemas.LIST,
        narrower={**_SPAN, "name": _REGEX},
    ),
    "GET /servers/detail": Operation(
        "List servers in full.",
        {200: page("servers", ref("Server"), "servers_links")},
        server_schemas.LIST,
        narrower={**_SPAN, "name": _REGEX},
    ),
    "POST /servers": Operation(
        "Ask for servers. One that finds no place is in ERROR afterwards, with the reason as its fault.",
        {202: {"anyOf": [under("server", ref("NewServer")), under("reservation_id", TEXT)]}},
        body=rules.NEW_SERVER,
        also=(404, 409),
        headers={"Idempotency-Key": _KEY},
    ),
    "GET /servers/{key}": Operation("Show a server.", {200: _SERVER}, schemas.NO_PARAMETERS),
    "PUT /servers/{key}": Operation(
        "Change a server's name, description or addresses.", {200: _SERVER}, body=body(server_schemas.UPDATE)
    ),
    "DELETE /servers/{key}": Operation("Delete a server.", {204: None}, also=(409,)),
    "POST /servers/{key}/action": Operation(
        "Do something to a server: one verb a request.",
        {200: shape({}), 202: None, 204: None},
        body=any_of(server_schemas.ACTIONS.values()),
        also=(409,),
    ),
    "GET /servers/{key}/metadata": Operation("Show a server's metadata.", {200: _METADATA}),
    "POST /servers/{key}/metadata": Operation(
        "Add to a server's metadata.", {200: _METADATA}, body=body(server_schemas.METADATA), also=(409,)
    ),
    "PUT /servers/{key}/metadata": Operation(
        "Replace a server's metadata.", {200: _METADATA}, body=body(server_schemas.METADATA), also=(409,)
    ),
    "GET /servers/{key}/metadata/{item}": Operation("Show one item of the metadata.", {200: _META}),
    "PUT /servers/{key}/metadata/{item}": Operation(
        "Set one item of the metadata; the body names it too.",
        {200: _META},
        body=body(server_schemas.META_ITEM),
        also=(409,),
        narrower={"item": {"type": "string", "pattern": schemas.KEY}},
    ),
    "DELETE /servers/{key}/metadata/{item}": Operation("Remove one item of the metadata.", {204: None}, also=(409,)),
    "GET /servers/{key}/os-instance-actions": Operation(
        "List what was done to a server.",
        {200: page("instanceActions", ref("Action"), "links")},
        server_schemas.ACTION_LIST,
        narrower=_LOG,
    ),
    "GET /servers/{key}/os-instance-actions/{request_id}": Operation(
        "Show one thing that was done, step by step.",
        {200: under("instanceAction", ref("ActionWithEvents"))},
        schemas.NO_PARAMETERS,
    ),
    "GET /servers/{key}/placement": Operation(
        "Why a server is where it is, or nowhere.", {200: under("placement", ref("Placement"))}
    ),
    "GET /servers/{key}/tags": Operation("List a server's tags.", {200: _TAGS}),
    "PUT /servers/{key}/tags": Operation("Replace a server's tags.", {200: _TAGS}, body=body(server_schemas.TAGS_BODY)),
    "DELETE /servers/{key}/tags": Operation("Remove all tags of a server.", {204: None}),
    "GET /servers/{key}/tags/{tag}": Operation("Whether a server has a tag.", {204: None}),
    "PUT /servers/{key}/tags/{tag}": Operation(
        "Add a tag to a server.", {201: None, 204: None}, narrower={"tag": server_schemas.TAG}
    ),
    "DELETE /servers/{key}/tags/{tag}": Operation("Remove a tag of a server.", {204: None}),
    "POST /os-placement-explain": Operation(
        "Why each host may take a server, or may not; for administrators.",
        {200: under("explanation", ref("Explanation"))},
        body=body(EXPLAIN),
        also=(404,),
    ),
    "GET /os-migrations": Operation(
        "List moves, past and present; for administrators.",
        {200: page("migrations", ref("Migration"), "migrations_links")},
        server_schemas.MIGRATIONS,
        narrower=_LOG,
    ),
}

GROUPS: dict[str, Operation] = {
    "GET /os-server-groups": Operation(
        "List server groups.", {200: page("server_groups", ref("ServerGroup"))}, server_groups.LIST
    ),
    "POST /os-server-groups": Operation(
        "Create a server group, in any of the three forms.",
        {200: _GROUP},
        body=rules.NEW_GROUP,
        also=(409,),
    ),
    "GET /os-server-groups/{key}": Operation("Show a server group.", {200: _GROUP}, schemas.NO_PARAMETERS),
    **{
        f"{method} /os-server-groups/{{key}}": Operation(
            "Change a server group's name, policies or rules.",
            {200: _GROUP},
            body=rules.GROUP_CHANGE,
            also=(409,),
        )
        for method in ("POST", "PUT")
    },
    "DELETE /os-server-groups/{key}": Operation("Delete a server group; its servers stay.", {204: None}),
    "POST /os-server-groups/{key}/action": Operation(
        "Add or remove a member, ask what would fit, begin or cancel a rebalance: one verb a request.",
        {
            200: {
                "anyOf": [
                    _GROUP,
                    under("preview", ref("Preview")),
                    under("headroom", ref("Headroom")),
                    under("rebalance", ref("RebalancePlan")),
                ]
            },
            202: under("rebalance", ref("Rebalance")),
        },
        body=actions({**server_group_actions.ACTIONS, **rebalances.ACTIONS}),
        also=(409,),
    ),
    "GET /os-server-groups/{key}/audit": Operation(
        "Where the members are; with `violations`, also which policies do not hold.",
        {200: under("server_group_policy_audit", ref("Audit"))},
        server_group_actions.VIOLATIONS,
    ),
    "GET /os-server-groups/{key}/rebalance": Operation(
        "How far the latest rebalance is.", {200: under("rebalance", ref("Rebalance"))}, schemas.NO_PARAMETERS
    ),
}

SCOPES: dict[str, Operation] = {
    "GET /os-policy-scopes": Operation(
        "List policy scopes.", {200: page("policy_scopes", ref("PolicyScope"))}, policy_scopes.AS_TENANT
    ),
    "POST /os-policy-scopes": Operation(
        "Create a policy scope.", {200: _SCOPE}, body=body(policy_scopes.CREATE), also=(409,)
    ),
    "GET /os-policy-scopes/{key}": Operation("Show a policy scope.", {200: _SCOPE}, policy_scopes.AS_TENANT),
    **{
        f"{method} /os-policy-scopes/{{key}}": Operation(
            "Change a policy scope.", {200: _SCOPE}, body=body(policy_scopes.UPDATE), also=(409,)
        )
        for method in ("POST", "PUT")
    },
    "DELETE /os-policy-scopes/{key}": Operation("Delete a policy scope.", {204: None}, also=(409,)),
    "POST /os-policy-scopes/{key}/action": Operation(
        "Add an aggregate to a scope, or take one out.",
        {200: _SCOPE},
        body=any_of(
            schemas.action(verb, schemas.fields({field: _AGGREGATE}, field))
            for verb in policy_scopes.ACTIONS
            for field in ("aggregate", "aggregate_id")
        ),
        also=(409,),
    ),
}
