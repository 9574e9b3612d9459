"""The form of a fleet file: its JSON Schema, and the same form for the type checker.

Each `description` finishes the sentence "must be ...", so that a message can say what would be right.
"""

from typing import NotRequired, TypeAlias, TypedDict

from covey.fleet_file.wording import Plain

Schema: TypeAlias = dict[str, Plain]
OneOrMore: TypeAlias = str | list[str]

MOST = 2_147_483_647  # what the Placement API can carry, for a size of any kind
LARGEST_RATIO = 3.40282e38  # likewise, for an allocation ratio


class HostDoc(TypedDict):
    """An entry under `hosts`: one host, or as many as its name expands to."""

    name: OneOrMore
    vcpus: float
    memory_mb: float
    disk_gb: float
    ratios: NotRequired[dict[str, float]]
    zone: NotRequired[OneOrMore]
    traits: NotRequired[list[str]]
    domains: NotRequired[dict[str, OneOrMore]]


class ScopeDoc(TypedDict):
    """An entry under `scopes`."""

    name: str
    allow_identifiers: NotRequired[bool]
    obfuscate_identifiers: NotRequired[bool]


class AggregateDoc(TypedDict):
    """An entry under `aggregates`."""

    name: str
    hosts: NotRequired[OneOrMore]
    metadata: NotRequired[dict[str, Plain]]
    zone: NotRequired[str]
    scope: NotRequired[str]


class FlavorDoc(TypedDict):
    """An entry under `flavors`."""

    name: str
    vcpus: float
    memory_mb: float
    disk_gb: float
    extra_specs: NotRequired[dict[str, Plain]]
    id: NotRequired[str]


class ImageDoc(TypedDict):
    """An entry under `images`."""

    name: str
    properties: NotRequired[dict[str, Plain]]


def _whole_number(least: int) -> Schema:
    return {
        "type": "integer",
        "minimum": least,
        "maximum": MOST,
        "description": f"a whole number of at least {least}",
    }


def _mapping(required: tuple[str, ...], **properties: Schema) -> Schema:
    return {
        "type": "object",
        "description": f"a mapping with the keys {', '.join(properties)}",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def _list_of(entry: Schema, description: str) -> Schema:
    """Allow nothing as well, so that a section whose entries are all commented out is empty."""
    return {"type": ["array", "null"], "description": description, "items": entry}


TEXT: Schema = {"type": "string", "description": "text"}
ONE_OR_MORE: Schema = {
    "type": ["string", "array"],
    "description": "text, or a list of texts with at least one",
    "minItems": 1,
    "items": TEXT,
}
NAME: Schema = {
    "type": "string",
    "format": "name",
    "description": "text of 1 to 255 printable characters, with no white space at either end",
}
SCOPE_NAME: Schema = {
    "type": "string",
    "pattern": r"^[A-Za-z0-9_.-]{1,255}\Z",
    "description": "text of 1 to 255 letters, digits, '_', '-' and '.'",
}
FLAVOR_ID: Schema = {
    "type": "string",
    "pattern": r"^(?! )[A-Za-z0-9. _-]{1,255}(?<! )\Z",
    "description": "text of 1 to 255 letters, digits, '.', '_', '-' and inner spaces",
}
RATIO: Schema = {
    "type": "number",
    "exclusiveMinimum": 0,
    "maximum": LARGEST_RATIO,
    "description": "a number greater than 0",
}
SWITCH: Schema = {"type": "boolean", "description": "true or false"}
TEXTS_BY_KEY: Schema = {
    "type": "object",
    "description": "a mapping of keys to texts",
    "additionalProperties": {
        "type": ["string", "number", "boolean"],
        "description": "text, a number, true or false",
    },
}

HOST = _mapping(
    ("name", "vcpus", "memory_mb", "disk_gb"),
    name=ONE_OR_MORE,
    vcpus=_whole_number(1),
    memory_mb=_whole_number(1),
    disk_gb=_whole_number(0),
    ratios=_mapping((), VCPU=RATIO, MEMORY_MB=RATIO, DISK_GB=RATIO),
    zone=ONE_OR_MORE,
    traits={"type": "array", "description": "a list of traits", "items": TEXT},
    domains={
        "type": "object",
        "description": "a mapping of scopes to domains",
        "additionalProperties": ONE_OR_MORE,
    },
)
SCOPE = _mapping(("name",), name=SCOPE_NAME, allow_identifiers=SWITCH, obfuscate_identifiers=SWITCH)
AGGREGATE = _mapping(
    ("name",),
    name=NAME,
    hosts={"type": ["string", "array"], "description": "text, or a list of texts", "items": TEXT},
    metadata=TEXTS_BY_KEY,
    zone=NAME,
    scope=SCOPE_NAME,
)
FLAVOR = _mapping(
    ("name", "vcpus", "memory_mb", "disk_gb"),
    name=NAME,
    vcpus=_whole_number(1),
    memory_mb=_whole_number(1),
    disk_gb=_whole_number(0),
    extra_specs=TEXTS_BY_KEY,
    id=FLAVOR_ID,
)
IMAGE = _mapping(("name",), name=NAME, properties=TEXTS_BY_KEY)

SCHEMA: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    **_mapping(
        (),
        hosts=_list_of(HOST, "a list of hosts"),
        scopes=_list_of(SCOPE, "a list of scopes"),
        aggregates=_list_of(AGGREGATE, "a list of aggregates"),
        flavors=_list_of(FLAVOR, "a list of flavors"),
        images=_list_of(IMAGE, "a list of images"),
    ),
}
