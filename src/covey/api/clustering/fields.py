"""Read the fields of request bodies.

    given = read_object(req, "cluster", required=("name", "profile_id"), optional=("timeout", "metadata"))
    timeout = integer(given, "timeout", minimum=1)

Clients send numbers as text, and null for fields that they do not set. A reader returns None for null and for a
missing field; a `required` field is never None. Every problem raises Malformed.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from covey.api.clustering.errors import Malformed
from covey.api.requests import Json, Request, read_json

TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})
FALSE = frozenset({"0", "f", "false", "off", "n", "no"})
_WORDS = ", ".join(f"'{word}'" for word in sorted(TRUE | FALSE))

_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,18}\s*", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9\u4e00-\u9fa5_.~-]+")
_MAX_LENGTH = 255
_MAX_DOCUMENT_BYTES = 8192
_MAX_INTEGER = 2**31 - 1  # of a database column


def read_object(
    req: Request,
    key: str,
    required: Iterable[str] = (),
    optional: Iterable[str] = (),
    *,
    updates: bool = False,
    dropped: Iterable[str] = (),
) -> Json:
    """Return the object under a body's only key.

    `updates` selects the error text of an update. Fields in `dropped` belong to a later version and are ignored.
    """
    body = read_json(req)
    if not isinstance(body, dict) or key not in body:
        raise Malformed(
            f"Malformed request data, missing '{key}' key in request body."
            if updates
            else f"Request body missing '{key}' key."
        )
    ignored = frozenset(dropped)
    given = as_map(key, body[key])
    return checked({k: v for k, v in given.items() if k not in ignored}, required, optional)


def checked(given: Mapping[str, Any], required: Iterable[str] = (), optional: Iterable[str] = ()) -> Json:
    """Return an object with all required and no unknown fields."""
    required_names = tuple(required)
    unknown = sorted(given.keys() - set(required_names) - set(optional))
    if unknown:
        verb = "was" if len(unknown) == 1 else "were"
        names = ", ".join(f"'{name}'" for name in unknown)
        raise Malformed(f"Additional properties are not allowed ({names} {verb} unexpected)")
    for name in required_names:
        if given.get(name) is None:
            raise Malformed(f"'{name}' is a required property")
    return dict(given)


def as_map(name: str, value: object) -> Json:
    """Return a JSON object."""
    if not isinstance(value, dict):
        raise Malformed(f"The value for {name} must be a map: '{_truncate(value)}'.")
    return value


def mapping(given: Mapping[str, Any], name: str) -> Json | None:
    """Return a JSON object or None."""
    value = given.get(name)
    return None if value is None else as_map(name, value)


def small_mapping(given: Mapping[str, Any], name: str) -> Json | None:
    """Return a JSON object or None: what a caller keeps here, such as metadata, is shown in every list."""
    found = mapping(given, name)
    return None if found is None else small(name, found)


def small(name: str, value: Json) -> Json:
    """Return an object that is stored as it is."""
    size = len(msgspec.json.encode(value))
    if size > _MAX_DOCUMENT_BYTES:
        raise Malformed(f"The value for {name} has {size} bytes as JSON; the limit is {_MAX_DOCUMENT_BYTES}.")
    return value


def text(given: Mapping[str, Any], name: str, max_length: int = 255) -> str | None:
    """Return a text or None."""
    value = given.get(name)
    if value is not None and (not isinstance(value, str) or len(value) > max_length):
        raise Malformed(f"The value for {name} must be text of at most {max_length} characters: '{_truncate(value)}'.")
    return value


def name_of(given: Mapping[str, Any]) -> str | None:
    """Return the name or None."""
    value = given.get("name")
    if value is not None and not (
        isinstance(value, str) and len(value) <= _MAX_LENGTH and _NAME.fullmatch(value) is not None
    ):
        allowed = f"1 to {_MAX_LENGTH} letters, digits, '.', '_', '~' and '-'"
        raise Malformed(f"The value for name must be {allowed}: '{_truncate(value)}'.")
    return value


def whole_number(name: str, value: object) -> int:
    """Return an integer, which may be written as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    raise Malformed(f"The value for {name} must be an integer: '{_truncate(value)}'.")


def integer(
    given: Mapping[str, Any], name: str, minimum: int = -_MAX_INTEGER, maximum: int = _MAX_INTEGER
) -> int | None:
    """Return an integer or None."""
    value = given.get(name)
    if value is None:
        return None
    number = whole_number(name, value)
    if number < minimum:
        raise Malformed(f"The value for the {name} field must be greater than or equal to {minimum}.")
    if number > maximum:
        raise Malformed(f"The value for the {name} field must be less than or equal to {maximum}.")
    return number


def count_of(given: Mapping[str, Any]) -> int | None:
    """Return the count or None."""
    number = integer(given, "count")
    if number is not None and number < 0:
        raise Malformed("Value must be >= 0 for field 'count'.")
    return number


def boolean(given: Mapping[str, Any], name: str) -> bool | None:
    """Return a boolean, in JSON or in words, or None."""
    value = given.get(name)
    if value is None or isinstance(value, bool):
        return value
    word = str(value).lower()
    if word not in TRUE | FALSE:
        raise Malformed(f"Unrecognized value '{_truncate(value)}', acceptable values are: {_WORDS}")
    return word in TRUE


def choice(given: Mapping[str, Any], name: str, allowed: Iterable[str]) -> str | None:
    """Return one of the allowed words or None."""
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or value not in {str(word) for word in allowed}:
        raise Malformed(f"Value '{_truncate(value)}' is not acceptable for field '{name}'.")
    return value


def _truncate(value: object) -> str:
    """Return a value for a message."""
    text_value = str(value)
    return text_value if len(text_value) <= _MAX_LENGTH else f"{text_value[:_MAX_LENGTH]}…"
