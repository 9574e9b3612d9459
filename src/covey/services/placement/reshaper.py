"""Reshaping: inventories and allocations change together, so that what is in use can move within a tree."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from covey.model.access import Actor
from covey.model.allocations import AllocationRequest
from covey.model.errors import ConcurrentUpdate, Invalid, UnknownProvider
from covey.model.providers import Provider
from covey.ports import Access, Clock
from covey.services.placement import ledger
from covey.services.placement.finding import CONFLICT, retried
from covey.services.placement.inventories import Stock, refuse_small, refuse_used, unknown_class
from covey.storage.store import Store


@dataclass(frozen=True, slots=True)
class NewStock:
    """What a provider has from now on, if it is of that generation still."""

    generation: int
    has: Stock


@dataclass(frozen=True, slots=True)
class Reshaper:
    """One transaction, of which only the end has to make sense."""

    store: Store
    access: Access
    clock: Clock

    def may_reshape(self, actor: Actor) -> None:
        """Raises Forbidden."""
        self.access.require(actor, "placement:reshaper:reshape")

    def reshape(self, actor: Actor, stocks: Mapping[str, NewStock], wanted: Sequence[AllocationRequest]) -> None:
        """Raises UnknownProvider, Invalid, ConcurrentUpdate, InventoryInUse, Conflict."""
        self.may_reshape(actor)
        retried(lambda: self._reshape(stocks, wanted))

    def _reshape(self, stocks: Mapping[str, NewStock], wanted: Sequence[AllocationRequest]) -> None:
        with self.store.write() as tx:
            now = self.clock()
            generations, held = tx.allocations.renew(wanted, now)
            named = stocks.keys() | {uuid for each in wanted for uuid in each.resources}
            providers = tx.providers.hold(named, [each.provider_id for each in held])
            _refuse_stale(stocks, providers)
            ledger.refuse_stale(generations, wanted)
            ledger.refuse_unknown(providers, wanted)
            kinds = {kind for stock in stocks.values() for kind in stock.has}
            kinds |= {kind for each in wanted for amounts in each.resources.values() for kind in amounts}
            if unknown := unknown_class(tx, kinds):
                raise Invalid(f"malformed reshaper data: {unknown}")
            for uuid, stock in stocks.items():
                refuse_small(providers[uuid], stock.has, 0, "malformed reshaper data: Unable to update inventory")
            ids = [providers[uuid].id for uuid in stocks]
            tx.inventories.of({*ids, *(each.provider_id for each in held)}, lock=True)
            tx.inventories.put({providers[uuid].id: stock.has for uuid, stock in stocks.items()})
            ledger.rewrite(tx, wanted, held, ledger.ids(providers))
            have = tx.inventories.of(ids)
            for uuid, stock in stocks.items():
                refuse_used(providers[uuid], have[providers[uuid].id], stock.has, "update conflict: ")
            tx.inventories.drop(
                (providers[uuid].id, kind)
                for uuid, stock in stocks.items()
                for kind in have[providers[uuid].id].keys() - stock.has.keys()
            )
            counts = ledger.written(wanted, held, ledger.ids(providers))
            counts += Counter({providers[uuid].id: 2 if stock.has else 1 for uuid, stock in stocks.items()})
            tx.providers.bump(counts, now)


def _refuse_stale(stocks: Mapping[str, NewStock], providers: Mapping[str, Provider]) -> None:
    for uuid, stock in stocks.items():
        if uuid not in providers:
            raise UnknownProvider(
                f"Resource provider {uuid} in inventories not found: No resource provider with uuid {uuid} found"
            )
        actual = providers[uuid].generation
        if stock.generation != actual:
            raise ConcurrentUpdate(f"{CONFLICT} for provider {uuid}: actual: {actual}, given: {stock.generation}")
