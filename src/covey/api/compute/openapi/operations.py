"""Operations of the OpenAPI document, and the JSON Schema building blocks of their requests and responses."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from covey.api.compute import schemas
from covey.api.compute.microversions import COVEY
from covey.api.validation import JsonSchema, Query, Schema
from covey.api.versions import Versioned

_NUMERIC_TEXT = ["integer", "string"]
Shapes = Mapping[str, JsonSchema]

TEXT: JsonSchema = {"type": "string"}
NUMBER: JsonSchema = {"type": "integer"}
BOOLEAN: JsonSchema = {"type": "boolean"}
NULL: JsonSchema = {"type": "null"}
NULLABLE_TEXT: JsonSchema = {"type": ["string", "null"]}
NULLABLE_NUMBER: JsonSchema = {"type": ["integer", "null"]}
UUID: JsonSchema = {"type": "string", "format": "uuid"}
ANY_OBJECT: JsonSchema = {"type": "object"}
SECONDS: JsonSchema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"}
MICROSECONDS: JsonSchema = {"type": ["string", "null"], "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$"}


def shape(always: Shapes, sometimes: Shapes | None = None) -> JsonSchema:
    """Return the schema of an object with required and optional fields, and no others."""
    return {
        "type": "object",
        "properties": {**always, **(sometimes or {})},
        "required": list(always),
        "additionalProperties": False,
    }


def array_of(item: JsonSchema) -> JsonSchema:
    """Return the schema of a list."""
    return {"type": "array", "items": item}


def map_of(value: JsonSchema) -> JsonSchema:
    """Return the schema of an object with arbitrary keys."""
    return {"type": "object", "additionalProperties": value}


def enum_of(*words: str) -> JsonSchema:
    """Return the schema of an enumeration."""
    return {"type": "string", "enum": list(words)}


def ref(name: str) -> JsonSchema:
    """Return a reference to one of the document's components."""
    return {"$ref": f"#/components/schemas/{name}"}


LINKS = array_of(shape({"rel": TEXT, "href": {"type": "string", "format": "uri"}}, {"type": TEXT}))


def page(name: str, item: JsonSchema, links: str | None = None) -> JsonSchema:
    """Return the schema of a list under its name, with a link to the next page."""
    return shape({name: array_of(item)}, {links: LINKS} if links else None)


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path."""

    summary: str
    responses: Mapping[int, JsonSchema | None]  # by status; None without a body
    query: Query | None = None
    body: JsonSchema | None = None
    errors: tuple[int, ...] = ()  # further statuses, besides those of every request
    stricter: Mapping[str, JsonSchema] = field(default_factory=dict)  # parameters with rules beyond their schema
    headers: Mapping[str, JsonSchema] = field(default_factory=dict)
    is_open: bool = False  # needs no authentication


def body(schema: Schema | Versioned[Schema]) -> JsonSchema:
    """Return the schema of a request's body."""
    newest = schema.at(COVEY) if isinstance(schema, Versioned) else schema
    portable: JsonSchema = plain(newest.json)
    return portable


def narrowed(schema: JsonSchema, more: JsonSchema) -> JsonSchema:
    """Return the schema with further rules at some places in it, which the service enforces in code."""
    deeper = {
        key: narrowed(schema[key], part) if isinstance(part, Mapping) and key in schema else part
        for key, part in more.items()
    }
    return {**schema, **deeper}


def any_of(forms: Iterable[Schema | Versioned[Schema]]) -> JsonSchema:
    """Return the schema of a body with several forms."""
    return {"anyOf": [body(form) for form in forms]}


def actions(inner: Mapping[str, JsonSchema]) -> JsonSchema:
    """Return the schema of a body with one action and its parameters."""
    return any_of(schemas.action(verb, schema) for verb, schema in inner.items())


def wrapped(name: str, schema: JsonSchema) -> JsonSchema:
    """Return the schema of a response with one required key."""
    return shape({name: schema})


def plain(schema: Any) -> Any:  # noqa: ANN401 -- any part of a schema
    """Return a validation schema as standard JSON Schema: explicit numbers in strings, portable patterns."""
    if isinstance(schema, list | tuple):
        return [plain(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    if schema.get("type") == _NUMERIC_TEXT and "pattern" in schema:
        return _number(schema)
    return {key: _pattern(part) if key == "pattern" else plain(part) for key, part in schema.items()}


def _number(schema: JsonSchema) -> JsonSchema:
    low, high = schema["minimum"], schema.get("maximum")
    number = {"type": "integer", "minimum": low} | ({} if high is None else {"maximum": high})
    return {"anyOf": [number, {"type": "string", "pattern": f"^{digits(low, high)}$"}]}


def digits(low: int, high: int | None) -> str:
    """Return a pattern of the integers from `low` (-1, 0 or 1) to `high`, with leading zeros."""
    positive = "[1-9][0-9]*" if high is None else f"(?:{'|'.join(_up_to(str(high)))})"
    if low > 0:
        return f"0*{positive}"
    return f"(?:0+|0*{positive})" if low == 0 else f"(?:-0*1|-?0+|0*{positive})"


def _up_to(high: str) -> list[str]:
    """Return patterns of 1 to `high`: shorter numbers, those with a lower digit at some place, and `high`."""
    shorter = [f"[1-9][0-9]{{0,{len(high) - 2}}}"] if len(high) > 1 else []
    lower = []
    for place, digit in enumerate(high):
        lowest = 1 if place == 0 else 0
        if int(digit) > lowest:
            lower.append(f"{high[:place]}[{lowest}-{int(digit) - 1}][0-9]{{{len(high) - place - 1}}}")
    return [*shorter, *lower, high]


def any_case(word: str) -> str:
    """Return a case-insensitive pattern of a word."""
    return "".join(f"[{letter}{letter.upper()}]" if letter.isalpha() else letter for letter in word)


def _pattern(pattern: str) -> str:
    return pattern.replace(r"\Z", "$")
