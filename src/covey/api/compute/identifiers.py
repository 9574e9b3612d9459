"""Ids in paths, as Nova reads them."""

from covey.api.compute.microversions import UUIDS_FOR_HOSTS
from covey.api.requests import Request
from covey.api.validation import is_uuid
from covey.model.errors import Invalid

_MOST_DIGITS = 10  # more than any id has; longer numbers are some id that does not exist


def integer(text: str, name: str = "id") -> int:
    """A whole number. Raises Invalid for anything else; what no database can hold becomes 0, which no row has."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        message = f"Invalid input received: {name} must be an integer"
        raise Invalid(message)
    return int(text) if len(digits) < _MOST_DIGITS else 0


def host_key(req: Request, text: str) -> str:
    """A host's id: a uuid from 2.53 on, anything before. Raises Invalid."""
    if req.version >= UUIDS_FOR_HOSTS and not is_uuid(text):
        message = f"Invalid uuid {text}"
        raise Invalid(message)
    return text


def single_action(body: object) -> str:
    """The one key of an action's body. Raises Invalid when there is none, or more than one."""
    if not isinstance(body, dict) or len(body) != 1:
        message = "Malformed request body"
        raise Invalid(message)
    return str(next(iter(body)))


def no_such_action(name: str) -> Invalid:
    """What an unknown action is answered with."""
    return Invalid(f"There is no such action: {name}")
