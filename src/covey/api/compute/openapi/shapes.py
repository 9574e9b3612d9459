"""Small words for the shapes of answers."""

from collections.abc import Mapping

from covey.api.validation import JsonSchema

Shapes = Mapping[str, JsonSchema]

TEXT: JsonSchema = {"type": "string"}
NUMBER: JsonSchema = {"type": "integer"}
FLAG: JsonSchema = {"type": "boolean"}
NOTHING: JsonSchema = {"type": "null"}
MAYBE_TEXT: JsonSchema = {"type": ["string", "null"]}
MAYBE_NUMBER: JsonSchema = {"type": ["integer", "null"]}
UUID: JsonSchema = {"type": "string", "format": "uuid"}
ANYTHING: JsonSchema = {"type": "object"}
SECONDS: JsonSchema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"}
MICROSECONDS: JsonSchema = {"type": ["string", "null"], "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$"}


def shape(always: Shapes, sometimes: Shapes | None = None) -> JsonSchema:
    """An object that always has the first fields, sometimes the second, and no others."""
    return {
        "type": "object",
        "properties": {**always, **(sometimes or {})},
        "required": list(always),
        "additionalProperties": False,
    }


def several(item: JsonSchema) -> JsonSchema:
    """A list of such things."""
    return {"type": "array", "items": item}


def by_name(value: JsonSchema) -> JsonSchema:
    """Such things, each under a name that the caller chose."""
    return {"type": "object", "additionalProperties": value}


def one_of(*words: str) -> JsonSchema:
    """One of a few words."""
    return {"type": "string", "enum": list(words)}


def ref(name: str) -> JsonSchema:
    """A shape that stands among the document's components."""
    return {"$ref": f"#/components/schemas/{name}"}


LINKS = several(shape({"rel": TEXT, "href": {"type": "string", "format": "uri"}}, {"type": TEXT}))


def page(name: str, item: JsonSchema, links: str | None = None) -> JsonSchema:
    """A list under its name, with a link to the next page while there is one."""
    return shape({name: several(item)}, {links: LINKS} if links else None)
