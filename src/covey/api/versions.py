"""Microversions as data: what a version is, how one is negotiated, how things differ by it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, Self, TypeVar

import falcon

from covey.model.errors import Invalid

T = TypeVar("T")

_FORM = re.compile(r"([1-9][0-9]*)\.(0|[1-9][0-9]*)", re.ASCII)


class Version(NamedTuple):
    """A microversion, such as 2.64; compares by number, not by text."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The version that the text names; None when it is no version."""
        found = _FORM.fullmatch(text)
        return cls(int(found[1]), int(found[2])) if found and len(text) < len("9999.9999999") else None

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class Versioned(Generic[T]):
    """Something that is otherwise from certain versions on."""

    def __init__(self, since: Mapping[Version, T]) -> None:
        self._since = sorted(since.items(), key=lambda item: item[0], reverse=True)

    def at(self, version: Version) -> T:
        """What holds at that version: the newest that is not newer."""
        return next(value for since, value in self._since if since <= version)


class OutOfRange(Invalid):
    """A microversion that is out of range."""

    code = "not_acceptable"


class NotAcceptable(OutOfRange):
    """The same, and which one that was: the answer's headers repeat it."""

    def __init__(self, asked: Version, spoken: "VersionRange") -> None:
        super().__init__(
            f"Version {asked} is not supported by the API. Minimum is {spoken.minimum} and maximum is {spoken.maximum}."
        )
        self.asked = asked


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The versions that one API speaks, and the headers by which its callers choose."""

    service: str
    minimum: Version
    maximum: Version
    legacy_header: str | None = None

    def chosen_by(self, request: falcon.Request) -> Version:
        """The version that a request asks for. Raises Invalid for nonsense and NotAcceptable out of range."""
        text = self._asked(request)
        if text is None:
            return self.minimum
        if text == "latest":
            return self.maximum
        version = self._parsed(text)
        if not self.minimum <= version <= self.maximum:
            raise self._out_of_range(version, text)
        return version

    def _parsed(self, text: str) -> Version:
        version = Version.parse(text)
        if version is None:
            raise Invalid(f"API Version String {text} is of invalid format. Must be of format MajorNum.MinorNum.")
        return version

    def _out_of_range(self, version: Version, text: str) -> Invalid:
        return NotAcceptable(version, self)

    def _asked(self, request: falcon.Request) -> str | None:
        for entry in (request.get_header("OpenStack-API-Version") or "").split(","):
            service, _, version = entry.strip().partition(" ")
            if service.lower() == self.service and version:
                return version.strip()
        return request.get_header(self.legacy_header) if self.legacy_header else None

    def headers(self, version: Version) -> dict[str, str]:
        """What tells the caller which version answered."""
        headers = {"OpenStack-API-Version": f"{self.service} {version}", "Vary": "OpenStack-API-Version"}
        if self.legacy_header:
            headers[self.legacy_header] = str(version)
            headers["Vary"] += f", {self.legacy_header}"
        return headers
