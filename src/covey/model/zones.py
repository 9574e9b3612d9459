"""Availability zones: what the aggregates that name one make of the hosts."""

from dataclasses import dataclass

from covey.model.hosts import Host


@dataclass(frozen=True, slots=True)
class Zone:
    """A zone; available while at least one host in it takes servers."""

    name: str
    available: bool
    hosts: tuple[Host, ...] = ()
