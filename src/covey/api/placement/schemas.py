"""Bodies and queries of the Placement API, as JSON Schema, by microversion."""

from typing import Any

from covey.api.placement.candidate_queries import QuerySchema
from covey.api.placement.microversions import (
    AGGREGATE_GENERATION,
    AGGREGATES,
    BY_PROVIDER,
    CONSUMER_GENERATION,
    CONSUMER_TYPES,
    FIRST,
    MANY_CONSUMERS,
    MAPPINGS,
    MEMBER_OF,
    OWNERS,
    REQUIRED,
    RESHAPER,
    RESOURCES,
    TREES,
    USAGES,
)
from covey.api.placement.responses import Body
from covey.api.versions import Versioned
from covey.model.control_characters import ONE_LINE
from covey.model.providers import MAX_INT

Part = dict[str, Any]

_CLASS, _OWN_NAME, _UUID_KEY = "^[A-Z0-9_]+$", "^CUSTOM_[A-Z0-9_]+$", "^[0-9a-fA-F-]{36}$"
_LARGEST_RATIO = 3.40282e38

_INTEGER: Part = {"type": "integer"}
_UUID: Part = {"type": "string", "format": "uuid"}
_TEXT: Part = {"type": "string"}
_OWNER: Part = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": ONE_LINE}


def _object(properties: Part, *required: str, **more: object) -> Part:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
        **more,
    }


def _map(pattern: str, value: Part, least: int = 0) -> Part:
    """Return the schema of an object whose keys match a pattern and whose values match a schema."""
    return {
        "type": "object",
        "minProperties": least,
        "patternProperties": {pattern: value},
        "additionalProperties": False,
    }


# Providers

_NAME: Part = {"type": "string", "maxLength": 200, "pattern": ONE_LINE}
_PARENT: Part = {"anyOf": [_UUID, {"type": "null"}]}

NEW_PROVIDER = Versioned(
    {
        FIRST: Body(_object({"name": _NAME, "uuid": _UUID}, "name")),
        TREES: Body(_object({"name": _NAME, "uuid": _UUID, "parent_provider_uuid": _PARENT}, "name")),
    }
)
PROVIDER = Versioned(
    {
        FIRST: Body(_object({"name": _NAME}, "name")),
        TREES: Body(_object({"name": _NAME, "parent_provider_uuid": _PARENT}, "name")),
    }
)
_LISTED = {
    FIRST: {"name": _TEXT, "uuid": _UUID},
    MEMBER_OF: {"member_of": _TEXT},
    RESOURCES: {"resources": _TEXT},
    TREES: {"in_tree": _UUID},
    REQUIRED: {"required": _TEXT},
}
PROVIDERS_QUERY = Versioned(
    {
        since: QuerySchema(_object({k: v for when, new in _LISTED.items() if when <= since for k, v in new.items()}))
        for since in _LISTED
    }
)

# Inventories

_GENERATION: Part = {"resource_provider_generation": _INTEGER}
_INVENTORY: Part = {
    "total": {"type": "integer", "maximum": MAX_INT, "minimum": 1},
    "reserved": {"type": "integer", "maximum": MAX_INT, "minimum": 0},
    "min_unit": {"type": "integer", "maximum": MAX_INT, "minimum": 1},
    "max_unit": {"type": "integer", "maximum": MAX_INT, "minimum": 1},
    "step_size": {"type": "integer", "maximum": MAX_INT, "minimum": 1},
    "allocation_ratio": {"type": "number", "maximum": _LARGEST_RATIO},
    **_GENERATION,
}
_INVENTORIES = _object(
    {
        **_GENERATION,
        "inventories": {"type": "object", "patternProperties": {_CLASS: _object(_INVENTORY, "total")}},
    },
    "resource_provider_generation",
    "inventories",
)
_INVENTORIES["properties"]["inventories"]["additionalProperties"] = False

INVENTORIES = Body(_INVENTORIES)
INVENTORY = Body(_object(_INVENTORY, "total", "resource_provider_generation"))
NEW_INVENTORY = Body(
    _object({**_INVENTORY, "resource_class": {"type": "string", "pattern": _CLASS}}, "total", "resource_class")
)

# Aggregates, traits, classes

_AGGREGATES: Part = {"type": "array", "items": _UUID, "uniqueItems": True}
PROVIDER_AGGREGATES = Versioned(
    {
        AGGREGATES: Body(_AGGREGATES),
        AGGREGATE_GENERATION: Body(
            _object({"aggregates": _AGGREGATES, **_GENERATION}, "aggregates", "resource_provider_generation")
        ),
    }
)
PROVIDER_TRAITS = Body(
    _object(
        {"traits": {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 255}}, **_GENERATION},
        "traits",
        "resource_provider_generation",
    )
)
TRAITS_QUERY = QuerySchema(_object({"name": _TEXT, "associated": _TEXT}))
RESOURCE_CLASS = Body(_object({"name": {"type": "string", "pattern": _OWN_NAME, "maxLength": 255}}, "name"))

# Allocations

_RESOURCES = _map(_CLASS, {"type": "integer", "minimum": 1}, least=1)
_OWNERS: Part = {"project_id": _OWNER, "user_id": _OWNER}
_KIND: Part = {"type": "string", "pattern": _CLASS, "minLength": 1, "maxLength": 255}
_MAPPINGS: Part = {
    "type": "object",
    "minProperties": 1,
    "patternProperties": {"[a-zA-Z0-9_-]{1,64}": {"type": "array", "minItems": 1, "items": _UUID}},
}
_LIST: Part = {
    "type": "array",
    "minItems": 1,
    "items": _object(
        {"resource_provider": _object({"uuid": _UUID}, "uuid"), "resources": _RESOURCES},
        "resource_provider",
        "resources",
    ),
}


def _by_provider(least: int, more: Part, *required: str) -> Part:
    one = _object({"generation": _INTEGER, "resources": _RESOURCES}, "resources")
    properties = {"allocations": _map(_UUID_KEY, one, least), **_OWNERS, **more}
    return _object(properties, "allocations", "project_id", "user_id", *required)


_COUNTED: Part = {"consumer_generation": {"type": ["integer", "null"]}}
_MAPPED: Part = {**_COUNTED, "mappings": _MAPPINGS}
_TYPED: Part = {**_MAPPED, "consumer_type": _KIND}
_ENTRIES = {
    MANY_CONSUMERS: _by_provider(0, {}),
    CONSUMER_GENERATION: _by_provider(0, _COUNTED, "consumer_generation"),
    MAPPINGS: _by_provider(0, _MAPPED, "consumer_generation"),
    CONSUMER_TYPES: _by_provider(0, _TYPED, "consumer_generation", "consumer_type"),
}
ALLOCATIONS = Versioned(
    {
        FIRST: Body(_object({"allocations": _LIST}, "allocations")),
        OWNERS: Body(_object({"allocations": _LIST, **_OWNERS}, "allocations", "project_id", "user_id")),
        BY_PROVIDER: Body(_by_provider(1, {})),
        **{since: Body(entry) for since, entry in _ENTRIES.items() if since > MANY_CONSUMERS},
    }
)
MANY_ALLOCATIONS = Versioned({since: Body(_map(_UUID_KEY, entry, least=1)) for since, entry in _ENTRIES.items()})
RESHAPE = Versioned(
    {
        since: Body(
            _object(
                {"inventories": _map(_UUID_KEY, _INVENTORIES, least=1), "allocations": _map(_UUID_KEY, entry)},
                "inventories",
                "allocations",
            )
        )
        for since, entry in {RESHAPER: _ENTRIES[CONSUMER_GENERATION], **_ENTRIES}.items()
        if since >= RESHAPER
    }
)

# Host rankings, which Covey adds to the Placement API

_GROUP = _object(
    {
        "uuid": _UUID,
        "name": {**_OWNER, "minLength": 0},
        "policy": _TEXT,
        "rules": {"type": "object", "additionalProperties": _INTEGER},
        "members": {"type": "array", "items": _UUID},
        **_OWNERS,
    },
    "uuid",
    "policy",
    "members",
    "project_id",
    "user_id",
)
HOST_RANKING = Body(
    _object(
        {"instance_uuid": _UUID, "group": _GROUP, "hosts": {"type": "array", "items": _OWNER}},
        "group",
        "hosts",
    )
)

# Usages

USAGES_QUERY = Versioned(
    {
        USAGES: QuerySchema(_object(_OWNERS, "project_id")),
        CONSUMER_TYPES: QuerySchema(
            _object({**_OWNERS, "consumer_type": {**_KIND, "pattern": f"{_CLASS}|^all$|^unknown$"}}, "project_id")
        ),
    }
)
