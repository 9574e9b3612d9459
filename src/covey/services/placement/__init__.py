"""The Placement API's operations: resource providers, their inventories, and allocations of them."""

from dataclasses import dataclass
from typing import Self

from covey.model.quotas import UNLIMITED
from covey.ports import Access, Clock, NewUuid
from covey.request_slots import RequestSlots
from covey.services.live_fleet import LiveFleet
from covey.services.placement.aggregates import ProviderAggregates
from covey.services.placement.allocations import Allocations
from covey.services.placement.candidates import Candidates
from covey.services.placement.host_rankings import HostRankings
from covey.services.placement.inventories import Inventories
from covey.services.placement.providers import Providers
from covey.services.placement.reshaper import Reshaper
from covey.services.placement.resource_classes import ResourceClasses
from covey.services.placement.traits import Traits
from covey.services.placement.usages import Usages
from covey.storage.store import Store


@dataclass(frozen=True, slots=True)
class Placement:
    """The operations of the Placement API by subject."""

    aggregates: ProviderAggregates
    allocations: Allocations
    candidates: Candidates
    host_rankings: HostRankings
    inventories: Inventories
    providers: Providers
    reshaper: Reshaper
    resource_classes: ResourceClasses
    traits: Traits
    usages: Usages

    @classmethod
    def build(
        cls,
        store: Store,
        access: Access,
        clock: Clock,
        new_uuid: NewUuid,
        request_slots: RequestSlots,
        live: LiveFleet,
        max_group_members: int = UNLIMITED,
    ) -> Self:
        """Build the services on one store and one fleet in memory."""
        return cls(
            aggregates=ProviderAggregates(store, access, clock),
            allocations=Allocations(store, access, clock, live, request_slots, max_group_members),
            candidates=Candidates(store, access, live),
            host_rankings=HostRankings(store, access, clock, live, max_group_members),
            inventories=Inventories(store, access, clock),
            providers=Providers(store, access, clock, new_uuid),
            reshaper=Reshaper(store, access, clock),
            resource_classes=ResourceClasses(store, access, clock),
            traits=Traits(store, access, clock),
            usages=Usages(store, access),
        )
