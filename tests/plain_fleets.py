"""Fleets from plain values: hosts with their amounts, and aggregates with their hosts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from covey.model.fleet_records import AggregateRecord, HostRecord
from covey.model.ids import HostId, ProjectId, ScopeId
from covey.model.inventory import NO_UNIT_LIMITS, AllocationUnits
from covey.model.providers import InventoryRecord, ProviderRecord
from covey.model.resources import Resources
from covey.scheduler.fleet import RESOURCES, Fleet, Weights

Amounts = tuple[int, int, int]
"""VCPUs, MB of memory, GB of disk."""

Units = tuple[AllocationUnits, AllocationUnits, AllocationUnits]


@dataclass(frozen=True, slots=True)
class PlainHost:
    """A host with its capacity and use."""

    id: HostId
    name: str
    capacity: Amounts
    used: Amounts = (0, 0, 0)
    enabled: bool = True
    up: bool = True
    zone: str | None = None
    traits: frozenset[str] = frozenset()
    units: Units = (NO_UNIT_LIMITS, NO_UNIT_LIMITS, NO_UNIT_LIMITS)

    def provider(self) -> ProviderRecord:
        columns = zip(RESOURCES, self.capacity, self.used, self.units, strict=True)
        inventories = {name: InventoryRecord(most, 0, *units, used=used) for name, most, used, units in columns}
        return ProviderRecord(self.id, f"uuid-of-{self.name}", self.name, None, None, 0, inventories, self.traits)


@dataclass(frozen=True, slots=True)
class PlainAggregate:
    """An aggregate with its hosts."""

    id: int
    uuid: str
    hosts: frozenset[HostId]
    scope: ScopeId | None = None
    projects: frozenset[ProjectId] = frozenset()
    traits: frozenset[str] = frozenset()

    def record(self) -> AggregateRecord:
        return AggregateRecord(self.id, self.uuid, self.scope, self.projects, self.traits)


def plain_fleet(
    hosts: Sequence[PlainHost],
    aggregates: Iterable[PlainAggregate] = (),
    weights: Weights = Weights(),  # noqa: B008 -- frozen
) -> Fleet:
    """Return the hosts and aggregates in columns."""
    aggregates = list(aggregates)
    within: dict[HostId, set[int]] = {host.id: set() for host in hosts}
    for aggregate in aggregates:
        for host in aggregate.hosts & within.keys():
            within[host].add(aggregate.id)
    records = [HostRecord(h.id, h.name, h.enabled, h.up, h.zone, frozenset(within[h.id])) for h in hosts]
    return Fleet([host.provider() for host in hosts], records, [each.record() for each in aggregates], weights)


def plain_amounts(resources: Resources) -> Amounts:
    """Return the resources of a server as plain amounts."""
    vcpus, memory_mb, disk_gb = (resources.get(name, 0) for name in RESOURCES)
    return vcpus, memory_mb, disk_gb
