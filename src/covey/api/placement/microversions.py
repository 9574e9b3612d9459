"""The Placement API's microversions, each named for its change, and their negotiation."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from covey.api.versions import OutOfRange, Version, VersionRange
from covey.model.errors import Invalid

FIRST = Version(1, 0)
AGGREGATES = Version(1, 1)
CLASSES = Version(1, 2)
MEMBER_OF = Version(1, 3)
RESOURCES = Version(1, 4)
DELETE_INVENTORIES = Version(1, 5)
TRAITS = Version(1, 6)
CLASS_BY_NAME = Version(1, 7)
OWNERS = Version(1, 8)
USAGES = Version(1, 9)
CANDIDATES = Version(1, 10)
ALLOCATIONS_LINK = Version(1, 11)
BY_PROVIDER = Version(1, 12)
MANY_CONSUMERS = Version(1, 13)
TREES = Version(1, 14)
LAST_MODIFIED = Version(1, 15)
REQUIRED = Version(1, 18)
AGGREGATE_GENERATION = Version(1, 19)
PROVIDER_RETURNED = Version(1, 20)
ERROR_CODES = Version(1, 23)
ALL_RESERVED = Version(1, 26)
CONSUMER_GENERATION = Version(1, 28)
RESHAPER = Version(1, 30)
MAPPINGS = Version(1, 34)
MOVES = Version(1, 37)
CONSUMER_TYPES = Version(1, 38)
LATEST = Version(1, 39)

_FORM = re.compile(r"\s*([0-9]{1,9})\s*\.\s*([0-9]{1,9})\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class PlacementVersions(VersionRange):
    """Negotiates as Placement does: the last of several versions wins, with Placement's messages."""

    def _parse(self, text: str) -> Version:
        match = _FORM.fullmatch(text)
        if match is None:
            raise Invalid(f"Invalid microversion: invalid version string: {text}")
        return Version(int(match[1]), int(match[2]))

    def _out_of_range(self, version: Version, text: str) -> Invalid:
        return OutOfRange(f"Invalid microversion: Unacceptable version header: {text}")

    def _requested(self, common: str) -> tuple[str, str | None]:
        for entry in reversed(common.split(",")):
            service, _, version = entry.strip().partition(" ")
            if service.lower() == self.service and version.strip():
                return self.service, version.strip()
        return self.service, None

    @lru_cache(maxsize=256)  # noqa: B019
    def headers(self, version: Version, common: str = "") -> Mapping[str, str]:
        """Return the response headers that name the version."""
        return {"openstack-api-version": f"{self.service} {version}", "vary": "openstack-api-version"}


VERSIONS = PlacementVersions("placement", FIRST, LATEST)
