"""Reshaping: changes inventories and allocations together, so that allocated resources can move within a tree."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from covey.model.access import Actor
from covey.model.allocations import AllocationRequest
from covey.model.errors import ConcurrentUpdate, Invalid, UnknownProvider
from covey.model.providers import Provider
from covey.ports import Access, Clock
from covey.services.placement import allocation_writes
from covey.services.placement.generations import CONFLICT, retry_on_conflict
from covey.services.placement.inventories import InventoryMap, check_capacity, reject_removal_in_use, unknown_class
from covey.storage.store import Store


@dataclass(frozen=True, slots=True)
class NewInventories:
    """The new inventories of a provider with this generation."""

    generation: int
    inventories: InventoryMap


@dataclass(frozen=True, slots=True)
class Reshaper:
    """Runs in one transaction; only its result must satisfy all constraints."""

    store: Store
    access: Access
    clock: Clock

    def require_reshape(self, actor: Actor) -> None:
        """Raise Forbidden, before the request body is read."""
        self.access.require(actor, "placement:reshaper:reshape")

    def reshape(
        self, actor: Actor, changes: Mapping[str, NewInventories], requests: Sequence[AllocationRequest]
    ) -> None:
        """Raises UnknownProvider, Invalid, ConcurrentUpdate, InventoryInUse, Conflict."""
        self.require_reshape(actor)
        retry_on_conflict(lambda: self._reshape(changes, requests))

    def _reshape(self, changes: Mapping[str, NewInventories], requests: Sequence[AllocationRequest]) -> None:
        with self.store.write() as tx:
            tx.topology.begin_change()  # before all rows, as every write of allocations
            now = self.clock()
            generations, old = tx.allocations.clear_consumers(requests, now)
            named = changes.keys() | {uuid for request in requests for uuid in request.resources}
            providers = tx.providers.lock(named, [allocation.provider_id for allocation in old])
            _check_provider_generations(changes, providers)
            allocation_writes.check_consumer_generations(generations, requests)
            allocation_writes.check_providers_exist(providers, requests)
            kinds = {kind for new in changes.values() for kind in new.inventories}
            kinds |= {kind for request in requests for amounts in request.resources.values() for kind in amounts}
            if unknown := unknown_class(tx, kinds):
                raise Invalid(f"malformed reshaper data: {unknown}")
            for uuid, new in changes.items():
                check_capacity(
                    providers[uuid], new.inventories, 0, "malformed reshaper data: Unable to update inventory"
                )
            ids = [providers[uuid].id for uuid in changes]
            tx.inventories.of({*ids, *(allocation.provider_id for allocation in old)}, lock=True)
            tx.inventories.put({providers[uuid].id: new.inventories for uuid, new in changes.items()})
            allocation_writes.replace_allocations(tx, requests, old, allocation_writes.provider_ids(providers))
            have = tx.inventories.of(ids)
            for uuid, new in changes.items():
                reject_removal_in_use(providers[uuid], have[providers[uuid].id], new.inventories, "update conflict: ")
            tx.inventories.drop(
                (providers[uuid].id, kind)
                for uuid, new in changes.items()
                for kind in have[providers[uuid].id].keys() - new.inventories.keys()
            )
            counts = allocation_writes.generation_increments(requests, old, allocation_writes.provider_ids(providers))
            counts += Counter({providers[uuid].id: 2 if new.inventories else 1 for uuid, new in changes.items()})
            tx.providers.bump(counts, now)


def _check_provider_generations(changes: Mapping[str, NewInventories], providers: Mapping[str, Provider]) -> None:
    for uuid, new in changes.items():
        if uuid not in providers:
            raise UnknownProvider(
                f"Resource provider {uuid} in inventories not found: No resource provider with uuid {uuid} found"
            )
        actual = providers[uuid].generation
        if new.generation != actual:
            raise ConcurrentUpdate(f"{CONFLICT} for provider {uuid}: actual: {actual}, given: {new.generation}")
