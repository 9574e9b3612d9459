"""The contents of a fleet file as values, with host ranges expanded and references validated."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from covey.model.inventory import Inventory


@dataclass(frozen=True, slots=True)
class HostEntry:
    """One host with its size, traits, zone and domains."""

    name: str
    vcpus: int
    memory_mb: int
    disk_gb: int
    ratios: Mapping[str, float] = field(default_factory=dict)
    """Allocation ratio by resource class; other classes use the service's default."""
    zone: str | None = None
    traits: frozenset[str] = frozenset()
    domains: Mapping[str, str] = field(default_factory=dict)
    """Domain name by scope name; a host is in at most one domain of a scope."""
    inventories: Mapping[str, Inventory] | None = None
    """Inventories of further resource classes; None leaves those of the host unchanged."""


@dataclass(frozen=True, slots=True)
class ScopeEntry:
    """One scope, and whether tenants may name its domains and see their identifiers."""

    name: str
    allow_identifiers: bool = False
    obfuscate_identifiers: bool = False


@dataclass(frozen=True, slots=True)
class AggregateEntry:
    """One host aggregate that the hosts' `zone` and `domains` do not define."""

    name: str
    hosts: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    zone: str | None = None
    """The availability zone of its hosts; None when the aggregate defines none."""
    scope: str | None = None
    """The scope of which the aggregate is a domain."""


@dataclass(frozen=True, slots=True)
class FlavorEntry:
    """One flavor; without an id the service generates one."""

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
    """A fleet file; each section keeps the order of the file."""

    hosts: tuple[HostEntry, ...] = ()
    scopes: tuple[ScopeEntry, ...] = ()
    aggregates: tuple[AggregateEntry, ...] = ()
    flavors: tuple[FlavorEntry, ...] = ()
    images: tuple[ImageEntry, ...] = ()
