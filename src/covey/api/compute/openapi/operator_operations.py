"""Operations on hosts, their drains, aggregates, flavors and quotas; and on the document itself."""

from covey.api.compute import drains, flavors, schemas
from covey.api.compute.microversions import COVEY
from covey.api.compute.openapi import request_bodies
from covey.api.compute.openapi.operations import (
    ANY_OBJECT,
    TEXT,
    UUID,
    Operation,
    any_case,
    any_of,
    array_of,
    body,
    map_of,
    page,
    ref,
    wrapped,
)
from covey.api.validation import JsonSchema
from covey.model.control_characters import ONE_LINE

_AGGREGATE = wrapped("aggregate", ref("Aggregate"))
_FLAVOR = wrapped("flavor", ref("Flavor"))
_SPECS = wrapped("extra_specs", map_of(TEXT))
_SPEC: JsonSchema = {**map_of(TEXT), "minProperties": 1, "maxProperties": 1}
_SERVICE = wrapped("service", ref("Service"))
_DRAIN = wrapped("drain", ref("Drain"))
_ZONES = wrapped("availabilityZoneInfo", array_of(ref("Zone")))
_AMOUNT: JsonSchema = {"type": "string", "pattern": "^[0-9]+$"}
_TRUTH: JsonSchema = {"type": "string", "pattern": f"^({'|'.join(any_case(word) for word in flavors.BOOLEANS)})$"}
_FLAVOR_FILTERS: dict[str, JsonSchema] = {
    "minRam": _AMOUNT,
    "minDisk": _AMOUNT,
    "is_public": _TRUTH,
    "marker": schemas.SHORT,
}
_KEY: JsonSchema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": ONE_LINE}

DRAINS: dict[str, Operation] = {
    "GET /os-drains": Operation(
        "List drains, the newest first; for administrators.",
        {200: page("drains", ref("DrainSummary"))},
        schemas.NO_PARAMETERS,
    ),
    "POST /os-drains": Operation(
        "Drain a host or a domain: disable its hosts and move their servers away; or, with `dry_run`, plan that.",
        {200: wrapped("drain", ref("DrainPlan")), 202: _DRAIN},
        body=body(drains.CREATE),
        errors=(409,),
    ),
    "GET /os-drains/{key}": Operation("Show a drain with its progress.", {200: _DRAIN}, schemas.NO_PARAMETERS),
    "POST /os-drains/{key}/action": Operation(
        "Cancel a running drain, or undo a drain: enable the hosts that it disabled.",
        {202: _DRAIN},
        body=any_of(drains.ACTIONS.values()),
        errors=(409,),
    ),
}

AGGREGATES: dict[str, Operation] = {
    "GET /os-aggregates": Operation(
        "List host aggregates.", {200: page("aggregates", ref("Aggregate"))}, schemas.NO_PARAMETERS
    ),
    "POST /os-aggregates": Operation(
        "Create a host aggregate.",
        {200: wrapped("aggregate", ref("NewAggregate"))},
        body=body(schemas.AGGREGATE_CREATE),
        errors=(409,),
    ),
    "GET /os-aggregates/{key}": Operation("Show a host aggregate.", {200: _AGGREGATE}, schemas.NO_PARAMETERS),
    "PUT /os-aggregates/{key}": Operation(
        "Change an aggregate's name or zone.", {200: _AGGREGATE}, body=body(schemas.AGGREGATE_UPDATE), errors=(409,)
    ),
    "DELETE /os-aggregates/{key}": Operation(
        "Delete an aggregate without hosts.", {200: None}, schemas.AGGREGATE_DELETE, errors=(409,)
    ),
    "POST /os-aggregates/{key}/action": Operation(
        "Add or remove a host, or set metadata.",
        {200: _AGGREGATE},
        body=any_of(schemas.AGGREGATE_ACTIONS.values()),
        errors=(409,),
    ),
    "POST /os-aggregates/{key}/images": Operation(
        "Accepted without effect: hosts have no cache of images.", {202: None}, body=request_bodies.CACHED_IMAGES
    ),
}

FLAVORS: dict[str, Operation] = {
    "GET /flavors": Operation(
        "List flavors by id and name.",
        {200: page("flavors", ref("FlavorName"), "flavors_links")},
        schemas.FLAVOR_LIST,
        stricter=_FLAVOR_FILTERS,
    ),
    "GET /flavors/detail": Operation(
        "List flavors with details.",
        {200: page("flavors", ref("Flavor"), "flavors_links")},
        schemas.FLAVOR_LIST,
        stricter=_FLAVOR_FILTERS,
    ),
    "POST /flavors": Operation("Create a flavor.", {200: _FLAVOR}, body=body(schemas.FLAVOR_CREATE), errors=(409,)),
    "GET /flavors/{key}": Operation("Show a flavor.", {200: _FLAVOR}, schemas.NO_PARAMETERS),
    "PUT /flavors/{key}": Operation("Change a flavor's description.", {200: _FLAVOR}, body=body(schemas.FLAVOR_UPDATE)),
    "DELETE /flavors/{key}": Operation("Delete a flavor; servers keep their copy.", {202: None}),
    "POST /flavors/{key}/action": Operation(
        "Grant or revoke a project's access to a private flavor.",
        {200: ref("FlavorAccess")},
        body=any_of(schemas.FLAVOR_ACTIONS.values()),
        errors=(409,),
    ),
    "GET /flavors/{key}/os-flavor-access": Operation(
        "List the projects that may use a private flavor.", {200: ref("FlavorAccess")}, schemas.NO_PARAMETERS
    ),
    "GET /flavors/{key}/os-extra_specs": Operation(
        "Show a flavor's extra specs.", {200: _SPECS}, schemas.NO_PARAMETERS
    ),
    "POST /flavors/{key}/os-extra_specs": Operation(
        "Add extra specs.", {200: _SPECS}, body=request_bodies.EXTRA_SPECS, errors=(409,)
    ),
    "GET /flavors/{key}/os-extra_specs/{spec}": Operation("Show one extra spec.", {200: _SPEC}, schemas.NO_PARAMETERS),
    "PUT /flavors/{key}/os-extra_specs/{spec}": Operation(
        "Set one extra spec; the body repeats its name.",
        {200: _SPEC},
        body=request_bodies.EXTRA_SPEC,
        errors=(409,),
        stricter={"spec": {"type": "string", "pattern": schemas.KEY}},
    ),
    "DELETE /flavors/{key}/os-extra_specs/{spec}": Operation("Remove one extra spec.", {200: None}),
}

HOSTS: dict[str, Operation] = {
    "GET /os-hypervisors": Operation(
        "List hosts by id and name.",
        {200: page("hypervisors", ref("HypervisorName"), "hypervisors_links")},
        schemas.HYPERVISOR_LIST.at(COVEY),
        errors=(404,),
        stricter={"marker": UUID},
    ),
    "GET /os-hypervisors/detail": Operation(
        "List hosts with details.",
        {200: page("hypervisors", ref("Hypervisor"), "hypervisors_links")},
        schemas.HYPERVISOR_LIST.at(COVEY),
        errors=(404,),
        stricter={"marker": UUID},
    ),
    "GET /os-hypervisors/{key}": Operation(
        "Show a host.", {200: wrapped("hypervisor", ref("Hypervisor"))}, schemas.HYPERVISOR_SHOW.at(COVEY)
    ),
    "GET /os-services": Operation(
        "List hosts as compute services.",
        {200: page("services", ref("Service"))},
        schemas.SERVICE_LIST,
    ),
    "PUT /os-services/{key}": Operation(
        "Enable, disable or force down a host.", {200: _SERVICE}, body=request_bodies.SERVICE_CHANGE
    ),
    "DELETE /os-services/{key}": Operation("Take a host out of the fleet.", {204: None}, errors=(409,)),
    "GET /os-availability-zone": Operation("List availability zones.", {200: _ZONES}, schemas.NO_PARAMETERS),
    "GET /os-availability-zone/detail": Operation(
        "List availability zones with their hosts.", {200: _ZONES}, schemas.NO_PARAMETERS
    ),
}

QUOTAS: dict[str, Operation] = {
    "GET /limits": Operation("Show limits and use.", {200: wrapped("limits", ref("Limits"))}, schemas.LIMITS_QUERY),
    "GET /os-quota-sets/{key}": Operation(
        "Show a project's quota.", {200: wrapped("quota_set", ref("NamedQuota"))}, schemas.QUOTA_QUERY
    ),
    "GET /os-quota-sets/{key}/detail": Operation(
        "Show a project's quota and usage.", {200: wrapped("quota_set", ref("QuotaInUse"))}, schemas.QUOTA_QUERY
    ),
    "GET /os-quota-sets/{key}/defaults": Operation(
        "Show the default quota.", {200: wrapped("quota_set", ref("NamedQuota"))}, schemas.NO_PARAMETERS
    ),
    "PUT /os-quota-sets/{key}": Operation(
        "Change a project's quota.",
        {200: wrapped("quota_set", ref("Quota"))},
        schemas.QUOTA_QUERY,
        request_bodies.NEW_QUOTA,
        stricter={"key": _KEY},
    ),
    "DELETE /os-quota-sets/{key}": Operation(
        "Reset a project's quota to the default.", {202: None}, schemas.QUOTA_QUERY
    ),
    "GET /os-quota-class-sets/{key}": Operation(
        "Show a quota class.", {200: wrapped("quota_class_set", ref("NamedQuota"))}, schemas.NO_PARAMETERS
    ),
    "PUT /os-quota-class-sets/{key}": Operation(
        "Change a quota class; `default` applies to all projects.",
        {200: wrapped("quota_class_set", ref("Quota"))},
        body=request_bodies.NEW_CLASS_QUOTA,
        stricter={"key": _KEY},
    ),
}

SMALL: dict[str, Operation] = {
    "GET /extensions": Operation(
        "List extensions, for older clients.", {200: page("extensions", ref("Extension"))}, schemas.NO_PARAMETERS
    ),
    "GET /extensions/{key}": Operation(
        "Show an extension.", {200: wrapped("extension", ref("Extension"))}, schemas.NO_PARAMETERS
    ),
    "GET /os-keypairs": Operation(
        "List key pairs of the caller, or of `user_id`.",
        {200: page("keypairs", wrapped("keypair", ref("KeyPair")), "keypairs_links")},
        schemas.KEYPAIR_LIST,
        stricter={"marker": schemas.SHORT},
    ),
    "POST /os-keypairs": Operation(
        "Import a public key.",
        {201: wrapped("keypair", ref("NewKeyPair"))},
        body=body(schemas.KEYPAIR_CREATE),
        errors=(409,),
    ),
    "GET /os-keypairs/{key}": Operation(
        "Show a key pair.", {200: wrapped("keypair", ref("FullKeyPair"))}, schemas.KEYPAIR_QUERY
    ),
    "DELETE /os-keypairs/{key}": Operation("Delete a key pair.", {204: None}, schemas.KEYPAIR_QUERY),
    "GET /openapi.json": Operation("Show this document.", {200: ANY_OBJECT}, is_open=True),
}
