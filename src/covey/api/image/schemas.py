"""JSON Schemas of the Image API's bodies and queries."""

from covey.api.validation import JsonSchema, Query, Schema
from covey.api.versions import Version
from covey.model.control_characters import ONE_LINE
from covey.model.images import Visibility

ANY_VERSION, NEVER_STRICT = Version(2, 0), Version(999, 0)  # other parameters are filters on properties

_COUNT: JsonSchema = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
_FORMAT_OF_DISK = [None, "ami", "ari", "aki", "vhd", "vhdx", "vmdk", "raw", "qcow2", "vdi", "iso", "ploop"]
_FORMAT_OF_CONTAINER = [None, "ami", "ari", "aki", "bare", "ovf", "ova", "docker", "compressed"]
_TAGS: JsonSchema = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": ONE_LINE},
    "uniqueItems": True,
    "maxItems": 128,
}

FIELDS: dict[str, JsonSchema] = {
    "id": {"type": "string", "format": "uuid"},
    "name": {"type": ["string", "null"], "maxLength": 255, "pattern": ONE_LINE},
    "visibility": {"type": "string", "enum": [str(visibility) for visibility in Visibility]},
    "protected": {"type": "boolean"},
    "os_hidden": {"type": "boolean"},
    "owner": {"type": ["string", "null"], "maxLength": 255, "pattern": ONE_LINE},
    "disk_format": {"type": ["string", "null"], "enum": _FORMAT_OF_DISK},
    "container_format": {"type": ["string", "null"], "enum": _FORMAT_OF_CONTAINER},
    "min_disk": _COUNT,
    "min_ram": _COUNT,
    "tags": _TAGS,
}
READ_ONLY = frozenset(
    {
        *("status", "size", "virtual_size", "checksum", "os_hash_algo", "os_hash_value", "created_at", "updated_at"),
        *("self", "file", "schema", "direct_url", "locations", "stores"),
    }
)
CREATE = Schema(
    {
        "type": "object",
        "properties": FIELDS,
        "propertyNames": {"minLength": 1, "maxLength": 255},
        "additionalProperties": {"type": "string", "maxLength": 65535},
        "maxProperties": 300,
    }
)
PATCH = Schema(
    {
        "type": "array",
        "maxItems": 300,
        "items": {
            "type": "object",
            "properties": {
                "op": {"type": "string", "enum": ["add", "replace", "remove"]},
                "path": {"type": "string", "pattern": "^/[^/]+$", "maxLength": 300},
                "value": {},
            },
            "required": ["op", "path"],
            "additionalProperties": False,
        },
    }
)
_TEXT: JsonSchema = {"type": "string"}
LIST = Query(
    {
        "limit": {"type": "string", "pattern": "^[0-9]{1,9}$"},
        "marker": {"type": "string", "format": "uuid"},
        "name": _TEXT,
        "id": _TEXT,
        "status": _TEXT,
        "owner": _TEXT,
        "tag": _TEXT,
        "visibility": {"type": "string", "enum": ["all", *(str(visibility) for visibility in Visibility)]},
        "os_hidden": {"type": "string", "enum": ["true", "false", "True", "False"]},
        "sort": {"type": "string", "pattern": "^(created_at|updated_at|name|id|status)(:(asc|desc))?$"},
        "sort_key": {"type": "string", "enum": ["created_at", "updated_at", "name", "id", "status"]},
        "sort_dir": {"type": "string", "enum": ["asc", "desc"]},
        "member_status": _TEXT,
    },
    NEVER_STRICT,
)
