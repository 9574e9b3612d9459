"""Routes that exist only in some microversions."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from covey.api.requests import Request
from covey.api.versions import Version
from covey.model.errors import NotFound

Responder = TypeVar("Responder", bound=Callable[..., None])


def only_from(first: Version) -> Callable[[Responder], Responder]:
    """A route that older versions do not have."""
    return _only(lambda version: version >= first)


def only_before(end: Version) -> Callable[[Responder], Responder]:
    """A route that this version and later ones no longer have."""
    return _only(lambda version: version < end)


def _only(holds: Callable[[Version], bool]) -> Callable[[Responder], Responder]:
    def decorate(responder: Responder) -> Responder:
        @wraps(responder)
        def checked(resource: object, req: Request, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
            if not holds(req.version):
                raise NotFound("The resource could not be found.")
            responder(resource, req, *args, **kwargs)

        checked.holds = holds  # type: ignore[attr-defined]
        return checked  # type: ignore[return-value]

    return decorate


def exists_at(responder: object, version: Version) -> bool:
    """Whether a version has what this answers."""
    holds: Callable[[Version], bool] = getattr(responder, "holds", lambda _: True)
    return holds(version)
