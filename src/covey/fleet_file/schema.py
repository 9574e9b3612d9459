"""The schema of a fleet file, as JSON Schema and as types, and the validation against it.

Each `description` completes the sentence "must be ...", for error messages.
"""

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NotRequired, TypeAlias, TypedDict, cast

from jsonschema import Draft202012Validator, FormatChecker, TypeChecker
from jsonschema.validators import extend

from covey.fleet_file.document import ProblemCollector
from covey.fleet_file.problems import Path, Plain, did_you_mean, quoted, shown

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

Schema: TypeAlias = dict[str, Plain]
OneOrMore: TypeAlias = str | list[str]

MAX_SIZE = 2_147_483_647  # of the Placement API
MAX_RATIO = 3.40282e38  # of the Placement API


class HostDoc(TypedDict):
    """An entry under `hosts`: one host for each name that its pattern makes."""

    name: OneOrMore
    vcpus: float
    memory_mb: float
    disk_gb: float
    ratios: NotRequired[dict[str, float]]
    zone: NotRequired[OneOrMore]
    traits: NotRequired[list[str]]
    domains: NotRequired[dict[str, OneOrMore]]
    inventories: NotRequired[dict[str, "InventoryDoc"]]


class InventoryDoc(TypedDict):
    """The inventory of one resource class."""

    total: float
    reserved: NotRequired[float]
    min_unit: NotRequired[float]
    max_unit: NotRequired[float]
    step_size: NotRequired[float]
    allocation_ratio: NotRequired[float]


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
        "maximum": MAX_SIZE,
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
    """Return the schema of a list, or of null, for a section whose entries are all commented out."""
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
    "maximum": MAX_RATIO,
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
    inventories={
        "type": "object",
        "description": "a mapping of resource classes to inventories",
        "additionalProperties": _mapping(
            ("total",),
            total=_whole_number(1),
            reserved=_whole_number(0),
            min_unit=_whole_number(1),
            max_unit=_whole_number(1),
            step_size=_whole_number(1),
            allocation_ratio=RATIO,
        ),
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

_FORMATS: Final = FormatChecker(formats=())
MAX_NAME_LENGTH: Final = 255


@_FORMATS.checks("name")
def is_name(text: object) -> bool:
    """Return whether text can name an aggregate, a zone, a domain, a flavor or an image."""
    if not isinstance(text, str):
        return True
    return 1 <= len(text) <= MAX_NAME_LENGTH and text.isprintable() and text == text.strip()


def _is_number(_: TypeChecker, value: object) -> bool:
    """Return whether the value is a finite number; YAML also has .nan and .inf."""
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _items(validator: "Validator", items: Schema, instance: Plain, _: Schema) -> "Iterator[ValidationError]":
    """Validate each item, but of hosts that differ only in their name just the first: files have thousands."""
    passed: set[str] = set()
    for index, item in enumerate(instance if isinstance(instance, list) else []):
        form = _form(item) if items is HOST else ""
        if form and form in passed:
            continue
        errors = list(validator.descend(item, items, path=index))  # type: ignore[attr-defined]
        if not errors:
            passed.add(form)
        yield from errors


def _form(host: Plain) -> str:
    """Return a key of everything that the schema checks; it accepts any text as a host's name."""
    return repr({**host, "name": ""}) if isinstance(host, dict) and isinstance(host.get("name"), str) else ""


_TYPES = Draft202012Validator.TYPE_CHECKER.redefine("number", _is_number)
_Validator = extend(Draft202012Validator, {"items": _items}, type_checker=_TYPES)  # type: ignore[no-untyped-call]
_VALIDATOR: "Validator" = _Validator(SCHEMA, format_checker=_FORMATS)


class _Mismatch(NamedTuple):
    """A value and the schema rule that it violates, with jsonschema's types."""

    path: Path
    value: Any
    rule: str
    expected: Any
    schema: Mapping[str, Any]


def validate(problems: ProblemCollector) -> None:
    """Report all violations of the schema."""
    plain = problems.document.root.plain
    for error in _VALIDATOR.iter_errors({} if plain is None else plain):
        path = tuple(error.absolute_path)
        schema = cast("Mapping[str, Any]", error.schema)
        _report(_Mismatch(path, error.instance, str(error.validator), error.validator_value, schema), problems)


def _report(mismatch: _Mismatch, problems: ProblemCollector) -> None:
    path, value, rule, expected, schema = mismatch
    if rule == "additionalProperties":
        _report_unknown_keys(mismatch, problems)
    elif rule == "required":
        _report_missing_keys(mismatch, problems)
    elif rule == "maximum":
        problems.at(path, f"must be at most {expected}, not {shown(value)}")
    else:
        problems.at(path, f"must be {schema['description']}, not {shown(value)}{_hint(mismatch)}")


def _report_unknown_keys(mismatch: _Mismatch, problems: ProblemCollector) -> None:
    known = mismatch.schema["properties"]
    for key in mismatch.value.keys() - known.keys():
        problems.at_key((*mismatch.path, key), f"unknown key {quoted(key)}{did_you_mean(key, known)}")


def _report_missing_keys(mismatch: _Mismatch, problems: ProblemCollector) -> None:
    """Report all missing keys each time: jsonschema reports one error for each without its name."""
    properties = mismatch.schema["properties"]
    for key in (key for key in mismatch.expected if key not in mismatch.value):
        problems.at(mismatch.path, f"needs {key}, which must be {properties[key]['description']}")


def _hint(mismatch: _Mismatch) -> str:
    """Return a hint to quote a text that YAML reads as a number or a boolean, such as 12, on and 1.10."""
    expects_text = mismatch.rule == "type" and "string" in mismatch.expected
    return "; put it in quotes" if expects_text and isinstance(mismatch.value, bool | int | float) else ""
