"""Microversions: parsing, negotiation, and values and routes that depend on one."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeVar

from covey.model.errors import Invalid, NotFound

if TYPE_CHECKING:
    from covey.api.requests import Request

T = TypeVar("T")
Responder = TypeVar("Responder", bound=Callable[..., None])

_FORM = re.compile(r"([1-9][0-9]*)\.(0|[1-9][0-9]*)", re.ASCII)


class Version(NamedTuple):
    """A microversion, such as 2.64; compares by number, not by text."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the version that the text denotes, or None if it denotes none."""
        match = _FORM.fullmatch(text)
        return cls(int(match[1]), int(match[2])) if match and len(text) < len("9999.9999999") else None

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class Versioned(Generic[T]):
    """A value that changes at certain versions."""

    def __init__(self, since: Mapping[Version, T]) -> None:
        self._since = sorted(since.items(), key=lambda item: item[0], reverse=True)
        self.at: Callable[[Version], T] = lru_cache(maxsize=128)(self._at)

    def _at(self, version: Version) -> T:
        """Return the value at a version: the one of the newest entry that is not newer."""
        return next(value for since, value in self._since if since <= version)


class OutOfRange(Invalid):
    """A microversion that is out of range."""

    code = "not_acceptable"


class NotAcceptable(OutOfRange):
    """An unsupported microversion that the headers of the response repeat."""

    def __init__(self, requested: Version, supported: "VersionRange") -> None:
        super().__init__(
            f"Version {requested} is not supported by the API. "
            f"Minimum is {supported.minimum} and maximum is {supported.maximum}."
        )
        self.requested = requested


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The versions that one API supports, and the headers that request one."""

    service: str
    minimum: Version
    maximum: Version
    legacy_header: str | None = None
    alias: str | None = None  # a second service type, under which the catalogue may list the API

    @lru_cache(maxsize=256)  # noqa: B019 -- a range lives as long as the process
    def negotiate(self, common: str, legacy: str | None) -> Version:
        """Return the version that the two headers of a request ask for: OpenStack-API-Version and the legacy one.

        Raises Invalid if it is malformed and NotAcceptable if it is out of range.
        """
        text = self._requested(common)[1] or legacy
        if text is None:
            return self.minimum
        if text == "latest":
            return self.maximum
        version = self._parse(text)
        if not self.minimum <= version <= self.maximum:
            raise self._out_of_range(version, text)
        return version

    def _parse(self, text: str) -> Version:
        version = Version.parse(text)
        if version is None:
            raise Invalid(f"API Version String {text} is of invalid format. Must be of format MajorNum.MinorNum.")
        return version

    def _out_of_range(self, version: Version, text: str) -> Invalid:
        return NotAcceptable(version, self)

    def _requested(self, common: str) -> tuple[str, str | None]:
        """Return the service type by which a request names this API, and the version that it asks for."""
        for entry in common.split(","):
            service, _, version = entry.strip().partition(" ")
            if service.lower() in {self.service, self.alias} and version:
                return service.lower(), version.strip()
        return self.service, None

    @lru_cache(maxsize=256)  # noqa: B019
    def headers(self, version: Version, common: str = "") -> Mapping[str, str]:
        """Return the response headers that name the version, by the service type in the request's header."""
        service = self._requested(common)[0]
        headers = {"OpenStack-API-Version": f"{service} {version}", "Vary": "OpenStack-API-Version"}
        if self.legacy_header:
            headers[self.legacy_header] = str(version)
            headers["Vary"] += f", {self.legacy_header}"
        return headers


def only_from(first: Version) -> Callable[[Responder], Responder]:
    """Hide a responder from versions before `first`."""
    return _only(lambda version: version >= first)


def only_before(end: Version) -> Callable[[Responder], Responder]:
    """Hide a responder from `end` and later versions."""
    return _only(lambda version: version < end)


def _only(holds: Callable[[Version], bool]) -> Callable[[Responder], Responder]:
    def decorate(responder: Responder) -> Responder:
        @wraps(responder)
        def checked(resource: object, req: "Request", *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
            if not holds(req.version):
                raise NotFound("The resource could not be found.")
            responder(resource, req, *args, **kwargs)

        checked.holds = holds  # type: ignore[attr-defined]
        return checked  # type: ignore[return-value]

    return decorate


def exists_at(responder: object, version: Version) -> bool:
    """Return whether a responder exists at a version."""
    holds: Callable[[Version], bool] = getattr(responder, "holds", lambda _: True)
    return holds(version)
