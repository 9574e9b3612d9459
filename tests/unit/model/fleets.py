"""Builders of the objects that fleet files describe."""

from covey.model.aggregates import Aggregate
from covey.model.flavors import Flavor
from covey.model.fleet_file import HostEntry
from covey.model.hosts import Host
from covey.model.ids import AggregateId, FlavorId, HostId, ScopeId
from covey.model.inventory import Inventory, ResourceClass
from covey.model.scopes import Scope
from tests.build import NOW

RATIOS = {ResourceClass.VCPU: 4.0, ResourceClass.MEMORY_MB: 1.0, ResourceClass.DISK_GB: 1.0}


def host_entry(name: str = "n1", zone: str | None = None, *traits: str, **domains: str) -> HostEntry:
    return HostEntry(name, 8, 1024, 50, {}, zone, frozenset(traits), domains)


def host(name: str = "n1", *traits: str, **inventories: Inventory) -> Host:
    """Return the host that `host_entry` describes, with the given traits and inventories."""
    has = {"VCPU": Inventory(8, 0, 4.0), "MEMORY_MB": Inventory(1024), "DISK_GB": Inventory(50)} | inventories
    return Host(HostId(1), "u", name, None, False, None, False, NOW, has, frozenset(traits))


def scope(name: str, *, allow: bool = False, obfuscate: bool = False) -> Scope:
    return Scope(ScopeId(f"id of {name}"), name, allow, obfuscate, "namespace")


def aggregate(name: str, *hosts: str, zone: str | None = None, scope: str | None = None, **metadata: str) -> Aggregate:
    scope_id = ScopeId(f"id of {scope}") if scope else None
    return Aggregate(AggregateId(1), "u", name, zone, scope_id, NOW, None, metadata, hosts)


def flavor(name: str = "small", vcpus: int = 1, **specs: str) -> Flavor:
    return Flavor(FlavorId(f"id of {name}"), name, vcpus, 512, 1, extra_specs=specs)
