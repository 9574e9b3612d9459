"""Availability zones, which aggregates define for their hosts."""

from dataclasses import dataclass

from covey.model.errors import Invalid
from covey.model.hosts import HostSummary

_MAX_PARTS = 3


@dataclass(frozen=True, slots=True)
class Zone:
    """A zone. It is available while at least one of its hosts is enabled."""

    name: str
    available: bool
    hosts: tuple[HostSummary, ...] = ()


def parse_availability_zone(text: str) -> tuple[str | None, str | None]:
    """Return (zone, forced host) of zone, zone:host, zone:host:node or zone::node. Raises Invalid for other forms."""
    zone, *more = text.split(":")
    if len(more) >= _MAX_PARTS:
        raise Invalid("Invalid input received: Unable to parse availability_zone")
    host = next(filter(None, more), None)
    # A forced host determines the zone, so the requested zone is ignored.
    return (zone or None, None) if host is None else (None, host)
