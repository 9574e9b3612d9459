"""Expected trouble. Each class has a stable code; the edges decide how it looks on their wire."""

from typing import ClassVar


class CoveyError(Exception):
    """Something that a caller can be told about in a sentence."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NotFound(CoveyError):
    """There is no such thing, or this actor may not know of it."""

    code = "not_found"


class Invalid(CoveyError):
    """The request makes no sense, whatever the state of the service."""

    code = "invalid"


class Conflict(CoveyError):
    """The request makes sense, but not in the present state of the service."""

    code = "conflict"


class Forbidden(CoveyError):
    """The actor is known and may not do this."""

    code = "forbidden"


class Unauthorized(CoveyError):
    """Nobody knows who is asking."""

    code = "unauthorized"


class Unavailable(CoveyError):
    """Something that the service needs, such as its database, does not answer."""

    code = "unavailable"
