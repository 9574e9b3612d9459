"""Identifiers, numbers and action names in requests, parsed as Nova does."""

from collections.abc import Mapping

from covey.api.compute.microversions import UUIDS_FOR_HOSTS
from covey.api.requests import Json, Request, read_json
from covey.api.validation import Schema, is_uuid
from covey.model.errors import Invalid

_MAX_INTEGER_DIGITS = 4000  # int() raises for a few more
_MAX_BOUNDED_DIGITS = 10


def integer(text: str, name: str = "id") -> int:
    """Return the text as an integer, or 0, which no row has, for one with too many digits. Raises Invalid."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        raise Invalid(f"Invalid input received: {name} must be an integer")
    return int(text) if len(digits) < _MAX_INTEGER_DIGITS else 0


def bounded(digits: str) -> int:
    """Return the digits as an integer, capped at 2**31 - 1, whatever their number."""
    return min(int(digits.strip().lstrip("0")[: _MAX_BOUNDED_DIGITS + 1] or 0), 2**31 - 1)


def page_size(query: Mapping[str, str], max_limit: int) -> int:
    """Return the size of a page: `limit` up to the maximum, or the maximum without a limit. 0 is an empty page."""
    return min(bounded(query["limit"]), max_limit) if "limit" in query else max_limit


def host_key(req: Request, text: str) -> str:
    """Return a host's id: any text before 2.53, a uuid from then on. Raises Invalid."""
    if req.version >= UUIDS_FOR_HOSTS and not is_uuid(text):
        raise Invalid(f"Invalid uuid {text}")
    return text


def single_action(body: object) -> str:
    """Return the only key of an action's body. Raises Invalid for none or several."""
    if isinstance(body, dict) and len(body) > 1:
        raise Invalid(f"Malformed request body: it has {len(body)} actions ({', '.join(map(str, body))}); send one.")
    if not isinstance(body, dict) or not body:
        raise Invalid("Malformed request body")
    return str(next(iter(body)))


def no_such_action(name: str) -> Invalid:
    """Return the error for an unknown action."""
    return Invalid(f"There is no such action: {name}")


def read_action(req: Request, actions: Mapping[str, Schema]) -> tuple[str, Json]:
    """Return the one action that a request names, and its parameters. Raises Invalid."""
    body = read_json(req)
    name = single_action(body)
    if name not in actions:
        raise no_such_action(name)
    actions[name].check(body)
    parameters: Json = body[name]
    return name, parameters
