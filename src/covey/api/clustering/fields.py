"""Reading bodies: what may be in them, and each value as what it has to be.

    given = read_object(req, "cluster", required=("name", "profile_id"), optional=("timeout", "metadata"))
    timeout = integer(given, "timeout", least=1)

Clients send numbers as text and null for what they do not set, so both are taken: a reader gives None for null and
for what is missing, and `required` ones are never missing. Everything wrong raises Malformed.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from covey.api.clustering.errors import Malformed
from covey.api.requests import Json, Request, read_json

TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})
FALSE = frozenset({"0", "f", "false", "off", "n", "no"})
_WORDS = ", ".join(f"'{word}'" for word in sorted(TRUE | FALSE))

_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,18}\s*", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9\u4e00-\u9fa5_.~-]+")
_LONGEST_NAME = 255
_MOST = 2**31 - 1  # what the database keeps in a number


def read_object(
    req: Request,
    key: str,
    required: Iterable[str] = (),
    optional: Iterable[str] = (),
    *,
    updates: bool = False,
    dropped: Iterable[str] = (),
) -> Json:
    """The object that a body has under its only key.

    An update says in other words than a creation that it is missing. What is `dropped` came with a later version than
    the request's: it is not there.
    """
    body = read_json(req)
    if not isinstance(body, dict) or key not in body:
        raise Malformed(
            f"Malformed request data, missing '{key}' key in request body."
            if updates
            else f"Request body missing '{key}' key."
        )
    later = frozenset(dropped)
    given = as_map(key, body[key])
    return checked({k: v for k, v in given.items() if k not in later}, required, optional)


def checked(given: Mapping[str, Any], required: Iterable[str] = (), optional: Iterable[str] = ()) -> Json:
    """An object that has what it needs, and nothing that nobody knows."""
    needed = tuple(required)
    unknown = sorted(given.keys() - set(needed) - set(optional))
    if unknown:
        verb = "was" if len(unknown) == 1 else "were"
        names = ", ".join(f"'{name}'" for name in unknown)
        raise Malformed(f"Additional properties are not allowed ({names} {verb} unexpected)")
    for name in needed:
        if given.get(name) is None:
            raise Malformed(f"'{name}' is a required property")
    return dict(given)


def as_map(name: str, value: object) -> Json:
    """A JSON object."""
    if not isinstance(value, dict):
        raise Malformed(f"The value for {name} must be a map: '{_shown(value)}'.")
    return value


def mapping(given: Mapping[str, Any], name: str) -> Json | None:
    """A JSON object, or nothing."""
    value = given.get(name)
    return None if value is None else as_map(name, value)


def text(given: Mapping[str, Any], name: str, longest: int = 255) -> str | None:
    """Some text, or nothing."""
    value = given.get(name)
    if value is not None and (not isinstance(value, str) or len(value) > longest):
        raise Malformed(f"The value for {name} must be text of {longest} characters at the most: '{_shown(value)}'.")
    return value


def name_of(given: Mapping[str, Any], name: str = "name") -> str | None:
    """A name, or nothing."""
    value = given.get(name)
    if value is not None and not (
        isinstance(value, str) and len(value) <= _LONGEST_NAME and _NAME.fullmatch(value) is not None
    ):
        allowed = f"1 to {_LONGEST_NAME} letters, digits, '.', '_', '~' and '-'"
        raise Malformed(f"The value for {name} must be {allowed}: '{_shown(value)}'.")
    return value


def whole_number(name: str, value: object) -> int:
    """A number, which may be written as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    raise Malformed(f"The value for {name} must be an integer: '{_shown(value)}'.")


def integer(given: Mapping[str, Any], name: str, least: int = -_MOST, most: int = _MOST) -> int | None:
    """A number, or nothing."""
    value = given.get(name)
    if value is None:
        return None
    number = whole_number(name, value)
    if number < least:
        raise Malformed(f"The value for the {name} field must be greater than or equal to {least}.")
    if number > most:
        raise Malformed(f"The value for the {name} field must be less than or equal to {most}.")
    return number


def count_of(given: Mapping[str, Any], name: str = "count") -> int | None:
    """How many, or nothing."""
    number = integer(given, name)
    if number is not None and number < 0:
        raise Malformed(f"Value must be >= 0 for field '{name}'.")
    return number


def boolean(given: Mapping[str, Any], name: str) -> bool | None:
    """True or false in JSON or in words, or nothing."""
    value = given.get(name)
    if value is None or isinstance(value, bool):
        return value
    word = str(value).lower()
    if word not in TRUE | FALSE:
        raise Malformed(f"Unrecognized value '{_shown(value)}', acceptable values are: {_WORDS}")
    return word in TRUE


def choice(given: Mapping[str, Any], name: str, allowed: Iterable[str]) -> str | None:
    """One of a few words, or nothing."""
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or value not in {str(word) for word in allowed}:
        raise Malformed(f"Value '{_shown(value)}' is not acceptable for field '{name}'.")
    return value


def _shown(value: object) -> str:
    """A value in a message, which should not be as long as the request."""
    shown = str(value)
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[:_LONGEST_NAME]}…"
