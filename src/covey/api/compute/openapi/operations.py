"""What an operation is: its words, what it reads, and what it answers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from covey.api.compute import schemas
from covey.api.compute.microversions import COVEY
from covey.api.compute.openapi.dialect import plain
from covey.api.compute.openapi.shapes import shape
from covey.api.validation import JsonSchema, Query, Schema
from covey.api.versions import Versioned


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path."""

    summary: str
    answers: Mapping[int, JsonSchema | None]  # by status; None where there is no body
    query: Query | None = None
    body: JsonSchema | None = None
    also: tuple[int, ...] = ()  # statuses of trouble beside those that every request may meet
    narrower: Mapping[str, JsonSchema] = field(default_factory=dict)  # parameters that more is asked of
    headers: Mapping[str, JsonSchema] = field(default_factory=dict)
    is_open: bool = False  # to those whom nobody knows


def body(schema: Schema | Versioned[Schema]) -> JsonSchema:
    """What a request's body has to be."""
    found = schema.at(COVEY) if isinstance(schema, Versioned) else schema
    told: JsonSchema = plain(found.json)
    return told


def narrowed(schema: JsonSchema, more: JsonSchema) -> JsonSchema:
    """The schema, with more asked at some places in it: rules that the service has sentences of its own for."""
    deeper = {
        key: narrowed(schema[key], part) if isinstance(part, Mapping) and key in schema else part
        for key, part in more.items()
    }
    return {**schema, **deeper}


def any_of(forms: Iterable[Schema | Versioned[Schema]]) -> JsonSchema:
    """A body that has one of several forms."""
    return {"anyOf": [body(form) for form in forms]}


def actions(inner: Mapping[str, JsonSchema]) -> JsonSchema:
    """A body that is one verb with its arguments."""
    return any_of(schemas.action(verb, schema) for verb, schema in inner.items())


def under(name: str, thing: JsonSchema) -> JsonSchema:
    """An answer that holds one thing, under its name."""
    return shape({name: thing})
