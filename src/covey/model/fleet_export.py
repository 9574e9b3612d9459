"""Exports the state of the service as a fleet file. Applying the exported file changes nothing."""

from collections.abc import Mapping
from dataclasses import replace

from covey.model.aggregates import Aggregate
from covey.model.fleet_file import AggregateEntry, FlavorEntry, FleetFile, HostEntry, ImageEntry, ScopeEntry
from covey.model.fleet_plan import FleetState, Ratios
from covey.model.hosts import Host
from covey.model.ids import ScopeId
from covey.model.inventory import Inventory, ResourceClass


def export_fleet(state: FleetState, default_ratios: Ratios) -> FleetFile:
    """Return the fleet file of a state.

    Zones and domains are written at the hosts where the short form can express them, otherwise as aggregates.
    """
    scopes = {scope.id: scope.name for scope in state.scopes}
    short = [aggregate for aggregate in state.aggregates if _has_short_form(aggregate)]
    zones = {host: a.name for a in short if a.zone for host in a.hosts}
    domains: dict[str, dict[str, str]] = {}
    for aggregate in short:
        if aggregate.scope:
            for host in aggregate.hosts:
                domains.setdefault(host, {})[scopes[aggregate.scope]] = aggregate.name
    images = {image.name: image for image in state.images}  # names are unique in a fleet file only
    return FleetFile(
        hosts=tuple(_host(h, zones.get(h.name), domains.get(h.name, {}), default_ratios) for h in state.hosts),
        scopes=tuple(ScopeEntry(s.name, s.allow_identifiers, s.obfuscate_identifiers) for s in state.scopes),
        aggregates=tuple(_aggregate(a, scopes) for a in state.aggregates if not _has_short_form(a)),
        flavors=tuple(
            FlavorEntry(f.name, f.vcpus, f.memory_mb, f.disk_gb, dict(f.extra_specs), f.id) for f in state.flavors
        ),
        images=tuple(ImageEntry(name, dict(image.properties)) for name, image in images.items() if name),
    )


def _has_short_form(aggregate: Aggregate) -> bool:
    """Return whether `zone: X` or `domains: {S: X}` at its hosts describes the aggregate completely."""
    only_zone = aggregate.zone == aggregate.name and aggregate.scope is None
    only_domain = aggregate.zone is None and aggregate.scope is not None
    plain = not aggregate.metadata and bool(aggregate.hosts) and not set("[]") & set(aggregate.name)
    return plain and (only_zone or only_domain)


def _host(host: Host, zone: str | None, domains: Mapping[str, str], defaults: Ratios) -> HostEntry:
    inventories = {kind: host.inventories.get(kind, Inventory(0)) for kind in ResourceClass}
    return HostEntry(
        host.name,
        inventories[ResourceClass.VCPU].total,
        inventories[ResourceClass.MEMORY_MB].total,
        inventories[ResourceClass.DISK_GB].total,
        {str(kind): i.allocation_ratio for kind, i in inventories.items() if i.allocation_ratio != defaults[kind]},
        zone,
        host.traits,
        domains,
        {kind: replace(i, used=0) for kind, i in sorted(host.inventories.items()) if kind not in inventories} or None,
    )


def _aggregate(aggregate: Aggregate, scopes: Mapping[ScopeId, str]) -> AggregateEntry:
    scope = scopes[aggregate.scope] if aggregate.scope else None
    return AggregateEntry(aggregate.name, aggregate.hosts, dict(aggregate.metadata), aggregate.zone, scope)
