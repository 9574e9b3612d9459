"""JSON Schemas of the Compute API's bodies and queries. The order of keywords decides which error is reported."""

from collections.abc import Mapping
from typing import Any

from covey.api.compute.microversions import (
    CLASS_QUOTAS_FIXED,
    COVEY,
    FIRST,
    FLAVOR_DESCRIPTION,
    FORCED_DOWN,
    HYPERVISOR_PAGING,
    KEYPAIR_IMPORT_ONLY,
    KEYPAIR_TYPE,
    KEYPAIR_USER,
    NETWORK_QUOTAS_GONE,
    PERSONALITY_GONE,
    STRICT_LISTS,
    STRICT_SHOWS,
    UUIDS_FOR_HOSTS,
)
from covey.api.validation import TRUE, JsonSchema, Query, Schema
from covey.api.versions import Version, Versioned
from covey.model.keypairs import KeyType
from covey.model.quotas import CLASS

MAX_INT = 2**31 - 1

STRING: JsonSchema = {"type": "string"}
KEY = "^[a-zA-Z0-9-_:. ]{1,255}$"  # of metadata and extra specs
NAME: JsonSchema = {"type": "string", "format": "name", "minLength": 1, "maxLength": 255}
SHORT: JsonSchema = {"type": "string", "minLength": 1, "maxLength": 255}
ZONE: JsonSchema = {
    "oneOf": [{"type": "string", "format": "az_name", "minLength": 1, "maxLength": 255}, {"type": "null"}]
}
HOST_NAME: JsonSchema = {"type": "string", "pattern": "^[a-zA-Z0-9-._]*$", "minLength": 1, "maxLength": 255}
PROJECT: JsonSchema = {"type": "string", "pattern": "^[a-zA-Z0-9-]*$", "minLength": 1, "maxLength": 255}
NOT_NEGATIVE: JsonSchema = {"type": ["integer", "string"], "pattern": r"^[0-9]*$", "minimum": 0, "minLength": 1}
POSITIVE: JsonSchema = {**NOT_NEGATIVE, "minimum": 1}
POSITIVE_LIMIT: JsonSchema = {**POSITIVE, "maximum": MAX_INT}
LIMIT: JsonSchema = {"type": ["integer", "string"], "pattern": "^-?[0-9]+$", "minimum": -1, "maximum": MAX_INT}
FALSE = (False, "False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no")
BOOLEAN: JsonSchema = {"type": ["boolean", "string"], "enum": [*TRUE, *FALSE]}


def body(key: str, inner: JsonSchema) -> JsonSchema:
    """Return the schema of an object with one required key."""
    return {"type": "object", "properties": {key: inner}, "required": [key], "additionalProperties": False}


def fields(properties: Mapping[str, JsonSchema], *required: str) -> JsonSchema:
    """Return the schema of an object with these fields and no others."""
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return schema | {"additionalProperties": False}


def action(name: str, inner: JsonSchema) -> Schema:
    """Return the schema of an action's body."""
    return Schema(body(name, inner))


# Aggregates
AGGREGATE_CREATE = Schema(body("aggregate", fields({"name": NAME, "availability_zone": ZONE}, "name")))
AGGREGATE_UPDATE = Schema(
    body(
        "aggregate",
        {
            **fields({"name": NAME, "availability_zone": ZONE}),
            "anyOf": [{"required": ["name"]}, {"required": ["availability_zone"]}],
        },
    )
)
_METADATA: JsonSchema = {
    "type": "object",
    "patternProperties": {KEY: {"type": ["string", "null"], "maxLength": 255}},
    "additionalProperties": False,
}
AGGREGATE_DELETE = Query({"force": BOOLEAN}, STRICT_LISTS)
AGGREGATE_ACTIONS = {
    "add_host": action("add_host", fields({"host": HOST_NAME}, "host")),
    "remove_host": action("remove_host", fields({"host": HOST_NAME}, "host")),
    "set_metadata": action("set_metadata", fields({"metadata": _METADATA}, "metadata")),
}
CACHE_IMAGES = Schema(
    body("cache", {"type": "array", "minItems": 1, "items": fields({"id": {"type": "string", "format": "uuid"}}, "id")})
)

# Flavors
_SIZE: JsonSchema = {**NOT_NEGATIVE, "maximum": MAX_INT}
_POSITIVE_SIZE: JsonSchema = {**POSITIVE, "maximum": MAX_INT}
_DESCRIPTION: JsonSchema = {"type": ["string", "null"], "format": "printable", "minLength": 0, "maxLength": 65535}
_FLAVOR: dict[str, JsonSchema] = {
    "name": NAME,
    "id": {
        "type": ["string", "number", "null"],
        "minLength": 1,
        "maxLength": 255,
        "pattern": "^(?! )[a-zA-Z0-9. _-]+(?<! )$",
    },
    "ram": _POSITIVE_SIZE,
    "vcpus": _POSITIVE_SIZE,
    "disk": _SIZE,
    "OS-FLV-EXT-DATA:ephemeral": _SIZE,
    "swap": _SIZE,
    "os-flavor-access:is_public": BOOLEAN,
}
_RXTX: JsonSchema = {
    "type": ["number", "string"],
    "pattern": r"^[0-9]+(\.[0-9]+)?$",
    "exclusiveMinimum": 0,
    "maximum": 3.40282e38,
}


def _flavor(**more: JsonSchema) -> Schema:
    return Schema(body("flavor", fields({**_FLAVOR, **more}, "name", "ram", "vcpus", "disk")))


FLAVOR_CREATE = Versioned(
    {
        FIRST: _flavor(rxtx_factor=_RXTX),
        FLAVOR_DESCRIPTION: _flavor(rxtx_factor=_RXTX, description=_DESCRIPTION),
        STRICT_SHOWS: _flavor(description=_DESCRIPTION),
    }
)
FLAVOR_UPDATE = Schema(body("flavor", fields({"description": _DESCRIPTION}, "description")))
_SORT_KEYS = [
    *("created_at", "description", "disabled", "ephemeral_gb", "flavorid", "id", "is_public", "memory_mb", "name"),
    *("root_gb", "rxtx_factor", "swap", "updated_at", "vcpu_weight", "vcpus"),
]
FLAVOR_LIST = Query(
    {
        "limit": NOT_NEGATIVE,
        "marker": STRING,
        "is_public": STRING,
        "minRam": STRING,
        "minDisk": STRING,
        "sort_key": {"type": "string", "enum": _SORT_KEYS},
        "sort_dir": {"type": "string", "enum": ["asc", "desc"]},
    },
    STRICT_LISTS,
)
_SPECS: JsonSchema = {
    "type": "object",
    "patternProperties": {KEY: {"type": ["string", "number"], "maxLength": 255}},
    "additionalProperties": False,
}
EXTRA_SPECS_CREATE = Schema(body("extra_specs", _SPECS))
EXTRA_SPECS_UPDATE = Schema({**_SPECS, "minProperties": 1, "maxProperties": 1})
FLAVOR_ACTIONS = {
    name: action(name, fields({"tenant": PROJECT}, "tenant")) for name in ("addTenantAccess", "removeTenantAccess")
}

# Hosts
HYPERVISOR_LIST = Versioned(
    {
        FIRST: Query({}, STRICT_SHOWS),
        HYPERVISOR_PAGING: Query({"limit": NOT_NEGATIVE, "marker": STRING}, STRICT_SHOWS),
        UUIDS_FOR_HOSTS: Query(
            {
                "limit": NOT_NEGATIVE,
                "marker": STRING,
                "hypervisor_hostname_pattern": HOST_NAME,
                "with_servers": BOOLEAN,
            },
            UUIDS_FOR_HOSTS,
        ),
    }
)
HYPERVISOR_SHOW = Versioned(
    {FIRST: Query({}, STRICT_SHOWS), UUIDS_FOR_HOSTS: Query({"with_servers": BOOLEAN}, UUIDS_FOR_HOSTS)}
)
_NAMED_SERVICE = {"host": HOST_NAME, "binary": SHORT, "disabled_reason": SHORT}
SERVICE_UPDATE = Versioned(
    {
        FIRST: Schema(fields(_NAMED_SERVICE, "host", "binary")),
        FORCED_DOWN: Schema(fields({**_NAMED_SERVICE, "forced_down": BOOLEAN}, "host", "binary")),
        UUIDS_FOR_HOSTS: Schema(
            fields(
                {
                    "status": {"type": "string", "enum": ["enabled", "disabled"]},
                    "disabled_reason": SHORT,
                    "forced_down": BOOLEAN,
                }
            )
        ),
    }
)
SERVICE_LIST = Query({"host": STRING, "binary": STRING}, STRICT_LISTS)

# Quotas
NETWORK_QUOTAS = ("floating_ips", "fixed_ips", "security_groups", "security_group_rules")
PERSONALITY_QUOTAS = ("injected_files", "injected_file_content_bytes", "injected_file_path_bytes")
GROUP_QUOTAS = ("server_groups", "server_group_members")
_ALWAYS = ("instances", "cores", "ram", "metadata_items", "key_pairs")

QUOTA_RESOURCES = Versioned(
    {
        FIRST: (*_ALWAYS, *NETWORK_QUOTAS, *PERSONALITY_QUOTAS, *GROUP_QUOTAS),
        NETWORK_QUOTAS_GONE: (*_ALWAYS, *PERSONALITY_QUOTAS, *GROUP_QUOTAS),
        PERSONALITY_GONE: (*_ALWAYS, *GROUP_QUOTAS),
    }
)
CLASS_QUOTA_RESOURCES = Versioned(
    {
        FIRST: (*_ALWAYS, *NETWORK_QUOTAS, *PERSONALITY_QUOTAS),
        CLASS_QUOTAS_FIXED: (*_ALWAYS, *PERSONALITY_QUOTAS, *GROUP_QUOTAS),
        PERSONALITY_GONE: (*_ALWAYS, *GROUP_QUOTAS),
    }
)


def _quota_fields(resources: tuple[str, ...], **more: JsonSchema) -> JsonSchema:
    return fields({**dict.fromkeys(resources, LIMIT), **more})


def _by_version(key: str, resources: Versioned[tuple[str, ...]], **more: JsonSchema) -> Versioned[Schema]:
    versions: tuple[Version, ...] = (FIRST, NETWORK_QUOTAS_GONE, CLASS_QUOTAS_FIXED, PERSONALITY_GONE)
    stock = {version: _quota_fields(resources.at(version), **more) for version in versions}
    newest = {**stock[PERSONALITY_GONE], "patternProperties": {f"^{CLASS}": LIMIT}}
    return Versioned({version: Schema(body(key, inner)) for version, inner in {**stock, COVEY: newest}.items()})


QUOTA_UPDATE = _by_version("quota_set", QUOTA_RESOURCES, force=BOOLEAN)
CLASS_QUOTA_UPDATE = _by_version("quota_class_set", CLASS_QUOTA_RESOURCES)
QUOTA_QUERY = Query({"user_id": STRING}, STRICT_LISTS)
LIMITS_QUERY = Query({"reserved": STRING, "tenant_id": STRING}, STRICT_LISTS)

# Key pairs
_KEY: dict[str, JsonSchema] = {
    "name": {"allOf": [NAME, {"type": "string", "pattern": r"^[_\- a-zA-Z0-9]+$"}]},
    "public_key": STRING,
}
_TYPED_KEY = {**_KEY, "type": {"type": "string", "enum": [*map(str, KeyType)]}}
_USERS_KEY = {**_TYPED_KEY, "user_id": SHORT}
_IMPORTED_KEY = {**_USERS_KEY, "name": {"allOf": [NAME, {"type": "string", "pattern": r"^[_\-\@\. a-zA-Z0-9]+$"}]}}
KEYPAIR_CREATE = Versioned(
    {
        FIRST: Schema(body("keypair", fields(_KEY, "name"))),
        KEYPAIR_TYPE: Schema(body("keypair", fields(_TYPED_KEY, "name"))),
        KEYPAIR_USER: Schema(body("keypair", fields(_USERS_KEY, "name"))),
        KEYPAIR_IMPORT_ONLY: Schema(body("keypair", fields(_IMPORTED_KEY, "name", "public_key"))),
    }
)
KEYPAIR_LIST = Query({"user_id": STRING, "limit": NOT_NEGATIVE, "marker": STRING}, STRICT_LISTS)
KEYPAIR_QUERY = Query({"user_id": STRING}, STRICT_LISTS)

NO_PARAMETERS = Query({}, STRICT_SHOWS)
