"""JSON Schema with the messages that Nova's clients know."""

import base64
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Any

import jsonschema
import jsonschema_rs
from jsonschema.exceptions import ValidationError

from covey.api.versions import Version
from covey.model.errors import Invalid

JsonSchema = Mapping[str, Any]

TRUE = (True, "True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes")
"""The spellings of true that Nova accepts."""


class InvalidName(Exception):
    """A name with disallowed characters."""

    def __init__(self, rule: str) -> None:
        super().__init__(f"An invalid 'name' value was provided. The name must be: {rule}")


def is_true(value: object) -> bool:
    """Return a validated boolean as a bool."""
    return value in TRUE


FORMATS = jsonschema.FormatChecker(formats=())


def _printable(char: str) -> bool:
    category = unicodedata.category(char)
    return category == "Zs" or category[0] not in "CZ"


def _is_name(text: str) -> bool:
    return all(map(_printable, text)) and not (text[:1].isspace() or text[-1:].isspace())


@FORMATS.checks("name", raises=InvalidName)
def _check_name(value: object) -> bool:
    if isinstance(value, str) and not _is_name(value):
        raise InvalidName("printable characters. Can not start or end with whitespace.")
    return True


@FORMATS.checks("az_name", raises=InvalidName)
def _check_zone_name(value: object) -> bool:
    if isinstance(value, str) and (not _is_name(value) or ":" in value):
        raise InvalidName("printable characters except :.Can not start or end with whitespace.")
    return True


@FORMATS.checks("printable")
def _check_printable(value: object) -> bool:
    return not isinstance(value, str) or all(_printable(char) or char in "\r\n\t" for char in value)


@FORMATS.checks("base64")
def _check_base64(value: object) -> bool:
    return not isinstance(value, str) or _is_base64(value)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode("".join(text.split()), validate=True)
    except ValueError:  # also for characters outside of ASCII
        return False
    return True


@FORMATS.checks("ipv4")
def _check_ipv4(value: object) -> bool:
    return not isinstance(value, str) or _is_address(IPv4Address, value)


@FORMATS.checks("ipv6")
def _check_ipv6(value: object) -> bool:
    return not isinstance(value, str) or _is_address(IPv6Address, value)


def _is_address(kind: type[IPv4Address | IPv6Address], text: str) -> bool:
    try:
        kind(text)
    except AddressValueError:
        return False
    return "%" not in text  # the zone of a link-local address has a meaning on one machine only


@FORMATS.checks("uuid")
def _check_uuid(value: object) -> bool:
    return not isinstance(value, str) or is_uuid(value)


_UUID = re.compile(r"[0-9a-fA-F]{32}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)


def is_uuid(text: str) -> bool:
    """Return whether the text is a uuid, with dashes in their places or without any."""
    return _UUID.fullmatch(text) is not None


def _bound(keyword: str) -> Any:  # noqa: ANN401 -- jsonschema's own signature
    """Return a minimum or maximum check that also covers numbers in strings, which Nova accepts."""
    plain = jsonschema.Draft202012Validator.VALIDATORS[keyword]

    def check(validator: Any, bound: Any, value: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ANN401
        number = _number(value) if isinstance(value, str) else value
        yield from plain(validator, bound, number, schema) or ()

    return check


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _is_integer(_: object, value: object) -> bool:
    """Return whether the value is an int. JSON Schema also admits 1.0; Nova does not."""
    return isinstance(value, int) and not isinstance(value, bool)


def check_pattern(validator: Any, pattern: str, value: object, _: object) -> Iterator[ValidationError]:  # noqa: ANN401 -- jsonschema's own signature
    """Check a pattern whose `$` is the end of the text. Python's `$` also matches before a line end."""
    if validator.is_type(value, "string") and not re.search(re.sub(r"\$$", r"\\Z", pattern), str(value)):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _any_of(validator: Any, schemas: Any, value: Any, _: object) -> Iterator[ValidationError]:  # noqa: ANN401
    """Check alternatives with jsonschema's message, and leave each at its first error: a long list may have many."""
    if not any(validator.evolve(schema=schema).is_valid(value) for schema in schemas):
        yield ValidationError(f"{value!r} is not valid under any of the given schemas")


def _one_of(validator: Any, schemas: Any, value: Any, _: object) -> Iterator[ValidationError]:  # noqa: ANN401
    valid = [schema for schema in schemas if validator.evolve(schema=schema).is_valid(value)]
    if not valid:
        yield ValidationError(f"{value!r} is not valid under any of the given schemas")
    elif len(valid) > 1:
        yield ValidationError(f"{value!r} is valid under each of {', '.join(map(repr, [*valid[1:], valid[0]]))}")


_Validator = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator,
    {keyword: _bound(keyword) for keyword in ("minimum", "maximum", "exclusiveMinimum")}
    | {"pattern": check_pattern, "anyOf": _any_of, "oneOf": _one_of},
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)


def _stricter(schema: Any) -> Any:  # noqa: ANN401 -- any part of a schema
    """Return the schema without numbers in strings, whose bounds the compiled validator ignores."""
    if isinstance(schema, list):
        return [_stricter(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    if schema.get("type") == ["integer", "string"]:
        return {"type": "integer", **{k: schema[k] for k in ("minimum", "maximum") if k in schema}}
    return {key: _stricter(part) for key, part in schema.items()}


_FAST_FORMATS = {
    "base64": _is_base64,
    "name": _is_name,
    "uuid": is_uuid,
    "printable": _check_printable,
    "ipv4": _check_ipv4,
    "ipv6": _check_ipv6,
}


def fast_validator(schema: JsonSchema) -> Callable[[object], bool]:
    """Return a compiled, stricter check: what it accepts is valid; the rest needs the full validation."""
    return jsonschema_rs.Draft4Validator(_stricter(schema), formats=_FAST_FORMATS).is_valid


class Schema:
    """A JSON schema with Nova's error messages. A `fast` one runs a compiled check first, for frequent requests."""

    def __init__(self, schema: JsonSchema, where: str = "field/attribute", *, fast: bool = False) -> None:
        self.json = schema
        self._validator = _Validator(schema, format_checker=FORMATS)
        self._where = where
        self._is_surely_valid = fast_validator(schema) if fast else None

    def check(self, value: object) -> None:
        """Raise Invalid with the first invalid field and the reason."""
        if self._is_surely_valid is not None and self._is_surely_valid(value):
            return
        try:
            error = next(iter(self._validator.iter_errors(value)), None)
            message = None if error is None else self._message(error)
        except RecursionError:
            message = "Malformed request body"
        if message is not None:
            raise Invalid(message)

    def _message(self, error: ValidationError) -> str:
        if isinstance(error.cause, InvalidName):
            return str(error.cause)
        if error.path:
            # A query parameter is a list of values: name the parameter, not the index.
            place = error.path[0] if self._where == "query parameters" else error.path[-1]
            return f"Invalid input for {self._where} {place}. Value: {error.instance}. {error.message}"
        return str(error.message)


class Query:
    """The query parameters of a route. Unknown ones are ignored before `strict_from` and rejected from then on.

    A `fast` one is for frequent requests, as a fast schema is.
    """

    def __init__(self, parameters: Mapping[str, JsonSchema], strict_from: Version, *, fast: bool = False) -> None:
        lists = {name: {"type": "array", "items": schema} for name, schema in parameters.items()}
        self.parameters = parameters
        self.known = frozenset(parameters)
        self._strict_from = strict_from
        self._lenient = Schema({"type": "object", "properties": lists}, "query parameters", fast=fast)
        self._strict = Schema(
            {"type": "object", "properties": lists, "additionalProperties": False}, "query parameters", fast=fast
        )

    def check(self, parameters: Mapping[str, list[str]], version: Version) -> Mapping[str, str]:
        """Return the last value of each known parameter. Raises Invalid."""
        (self._strict if version >= self._strict_from else self._lenient).check(parameters)
        return {name: values[-1] for name, values in parameters.items() if name in self.known}
