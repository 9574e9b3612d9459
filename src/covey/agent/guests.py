"""The guest document: what an agent needs to know of a server. The service writes it, agents read it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec


@dataclass(frozen=True, slots=True)
class GuestFlavor:
    """The size of a guest."""

    name: str
    vcpus: int
    memory_mb: int
    disk_gb: int


@dataclass(frozen=True, slots=True)
class GuestImage:
    """The image that a guest boots. An image without data, or a deleted one, has no size and no checksum."""

    id: str
    size: int | None = None  # bytes
    checksum_algo: str | None = None
    checksum: str | None = None  # in hexadecimal digits
    disk_format: str | None = None


@dataclass(frozen=True, slots=True)
class GuestKey:
    """A public key that the guest's first user is reached with."""

    name: str
    public_key: str


@dataclass(frozen=True, slots=True)
class Guest:
    """A server as its host sees it. Unknown fields of a newer service are ignored."""

    id: str
    name: str
    hostname: str
    project_id: str
    user_id: str
    flavor: GuestFlavor
    group_id: str | None = None
    image: GuestImage | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    user_data: str | None = None  # base64
    keys: tuple[GuestKey, ...] = ()
    availability_zone: str | None = None
    config_drive: bool = True
    power: str = "running"  # or "shutdown"


def dump_guest(guest: Guest) -> dict[str, object]:
    """Return a guest as a JSON document."""
    document: dict[str, object] = msgspec.to_builtins(guest)
    return document
