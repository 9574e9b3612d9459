"""Holds a document against the schema, and says in plain words where it differs."""

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from jsonschema import Draft202012Validator, FormatChecker, TypeChecker
from jsonschema.validators import extend

from covey.fleet_file.findings import Findings
from covey.fleet_file.schema import HOST, SCHEMA, Schema
from covey.fleet_file.wording import Path, Plain, did_you_mean, quoted, shown

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

_FORMATS: Final = FormatChecker(formats=())
LONGEST_NAME: Final = 255


@_FORMATS.checks("name")
def is_name(text: object) -> bool:
    """Tell whether text can name an aggregate, a zone, a domain, a flavor or an image."""
    return not isinstance(text, str) or (1 <= len(text) <= LONGEST_NAME and text.isprintable() and text == text.strip())


def _is_number(_: TypeChecker, value: object) -> bool:
    """YAML can write .nan and .inf, and neither is a size or a ratio of anything."""
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _items(validator: "Validator", items: Schema, instance: Plain, _: Schema) -> "Iterator[ValidationError]":
    """Check each item, but of hosts that differ in nothing but the name only the first: they come in thousands."""
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
    """Write down all that the schema looks at: any text will do for it as a host's name."""
    return repr({**host, "name": ""}) if isinstance(host, dict) and isinstance(host.get("name"), str) else ""


_TYPES = Draft202012Validator.TYPE_CHECKER.redefine("number", _is_number)
_Validator = extend(Draft202012Validator, {"items": _items}, type_checker=_TYPES)  # type: ignore[no-untyped-call]
_VALIDATOR: "Validator" = _Validator(SCHEMA, format_checker=_FORMATS)


class _Mismatch(NamedTuple):
    """A value, and the rule of the schema that it breaks; only jsonschema knows the types of these."""

    path: Path
    value: Any
    rule: str
    wanted: Any
    schema: Mapping[str, Any]


def check_shape(findings: Findings) -> None:
    """Report everything that the schema alone can find wrong."""
    plain = findings.document.root.plain
    for error in _VALIDATOR.iter_errors({} if plain is None else plain):
        path = tuple(error.absolute_path)
        schema = cast("Mapping[str, Any]", error.schema)
        _report(_Mismatch(path, error.instance, str(error.validator), error.validator_value, schema), findings)


def _report(mismatch: _Mismatch, findings: Findings) -> None:
    path, value, rule, wanted, schema = mismatch
    if rule == "additionalProperties":
        _report_unknown_keys(mismatch, findings)
    elif rule == "required":
        _report_missing_keys(mismatch, findings)
    elif rule == "maximum":
        findings.at(path, f"must be at most {wanted}, not {shown(value)}")
    else:
        findings.at(path, f"must be {schema['description']}, not {shown(value)}{_hint(mismatch)}")


def _report_unknown_keys(mismatch: _Mismatch, findings: Findings) -> None:
    known = mismatch.schema["properties"]
    for key in mismatch.value.keys() - known.keys():
        findings.at_key((*mismatch.path, key), f"unknown key {quoted(key)}{did_you_mean(key, known)}")


def _report_missing_keys(mismatch: _Mismatch, findings: Findings) -> None:
    """Name them all each time: jsonschema comes by once for each and does not say which, and repeats are dropped."""
    properties = mismatch.schema["properties"]
    for key in (key for key in mismatch.wanted if key not in mismatch.value):
        findings.at(mismatch.path, f"needs {key}, which must be {properties[key]['description']}")


def _hint(mismatch: _Mismatch) -> str:
    """YAML reads 12, on and 1.10 as numbers and switches; where a name was meant, quotes help."""
    wants_text = mismatch.rule == "type" and "string" in mismatch.wanted
    return "; put it in quotes" if wants_text and isinstance(mismatch.value, bool | int | float) else ""
