"""The routes of the Placement API."""

from typing import TYPE_CHECKING

from covey.api.placement import discovery
from covey.api.placement.aggregates import Aggregates
from covey.api.placement.allocations import Allocations
from covey.api.placement.candidates import AllocationCandidates
from covey.api.placement.host_rankings import HostRankings
from covey.api.placement.inventories import Inventories
from covey.api.placement.reshaper import Reshaper
from covey.api.placement.resource_classes import ResourceClasses
from covey.api.placement.resource_providers import ResourceProviders
from covey.api.placement.traits import ProviderTraits, Traits
from covey.api.placement.usages import Usages

if TYPE_CHECKING:
    from covey.api.app import AppParts, Route


def routes(parts: "AppParts") -> "list[Route]":
    """Return every path with the resource that serves it."""
    services, clock = parts.services.placement, parts.clock
    providers = ResourceProviders(services.providers, clock)
    inventories = Inventories(services.inventories, clock)
    classes = ResourceClasses(services.resource_classes, clock)
    traits = Traits(services.traits, clock)
    allocations = Allocations(services.allocations, clock)
    usages = Usages(services.usages, clock)
    return [
        ("/", discovery.Versions(clock), None),
        ("/allocation_candidates", AllocationCandidates(services.candidates, clock), None),
        ("/allocations", allocations, None),
        ("/allocations/{consumer}", allocations, "one"),
        ("/host_rankings", HostRankings(services.host_rankings), None),
        ("/reshaper", Reshaper(services.reshaper), None),
        ("/resource_classes", classes, None),
        ("/resource_classes/{name}", classes, "one"),
        ("/resource_providers", providers, None),
        ("/resource_providers/{key}", providers, "one"),
        ("/resource_providers/{key}/aggregates", Aggregates(services.aggregates, clock), None),
        ("/resource_providers/{key}/allocations", allocations, "provider"),
        ("/resource_providers/{key}/inventories", inventories, None),
        ("/resource_providers/{key}/inventories/{kind}", inventories, "one"),
        ("/resource_providers/{key}/traits", ProviderTraits(services.traits, clock), None),
        ("/resource_providers/{key}/usages", usages, "provider"),
        ("/traits", traits, None),
        ("/traits/{name}", traits, "one"),
        ("/usages", usages, None),
    ]
