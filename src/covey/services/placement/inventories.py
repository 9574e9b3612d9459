"""Inventories of resource providers."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from covey.model.access import Actor
from covey.model.errors import ConcurrentUpdate, Invalid, InventoryInUse, NotFound
from covey.model.providers import InventoryRecord, Provider
from covey.model.vocabulary import sort_classes
from covey.ports import Access, Clock
from covey.services.placement.generations import CONFLICT, check_generation, get_provider, retry_on_conflict
from covey.storage.store import Store, Transaction

_RULE = "placement:resource_providers:inventories:"
T = TypeVar("T")

InventoryMap = Mapping[str, InventoryRecord]
"""The inventories of a provider by resource class."""


@dataclass(frozen=True, slots=True)
class Inventories:
    """Operations on inventories. `min_capacity` is the minimum capacity; old microversions require 1."""

    store: Store
    access: Access
    clock: Clock

    def all(self, actor: Actor, uuid: str) -> tuple[Provider, InventoryMap]:
        """Raises NotFound."""
        self.access.require(actor, f"{_RULE}list")
        with self.store.read() as tx:
            provider = get_provider(tx, uuid)
            return provider, tx.inventories.of([provider.id])[provider.id]

    def get(self, actor: Actor, uuid: str, kind: str) -> tuple[Provider, InventoryRecord]:
        """Raises NotFound."""
        self.access.require(actor, f"{_RULE}show")
        with self.store.read() as tx:
            provider = get_provider(tx, uuid)
            found = tx.inventories.of([provider.id])[provider.id].get(kind)
        if found is None:
            raise NotFound(f"No inventory of class {kind} for {uuid}")
        return provider, found

    def require_change(self, actor: Actor) -> None:
        """Raise Forbidden, before the request body is read."""
        self.access.require(actor, f"{_RULE}update")

    def replace(
        self, actor: Actor, uuid: str, generation: int | None, new: InventoryMap, *, min_capacity: int = 0
    ) -> Provider:
        """Replace all inventories of a provider. Raises NotFound, Invalid, ConcurrentUpdate, InventoryInUse."""
        self.require_change(actor)

        def change(tx: Transaction, provider: Provider, has: InventoryMap) -> None:
            check_generation(provider, generation, CONFLICT)
            check_capacity(provider, new, min_capacity, "Unable to update inventory")
            if unknown := unknown_class(tx, new):
                raise Invalid(f"Unknown resource class in inventory for resource provider {uuid}: {unknown}")
            reject_removal_in_use(provider, has, new, "update conflict: ")
            tx.inventories.drop((provider.id, kind) for kind in has.keys() - new.keys())
            tx.inventories.put({provider.id: new})

        return self._apply(uuid, change)

    def clear(self, actor: Actor, uuid: str) -> None:
        """Delete all inventories of a provider. Raises NotFound, InventoryInUse."""
        self.access.require(actor, f"{_RULE}delete")

        def change(tx: Transaction, provider: Provider, has: InventoryMap) -> None:
            reject_removal_in_use(provider, has, {}, "")
            tx.inventories.drop((provider.id, kind) for kind in has)

        self._apply(uuid, change)

    def require_add(self, actor: Actor) -> None:
        """Raise Forbidden, before the request body is read."""
        self.access.require(actor, f"{_RULE}create")

    def add(self, actor: Actor, uuid: str, kind: str, new: InventoryRecord, *, min_capacity: int = 0) -> Provider:
        """Raises NotFound, Invalid, and ConcurrentUpdate when the provider already has the class."""
        self.require_add(actor)

        def change(tx: Transaction, provider: Provider, has: InventoryMap) -> None:
            check_capacity(provider, {kind: new}, min_capacity, "Unable to create inventory")
            if unknown := unknown_class(tx, [kind]):
                raise Invalid(f"Unable to create inventory for resource provider {uuid}: {unknown}")
            if kind in has:
                raise ConcurrentUpdate(
                    f"Update conflict: The resource provider has an inventory of class {kind} already."
                )
            tx.inventories.put({provider.id: {kind: new}})

        return self._apply(uuid, change)

    def change(
        self, actor: Actor, uuid: str, kind: str, generation: int, new: InventoryRecord, *, min_capacity: int = 0
    ) -> Provider:
        """Change the inventory of one class. Raises NotFound, Invalid, ConcurrentUpdate."""
        self.require_change(actor)

        def change(tx: Transaction, provider: Provider, has: InventoryMap) -> None:
            check_generation(provider, generation, CONFLICT)
            check_capacity(provider, {kind: new}, min_capacity, "Unable to update inventory")
            if unknown := unknown_class(tx, [kind]):
                raise NotFound(unknown)
            if kind not in has:
                raise Invalid(
                    f"No inventory record with resource class for resource provider {uuid}: "
                    f"No inventory of class {kind} found."
                )
            tx.inventories.put({provider.id: {kind: new}})

        return self._apply(uuid, change)

    def remove(self, actor: Actor, uuid: str, kind: str) -> None:
        """Delete the inventory of one class. Raises NotFound, ConcurrentUpdate."""
        self.access.require(actor, f"{_RULE}delete")

        def change(tx: Transaction, provider: Provider, has: InventoryMap) -> None:
            if kind not in has:
                raise NotFound(f"No inventory of class {kind} found for delete")
            if has[kind].used:
                raise ConcurrentUpdate(f"Unable to delete inventory of class {kind}: {in_use(provider, [kind])}")
            tx.inventories.drop([(provider.id, kind)])

        self._apply(uuid, change)

    def _apply(self, uuid: str, change: Callable[[Transaction, Provider, InventoryMap], None]) -> Provider:
        """Run the change in a transaction and return the provider with its generation incremented by one."""

        def attempt() -> Provider:
            with self.store.write() as tx:
                provider = get_provider(tx, uuid, lock=True)
                change(tx, provider, tx.inventories.of([provider.id], lock=True)[provider.id])
                tx.providers.bump({provider.id: 1}, self.clock())
                return replace(provider, generation=provider.generation + 1)

        return retry_on_conflict(attempt)


def check_capacity(provider: Provider, new: InventoryMap, min_capacity: int, verb: str) -> None:
    """Raise Invalid for an inventory whose capacity is below `min_capacity`."""
    for kind, has in new.items():
        refusal = f"{verb} for resource provider {provider.uuid}: Invalid inventory for '{kind}' on resource provider "
        refusal += f"'{provider.uuid}'. "
        if has.allocation_ratio <= 0:
            raise Invalid(f"{refusal}The allocation_ratio must be greater than 0.")
        if has.capacity < min_capacity:
            raise Invalid(f"{refusal}The reserved value is greater than{' or equal to' if min_capacity else ''} total.")


def reject_removal_in_use(provider: Provider, has: InventoryMap, new: InventoryMap, verb: str) -> None:
    """Raise InventoryInUse when a class to remove has allocations."""
    used = sort_classes(kind for kind, inventory in has.items() if inventory.used and kind not in new)
    if used:
        raise InventoryInUse(verb + in_use(provider, used))


def in_use(provider: Provider, kinds: Iterable[str]) -> str:
    """Return the message for inventories with allocations."""
    return f"Inventory for '{', '.join(kinds)}' on resource provider '{provider.uuid}' in use."


def unknown_class(tx: Transaction, kinds: Iterable[str]) -> str:
    """Return the message for the first unknown class, or an empty text. Locks the known custom classes."""
    names = set(kinds)
    unknown = sorted(names - tx.resource_classes.known(names, lock=True))
    return f"No such resource class {unknown[0]}." if unknown else ""
