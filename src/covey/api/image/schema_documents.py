"""/v2/schemas: the JSON Schemas of what the Image API shows. Clients of Glance ask for them before anything else."""

from dataclasses import dataclass

import falcon

from covey.api.image import schemas
from covey.api.requests import Json, Request
from covey.api.validation import JsonSchema
from covey.model.errors import NotFound
from covey.model.images import ImageStatus

_TEXT: JsonSchema = {"type": "string"}
_TEXT_OR_NULL: JsonSchema = {"type": ["null", "string"], "readOnly": True}
_NUMBER_OR_NULL: JsonSchema = {"type": ["null", "integer"], "readOnly": True}
_READ_ONLY: JsonSchema = {"type": "string", "readOnly": True}
_IMAGE: dict[str, JsonSchema] = {
    **schemas.FIELDS,
    "status": {**_READ_ONLY, "enum": [str(status) for status in ImageStatus]},
    "size": _NUMBER_OR_NULL,
    "virtual_size": _NUMBER_OR_NULL,
    **dict.fromkeys(("checksum", "os_hash_algo", "os_hash_value"), _TEXT_OR_NULL),
    **dict.fromkeys(("created_at", "updated_at", "self", "file", "schema"), _READ_ONLY),
}
_MEMBER: dict[str, JsonSchema] = {
    **dict.fromkeys(("created_at", "updated_at", "image_id", "member_id", "schema"), _TEXT),
    "status": {"type": "string", "enum": ["pending", "accepted", "rejected"]},
}


def _link(rel: str, field: str) -> dict[str, str]:
    return {"rel": rel, "href": f"{{{field}}}"}


_DESCRIBED_BY = _link("describedby", "schema")
IMAGE: Json = {
    "name": "image",
    "properties": _IMAGE,
    "additionalProperties": _TEXT,
    "links": [_link("self", "self"), _link("enclosure", "file"), _DESCRIBED_BY],
}
MEMBER: Json = {"name": "member", "properties": _MEMBER}
DOCUMENTS: dict[str, Json] = {
    "image": IMAGE,
    "images": {
        "name": "images",
        "properties": {
            "images": {"type": "array", "items": IMAGE},
            **dict.fromkeys(("schema", "first", "next"), _TEXT),
        },
        "links": [_link("first", "first"), _link("next", "next"), _DESCRIBED_BY],
    },
    "member": MEMBER,
    "members": {
        "name": "members",
        "properties": {"members": {"type": "array", "items": MEMBER}, "schema": _TEXT},
        "links": [_DESCRIBED_BY],
    },
}


@dataclass(frozen=True, slots=True)
class SchemaDocuments:
    """The schema of an image, of a member, and of a list of them."""

    def on_get(self, _: Request, resp: falcon.Response, key: str) -> None:
        if key not in DOCUMENTS:
            raise NotFound(f"No schema is named {key}; there are {', '.join(DOCUMENTS)}.")
        resp.media = DOCUMENTS[key]
