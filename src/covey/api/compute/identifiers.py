"""Ids in paths, as Nova reads them."""

from collections.abc import Mapping

from covey.api.compute.microversions import UUIDS_FOR_HOSTS
from covey.api.requests import Request
from covey.api.validation import is_uuid
from covey.model.errors import Invalid

_LONGEST = 4000  # digits; int() itself refuses a few more
_MOST_DIGITS = 10  # more than any number that is kept has


def integer(text: str, name: str = "id") -> int:
    """A whole number. Raises Invalid for anything else; one of absurd length becomes 0, which no row has."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        raise Invalid(f"Invalid input received: {name} must be an integer")
    return int(text) if len(digits) < _LONGEST else 0


def bounded(digits: str) -> int:
    """A number that a query gives, cut to 32 bits; int() itself refuses some thousands of digits."""
    return min(int(digits.strip().lstrip("0")[: _MOST_DIGITS + 1] or 0), 2**31 - 1)


def page_size(query: Mapping[str, str], most: int) -> int:
    """How many items a page holds; without a limit, or with 0, as many as the service gives at once."""
    return min(bounded(query.get("limit", "")) or most, most)


def host_key(req: Request, text: str) -> str:
    """A host's id: a uuid from 2.53 on, anything before. Raises Invalid."""
    if req.version >= UUIDS_FOR_HOSTS and not is_uuid(text):
        raise Invalid(f"Invalid uuid {text}")
    return text


def single_action(body: object) -> str:
    """The one key of an action's body. Raises Invalid when there is none, or more than one."""
    if not isinstance(body, dict) or len(body) != 1:
        raise Invalid("Malformed request body")
    return str(next(iter(body)))


def no_such_action(name: str) -> Invalid:
    """What an unknown action is answered with."""
    return Invalid(f"There is no such action: {name}")
