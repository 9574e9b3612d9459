"""Availability zones: what the aggregates that name one make of the hosts."""

from dataclasses import dataclass

from covey.model.errors import Invalid
from covey.model.hosts import Host

_MOST_PARTS = 3


@dataclass(frozen=True, slots=True)
class Zone:
    """A zone; available while at least one host in it takes servers."""

    name: str
    available: bool
    hosts: tuple[Host, ...] = ()


def zone_and_host(text: str | None) -> tuple[str | None, str | None]:
    """The zone, and the host that it forces: zone, zone:host, zone:host:node or zone::node. Raises Invalid."""
    if text is None:
        return None, None
    zone, *more = text.split(":")
    if len(more) >= _MOST_PARTS:
        raise Invalid("Invalid input received: Unable to parse availability_zone")
    host = next(filter(None, more), None)
    # With a host named, the zone is of no more use: the host is in the zone that it is in.
    return (zone or None, None) if host is None else (None, host)
