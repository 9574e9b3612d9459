"""JSON Schemas of servers and their actions at each microversion."""

from collections.abc import Mapping

from covey.api.compute import microversions as mv
from covey.api.compute.schemas import (
    BOOLEAN,
    HOST_NAME,
    KEY,
    NAME,
    NOT_NEGATIVE,
    POSITIVE,
    STRING,
    body,
    fields,
)
from covey.api.validation import JsonSchema, Query, Schema
from covey.api.versions import Version, Versioned
from covey.model.control_characters import CONTROL

_DESCRIPTION: JsonSchema = {"type": ["string", "null"], "format": "printable", "maxLength": 255}
_METADATA: JsonSchema = {
    "type": "object",
    "patternProperties": {KEY: {"type": "string", "maxLength": 255}},
    "additionalProperties": False,
}
TAG: JsonSchema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 60,
    "pattern": "^[^,/]*$",
    "not": {"pattern": CONTROL.pattern},
}
TAGS: JsonSchema = {"type": "array", "items": TAG, "maxItems": 50, "uniqueItems": True}
_COUNT: JsonSchema = {**POSITIVE, "maximum": 100_000}
_UUID: JsonSchema = {"type": "string", "format": "uuid"}
_IPV4: JsonSchema = {"type": "string", "oneOf": [{"format": "ipv4"}, {"maxLength": 0}]}
_IPV6: JsonSchema = {"type": "string", "oneOf": [{"format": "ipv6"}, {"maxLength": 0}]}
_IP: JsonSchema = {"type": "string", "oneOf": [{"format": "ipv4"}, {"format": "ipv6"}]}
_NETWORK = {"uuid": _UUID, "port": {"oneOf": [_UUID, {"type": "null"}]}, "fixed_ip": _IP}
_LIST_OF_NETWORKS: JsonSchema = {"type": "array", "items": fields(_NETWORK)}
_LIST_OF_TAGGED: JsonSchema = {"type": "array", "items": fields({**_NETWORK, "tag": TAG})}
_NETWORKS: JsonSchema = {"oneOf": [_LIST_OF_TAGGED, {"type": "string", "enum": ["none", "auto"]}]}
_UUIDS: JsonSchema = {"oneOf": [_UUID, {"type": "array", "items": _UUID}]}
_HINTS: JsonSchema = {
    "type": "object",
    "properties": {
        "group": {"oneOf": [_UUID, {"type": "array", "items": _UUID, "maxItems": 1}]},
        "same_host": _UUIDS,
        "different_host": _UUIDS,
    },
    "additionalProperties": True,
}

_FIRST: dict[str, JsonSchema] = {
    "name": NAME,
    "imageRef": {"oneOf": [_UUID, {"type": "string", "maxLength": 0}]},
    "flavorRef": {"type": ["string", "integer"], "minLength": 1},
    "adminPass": STRING,
    "metadata": _METADATA,
    "networks": _LIST_OF_NETWORKS,
    "OS-DCF:diskConfig": {"type": "string", "enum": ["AUTO", "MANUAL"]},
    "accessIPv4": _IPV4,
    "accessIPv6": _IPV6,
    "personality": {"type": "array"},
    "availability_zone": {"type": "string", "minLength": 1, "maxLength": 255},
    "block_device_mapping": {"type": "array"},
    "block_device_mapping_v2": {"type": "array", "items": {"type": "object"}},
    "config_drive": BOOLEAN,
    "key_name": {"type": "string", "minLength": 1, "maxLength": 255},
    "min_count": _COUNT,
    "max_count": _COUNT,
    "return_reservation_id": BOOLEAN,
    "security_groups": {"type": "array"},
    "user_data": {"type": "string", "maxLength": 65535, "format": "base64"},
}


def _create(known: Mapping[str, JsonSchema], *required: str) -> Schema:
    server = fields(known, "name", "flavorRef", *required)
    return Schema(
        {
            "type": "object",
            "properties": {
                "server": server,
                "os:scheduler_hints": _HINTS,
                "OS-SCH-HNT:scheduler_hints": _HINTS,
            },
            "required": ["server"],
            "additionalProperties": False,
        },
        fast=True,
    )


_GONE: JsonSchema = {"not": {}}  # a field that a version removes
_STEPS: tuple[tuple[Version, dict[str, JsonSchema]], ...] = (
    (mv.FIRST, {}),
    (mv.DESCRIPTION, {"description": _DESCRIPTION}),
    (mv.NETWORK_TAGS, {"networks": _LIST_OF_TAGGED}),
    (mv.NETWORKS_REQUIRED, {"networks": _NETWORKS}),
    (mv.TAGS_AT_CREATE, {"tags": TAGS}),
    (mv.PERSONALITY_GONE, {"personality": _GONE}),
    (mv.TRUSTED_CERTIFICATES, {"trusted_image_certificates": {"type": ["array", "null"]}}),
    (mv.REQUESTED_HOST, {"host": HOST_NAME, "hypervisor_hostname": HOST_NAME}),
    (mv.HOSTNAME, {"hostname": {"type": "string", "pattern": "^[a-zA-Z0-9-._]*$", "minLength": 2, "maxLength": 63}}),
)


def _creates() -> Versioned[Schema]:
    since, known = {}, _FIRST
    for version, step in _STEPS:
        known = {name: schema for name, schema in {**known, **step}.items() if schema is not _GONE}
        since[version] = _create(known, *(["networks"] if version >= mv.NETWORKS_REQUIRED else []))
    return Versioned(since)


CREATE = _creates()
_UPDATE: dict[str, JsonSchema] = {
    "name": NAME,
    "OS-DCF:diskConfig": {"type": "string", "enum": ["AUTO", "MANUAL"]},
    "accessIPv4": _IPV4,
    "accessIPv6": _IPV6,
}
_DESCRIBED = {**_UPDATE, "description": _DESCRIPTION}
_NAMED = {**_DESCRIBED, "hostname": STRING}
_PINNED = {**_NAMED, "pinned_availability_zone": {"oneOf": [NAME, {"type": "null"}]}}
UPDATE = Versioned(
    {
        mv.FIRST: Schema(body("server", fields(_UPDATE))),
        mv.DESCRIPTION: Schema(body("server", fields(_DESCRIBED))),
        mv.HOSTNAME: Schema(body("server", fields(_NAMED))),
        mv.PINNED_ZONE_UPDATED: Schema(body("server", fields(_PINNED))),
    }
)
METADATA = Schema(body("metadata", _METADATA))
META_ITEM = Schema(body("meta", {**_METADATA, "minProperties": 1, "maxProperties": 1}))
TAGS_BODY = Schema(body("tags", TAGS))
_FILTERS = (
    *("all_tenants", "changes-since", "changes-before", "deleted", "flavor", "host", "image", "ip", "ip6", "name"),
    *("project_id", "reservation_id", "status", "tenant_id", "user_id", "uuid", "vm_state", "task_state", "node"),
    *("tags", "tags-any", "not-tags", "not-tags-any", "availability_zone", "locked", "key_name", "description"),
    *("power_state", "hostname", "created_at", "launched_at", "terminated_at", "access_ip_v4", "access_ip_v6"),
    *("config_drive", "auto_disk_config", "display_name", "display_description", "instance_name", "kernel_id"),
    *("launch_index", "progress", "ramdisk_id", "root_device_name", "soft_deleted", "image_ref", "locked_by"),
)
LIST = Query(
    {
        **dict.fromkeys(_FILTERS, STRING),
        "limit": NOT_NEGATIVE,
        "marker": STRING,
        "sort_key": {
            "type": "string",
            "enum": [
                *("created_at", "updated_at", "launched_at", "display_name", "uuid", "vm_state", "task_state"),
                *("project_id", "user_id"),
            ],
        },
        "sort_dir": {"type": "string", "enum": ["asc", "desc"]},
    },
    mv.STRICT_LISTS,
)

_NOTHING: JsonSchema = {}
_HOST_OR_NULL: JsonSchema = {"oneOf": [HOST_NAME, {"type": "null"}]}
_LIVE: dict[str, JsonSchema] = {"host": _HOST_OR_NULL, "block_migration": BOOLEAN, "disk_over_commit": BOOLEAN}
_BLOCK_AUTO: JsonSchema = {"anyOf": [BOOLEAN, {"type": "string", "enum": ["auto"]}]}
_LIVE_AUTO: dict[str, JsonSchema] = {"host": _HOST_OR_NULL, "block_migration": _BLOCK_AUTO}
_EVACUATE: dict[str, JsonSchema] = {"host": HOST_NAME, "adminPass": STRING}


def _action(name: str, inner: JsonSchema) -> Schema:
    return Schema(body(name, inner))


def _same(name: str, inner: JsonSchema) -> Versioned[Schema]:
    return Versioned({mv.FIRST: _action(name, inner)})


_LIVE_KEYS = ("host", "block_migration")
ACTIONS: dict[str, Versioned[Schema]] = {
    "os-start": _same("os-start", _NOTHING),
    "os-stop": _same("os-stop", _NOTHING),
    "reboot": _same(
        "reboot", fields({"type": {"type": "string", "enum": ["HARD", "Hard", "hard", "SOFT", "Soft", "soft"]}}, "type")
    ),
    "lock": Versioned(
        {
            mv.FIRST: _action("lock", _NOTHING),
            mv.LOCKED_REASON: _action(
                "lock",
                {"oneOf": [{"type": "null"}, fields({"locked_reason": {"type": "string", "maxLength": 255}})]},
            ),
        }
    ),
    "unlock": _same("unlock", _NOTHING),
    "migrate": Versioned(
        {
            mv.FIRST: _action("migrate", _NOTHING),
            mv.COLD_MIGRATE_HOST: _action("migrate", {"oneOf": [{"type": "null"}, fields({"host": _HOST_OR_NULL})]}),
        }
    ),
    "os-migrateLive": Versioned(
        {
            mv.FIRST: _action("os-migrateLive", fields(_LIVE, *_LIVE_KEYS, "disk_over_commit")),
            mv.LIVE_BLOCK_AUTO: _action("os-migrateLive", fields(_LIVE_AUTO, *_LIVE_KEYS)),
            mv.LIVE_FORCE: _action("os-migrateLive", fields({**_LIVE_AUTO, "force": BOOLEAN}, *_LIVE_KEYS)),
            mv.NO_FORCE: _action("os-migrateLive", fields(_LIVE_AUTO, *_LIVE_KEYS)),
        }
    ),
    "evacuate": Versioned(
        {
            mv.FIRST: _action("evacuate", fields({**_EVACUATE, "onSharedStorage": BOOLEAN}, "onSharedStorage")),
            mv.EVACUATE_NO_SHARED: _action("evacuate", fields(_EVACUATE)),
            mv.EVACUATE_FORCE: _action("evacuate", fields({**_EVACUATE, "force": BOOLEAN})),
            mv.NO_FORCE: _action("evacuate", fields(_EVACUATE)),
        }
    ),
    "resize": _same(
        "resize",
        fields(
            {
                "flavorRef": {"type": ["string", "integer"], "minLength": 1},
                "OS-DCF:diskConfig": {"type": "string", "enum": ["AUTO", "MANUAL"]},
            },
            "flavorRef",
        ),
    ),
    "forceDelete": _same("forceDelete", _NOTHING),
    "restore": _same("restore", _NOTHING),
    "injectNetworkInfo": _same("injectNetworkInfo", _NOTHING),
    "resetNetwork": _same("resetNetwork", _NOTHING),
    "confirmResize": _same("confirmResize", _NOTHING),
    "revertResize": _same("revertResize", _NOTHING),
    "shelve": _same("shelve", _NOTHING),
    "shelveOffload": _same("shelveOffload", _NOTHING),
    "unshelve": Versioned(
        {
            mv.FIRST: _action("unshelve", _NOTHING),
            mv.UNSHELVE_ZONE: _action(
                "unshelve", {"oneOf": [{"type": "null"}, fields({"availability_zone": NAME}, "availability_zone")]}
            ),
            mv.UNSHELVE_HOST: _action(
                "unshelve",
                {
                    "oneOf": [
                        {"type": "null"},
                        {
                            **fields({"availability_zone": {"oneOf": [NAME, {"type": "null"}]}, "host": HOST_NAME}),
                            "minProperties": 1,
                        },
                    ]
                },
            ),
        }
    ),
    "os-getConsoleOutput": _same(
        "os-getConsoleOutput",
        fields({"length": {"type": ["integer", "string", "null"], "pattern": "^-?[0-9]+$", "minimum": -1}}),
    ),
    "os-resetState": _same(
        "os-resetState", fields({"state": {"type": "string", "enum": ["active", "error"]}}, "state")
    ),
}
MIGRATIONS = Query(
    {
        **dict.fromkeys(("hidden", "host", "instance_uuid", "source_compute", "status", "migration_type"), STRING),
        **dict.fromkeys(("user_id", "project_id", "changes-since", "changes-before"), STRING),
        "limit": NOT_NEGATIVE,
        "marker": STRING,
    },
    mv.STRICT_LISTS,
)
ACTION_LIST = Query(
    {"limit": NOT_NEGATIVE, "marker": STRING, "changes-since": STRING, "changes-before": STRING}, mv.STRICT_LISTS
)
