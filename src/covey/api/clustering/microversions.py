"""The microversions of the Clustering API, named for what each one added."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

from covey.api.requests import Request
from covey.api.versions import OutOfRange, Version, VersionRange
from covey.model.errors import Invalid

FIRST = Version(1, 0)
VALIDATE = COLLECT = Version(1, 2)
REPLACE_NODES = Version(1, 3)
OPERATIONS = RECEIVER_USER = DESTROY_AFTER_DELETION = Version(1, 4)
SUPPORT_STATUS = Version(1, 5)
PROFILE_ONLY = CHECK_BEFORE_RECOVERY = Version(1, 6)
CLUSTER_CONFIG = Version(1, 7)
FORCE_DELETE = Version(1, 8)
COMPLETE_LIFECYCLE = Version(1, 9)
WEBHOOK_BODY = Version(1, 10)
CANCEL_ACTION = Version(1, 12)
TAINTED = Version(1, 13)
ACTION_CLUSTER = Version(1, 14)
LATEST = ACTION_CLUSTER

Responder = TypeVar("Responder", bound=Callable[..., None])


class NoVersion(Invalid):
    """The requested version of the Clustering API is not a microversion."""

    code = "no_version"


class NotInVersion(Invalid):
    """The Clustering API supports the request in later microversions only."""

    code = "not_in_version"

    def __init__(self, version: Version) -> None:
        super().__init__(f"API version '{version}' is not supported on this method.")


@dataclass(frozen=True, slots=True)
class ClusteringVersions(VersionRange):
    """Version negotiation with Senlin's error texts."""

    def _parse(self, text: str) -> Version:
        version = Version.parse(text)
        if version is None:
            raise NoVersion(f"Invalid version '{text}' of the clustering API: the format is that of '{self.maximum}'.")
        return version

    def _out_of_range(self, version: Version, text: str) -> Invalid:
        bounds = f"Minimum is '{self.minimum}' and maximum is '{self.maximum}'."
        return OutOfRange(f"Version '{version}' is not supported by the API. {bounds}")


VERSIONS = ClusteringVersions("clustering", FIRST, LATEST)


def since(first: Version) -> Callable[[Responder], Responder]:
    """Decorate a responder that older versions do not have; it raises NotInVersion for them."""

    def decorate(responder: Responder) -> Responder:
        @wraps(responder)
        def checked(resource: object, req: Request, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
            require(req, first)
            responder(resource, req, *args, **kwargs)

        return checked  # type: ignore[return-value]

    return decorate


def require(req: Request, first: Version) -> None:
    """Raises NotInVersion for a request of an older version."""
    if req.version < first:
        raise NotInVersion(req.version)
