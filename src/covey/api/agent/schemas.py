"""JSON Schemas of the agent API. Unknown fields are ignored, so a newer agent works with an older service."""

from covey.api.compute.schemas import HOST_NAME
from covey.api.validation import JsonSchema, Query, Schema
from covey.api.versions import Version
from covey.model.agents import CallState
from covey.model.servers import Power

ANY_VERSION = Version(1, 0)
MAX_SERVERS = 10_000  # of one request
MAX_WAIT_S = 20  # well below [api] connection_timeout_s

_NAME: JsonSchema = {"type": "string", "maxLength": 255}
_ADDRESS = r"^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?|\[?[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\]?)$"
"""A host name or an IP address. Other hosts put it into the URI of a migration, where `x/?command=…` is a program."""
_EPOCH: JsonSchema = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
_BYTES: JsonSchema = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
_AMOUNT: JsonSchema = {
    "type": "object",
    "properties": {
        "total": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
        "reserved": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
        "allocation_ratio": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1e6},
    },
    "required": ["total"],
}


def _object(properties: dict[str, JsonSchema], *required: str) -> JsonSchema:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


HOST = Schema(HOST_NAME)
_MACHINE = {"type": ["string", "null"], "minLength": 1, "maxLength": 255}
REGISTER = Schema(
    _object(
        {
            "hypervisor": _NAME,
            "version": _NAME,
            "address": {**_NAME, "pattern": _ADDRESS},
            "inventories": {"type": "object", "additionalProperties": _AMOUNT, "maxProperties": 100},
            "traits": {"type": "array", "items": _NAME, "maxItems": 1000},
            "machine_id": _MACHINE,
            "self_fencing_s": {"type": ["number", "null"], "minimum": 1, "maximum": 86400},
        },
        *("hypervisor", "version", "address", "inventories", "traits"),
    )
)
HEARTBEAT = Schema(
    _object({"state": {"type": "string", "enum": ["starting", "up"]}, "machine_id": _MACHINE}, "state"), fast=True
)
_PROGRESS = dict.fromkeys(("processed_bytes", "total_bytes", "remaining_bytes"), _BYTES)
REPORT = Schema(
    _object(
        {
            "epoch": _EPOCH,
            "state": {"type": "string", "enum": [state for state in CallState if state is not CallState.WAITING]},
            "progress": {
                "oneOf": [
                    {"type": "null"},
                    _object({"percent": {"type": "number", "minimum": 0, "maximum": 100}, **_PROGRESS}),
                ]
            },
            "result": {"type": ["string", "null"], "maxLength": 1 << 20},
            "error": {"type": ["string", "null"], "maxLength": 4000},
        },
        *("epoch", "state"),
    ),
    fast=True,
)
EVENTS = Schema(
    _object(
        {
            "events": {
                "type": "array",
                "items": _object(
                    {
                        "server": _NAME,
                        "power": {"type": "string", "enum": [p for p in Power if p is not Power.NONE]},
                        "epoch": _EPOCH,
                    },
                    *("server", "power"),
                ),
                "maxItems": MAX_SERVERS,
            }
        },
        "events",
    )
)
ORPHANS = Schema(_object({"servers": {"type": "array", "items": _NAME, "maxItems": MAX_SERVERS}}, "servers"))
CALLS = Query(
    {
        "wait": {"type": "string", "pattern": r"^[0-9]{1,3}(\.[0-9]{1,3})?$"},
        "limit": {"type": "string", "pattern": "^[1-9][0-9]{0,2}$"},
    },
    ANY_VERSION,
    fast=True,
)
