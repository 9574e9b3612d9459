"""What a fleet file says, as plain values: every range is expanded and every name is checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class HostEntry:
    """One host, with what it offers and where it stands."""

    name: str
    vcpus: int
    memory_mb: int
    disk_gb: int
    ratios: Mapping[str, float] = field(default_factory=dict)
    """Allocation ratio by resource class; a class that is absent takes the service's default."""
    zone: str | None = None
    traits: frozenset[str] = frozenset()
    domains: Mapping[str, str] = field(default_factory=dict)
    """Domain name by scope name: at most one domain of each scope."""


@dataclass(frozen=True, slots=True)
class ScopeEntry:
    """One kind of place, and what tenants may say and see of its domains."""

    name: str
    allow_identifiers: bool = False
    obfuscate_identifiers: bool = False


@dataclass(frozen=True, slots=True)
class AggregateEntry:
    """One host aggregate that the hosts' own `zone` and `domains` do not speak of."""

    name: str
    hosts: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    zone: str | None = None
    """The availability zone that it gives its hosts, where that is not its own name."""
    scope: str | None = None
    """The scope that it is a domain of."""


@dataclass(frozen=True, slots=True)
class FlavorEntry:
    """One size of server; without an id the service chooses one."""

    name: str
    vcpus: int
    memory_mb: int
    disk_gb: int
    extra_specs: Mapping[str, str] = field(default_factory=dict)
    id: str | None = None


@dataclass(frozen=True, slots=True)
class ImageEntry:
    """One image of the catalogue."""

    name: str
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FleetFile:
    """A whole fleet file, each section in the order it was written."""

    hosts: tuple[HostEntry, ...] = ()
    scopes: tuple[ScopeEntry, ...] = ()
    aggregates: tuple[AggregateEntry, ...] = ()
    flavors: tuple[FlavorEntry, ...] = ()
    images: tuple[ImageEntry, ...] = ()
