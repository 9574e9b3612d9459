"""What resource providers have."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from covey.model.access import Actor
from covey.model.errors import ConcurrentUpdate, Invalid, InventoryInUse, NotFound
from covey.model.providers import InventoryRecord, Provider
from covey.model.vocabulary import in_order
from covey.ports import Access, Clock
from covey.services.placement.finding import CONFLICT, existing, expect, retried
from covey.storage.store import Store, Transaction

_RULE = "placement:resource_providers:inventories:"
T = TypeVar("T")

Stock = Mapping[str, InventoryRecord]
"""What a provider has of each resource class."""


@dataclass(frozen=True, slots=True)
class Inventories:
    """What can be done with inventories. Old clients know of none whose capacity is nothing."""

    store: Store
    access: Access
    clock: Clock

    def all(self, actor: Actor, uuid: str) -> tuple[Provider, Stock]:
        """Raises NotFound."""
        self.access.require(actor, f"{_RULE}list")
        with self.store.read() as tx:
            provider = existing(tx, uuid)
            return provider, tx.inventories.of([provider.id])[provider.id]

    def one(self, actor: Actor, uuid: str, kind: str) -> tuple[Provider, InventoryRecord]:
        """Raises NotFound."""
        self.access.require(actor, f"{_RULE}show")
        with self.store.read() as tx:
            provider = existing(tx, uuid)
            found = tx.inventories.of([provider.id])[provider.id].get(kind)
        if found is None:
            raise NotFound(f"No inventory of class {kind} for {uuid}")
        return provider, found

    def replace(self, actor: Actor, uuid: str, generation: int | None, wanted: Stock, *, least: int = 0) -> Provider:
        """The provider has this from now on, and nothing else. Raises NotFound, ConcurrentUpdate, InventoryInUse."""
        self.access.require(actor, f"{_RULE}update")

        def change(tx: Transaction, provider: Provider, has: Stock) -> None:
            expect(provider, generation, CONFLICT)
            refuse_small(provider, wanted, least, "Unable to update inventory")
            if unknown := unknown_class(tx, wanted):
                raise Invalid(f"Unknown resource class in inventory for resource provider {uuid}: {unknown}")
            refuse_used(provider, has, wanted, "update conflict: ")
            tx.inventories.drop((provider.id, kind) for kind in has.keys() - wanted.keys())
            tx.inventories.put({provider.id: wanted})

        return self._changed(uuid, change)

    def clear(self, actor: Actor, uuid: str) -> None:
        """The provider has nothing from now on. Raises NotFound, InventoryInUse."""
        self.access.require(actor, f"{_RULE}delete")

        def change(tx: Transaction, provider: Provider, has: Stock) -> None:
            refuse_used(provider, has, {}, "")
            tx.inventories.drop((provider.id, kind) for kind in has)

        self._changed(uuid, change)

    def add(self, actor: Actor, uuid: str, kind: str, new: InventoryRecord, *, least: int = 0) -> Provider:
        """Raises NotFound, Invalid, and ConcurrentUpdate when the provider has some of the class already."""
        self.access.require(actor, f"{_RULE}create")

        def change(tx: Transaction, provider: Provider, has: Stock) -> None:
            refuse_small(provider, {kind: new}, least, "Unable to create inventory")
            if unknown := unknown_class(tx, [kind]):
                raise Invalid(f"Unable to create inventory for resource provider {uuid}: {unknown}")
            if kind in has:
                raise ConcurrentUpdate(
                    f"Update conflict: The resource provider has an inventory of class {kind} already."
                )
            tx.inventories.put({provider.id: {kind: new}})

        return self._changed(uuid, change)

    def change(
        self, actor: Actor, uuid: str, kind: str, generation: int, new: InventoryRecord, *, least: int = 0
    ) -> Provider:
        """Changes what there is of one class. Raises NotFound, Invalid, ConcurrentUpdate."""
        self.access.require(actor, f"{_RULE}update")

        def change(tx: Transaction, provider: Provider, has: Stock) -> None:
            expect(provider, generation, CONFLICT)
            refuse_small(provider, {kind: new}, least, "Unable to update inventory")
            if unknown := unknown_class(tx, [kind]):
                raise NotFound(unknown)
            if kind not in has:
                raise Invalid(
                    f"No inventory record with resource class for resource provider {uuid}: "
                    f"No inventory of class {kind} found."
                )
            tx.inventories.put({provider.id: {kind: new}})

        return self._changed(uuid, change)

    def remove(self, actor: Actor, uuid: str, kind: str) -> None:
        """The provider has nothing of one class from now on. Raises NotFound, ConcurrentUpdate."""
        self.access.require(actor, f"{_RULE}delete")

        def change(tx: Transaction, provider: Provider, has: Stock) -> None:
            if kind not in has:
                raise NotFound(f"No inventory of class {kind} found for delete")
            if has[kind].used:
                raise ConcurrentUpdate(f"Unable to delete inventory of class {kind}: {in_use(provider, [kind])}")
            tx.inventories.drop([(provider.id, kind)])

        self._changed(uuid, change)

    def _changed(self, uuid: str, change: Callable[[Transaction, Provider, Stock], None]) -> Provider:
        """The provider as it is after the change, which counts as one whatever it does."""

        def attempt() -> Provider:
            with self.store.write() as tx:
                provider = existing(tx, uuid, lock=True)
                change(tx, provider, tx.inventories.of([provider.id], lock=True)[provider.id])
                tx.providers.bump({provider.id: 1}, self.clock())
                return replace(provider, generation=provider.generation + 1)

        return retried(attempt)


def refuse_small(provider: Provider, wanted: Stock, least: int, verb: str) -> None:
    """Raises Invalid for an inventory of which less than that can be given."""
    for kind, has in wanted.items():
        refusal = f"{verb} for resource provider {provider.uuid}: Invalid inventory for '{kind}' on resource provider "
        refusal += f"'{provider.uuid}'. "
        if has.allocation_ratio <= 0:
            raise Invalid(f"{refusal}The allocation_ratio must be greater than 0.")
        if has.capacity < least:
            raise Invalid(f"{refusal}The reserved value is greater than{' or equal to' if least else ''} total.")


def refuse_used(provider: Provider, has: Stock, wanted: Stock, verb: str) -> None:
    """Raises InventoryInUse when consumers hold some of what would go."""
    used = in_order(kind for kind, inventory in has.items() if inventory.used and kind not in wanted)
    if used:
        raise InventoryInUse(verb + in_use(provider, used))


def in_use(provider: Provider, kinds: Iterable[str]) -> str:
    """Says so in a sentence."""
    return f"Inventory for '{', '.join(kinds)}' on resource provider '{provider.uuid}' in use."


def unknown_class(tx: Transaction, kinds: Iterable[str]) -> str:
    """Says in a sentence which of these classes there is not; none goes away meanwhile."""
    names = set(kinds)
    unknown = sorted(names - tx.resource_classes.known(names, hold=True))
    return f"No such resource class {unknown[0]}." if unknown else ""
