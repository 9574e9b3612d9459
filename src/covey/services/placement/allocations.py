"""Allocations: who holds how much of which provider."""

from collections.abc import Sequence
from dataclasses import dataclass

from covey.model.access import Actor
from covey.model.allocations import Holding, Wanted
from covey.model.errors import Invalid, NotFound
from covey.model.providers import Provider
from covey.ports import Access, Clock, Store, Transaction
from covey.services.placement import ledger
from covey.services.placement.finding import existing, retried
from covey.services.placement.inventories import unknown_class

_RULE = "placement:allocations:"


@dataclass(frozen=True, slots=True)
class Allocations:
    """What can be done with allocations."""

    store: Store
    access: Access
    clock: Clock

    def of_consumer(self, actor: Actor, consumer: str) -> Holding | None:
        """All that a consumer holds; None when that is nothing."""
        self.access.require(actor, f"{_RULE}list")
        with self.store.read() as tx:
            found = tx.allocations.holdings([consumer])
        return found[0] if found else None

    def of_provider(self, actor: Actor, uuid: str) -> tuple[Provider, list[Holding]]:
        """Everybody who holds something of a provider. Raises NotFound."""
        self.access.require(actor, "placement:resource_providers:allocations:list")
        with self.store.read() as tx:
            provider = existing(tx, uuid)
            return provider, tx.allocations.on(provider.id)

    def replace(self, actor: Actor, wanted: Wanted) -> None:
        """A consumer holds this from now on. Raises Invalid, Conflict, ConcurrentUpdate."""
        self.access.require(actor, f"{_RULE}update")
        retried(lambda: self._write([wanted]))

    def replace_many(self, actor: Actor, wanted: Sequence[Wanted]) -> None:
        """The same for many consumers, all or none."""
        self.access.require(actor, f"{_RULE}manage")
        retried(lambda: self._write(wanted))

    def delete(self, actor: Actor, consumer: str) -> None:
        """A consumer holds nothing from now on. Raises NotFound."""
        self.access.require(actor, f"{_RULE}delete")

        def attempt() -> None:
            with self.store.write() as tx:
                found = tx.allocations.find([consumer], lock=True)
                held = tx.allocations.of([consumer])
                if not found or not held:
                    message = f"No allocations for consumer '{consumer}'"
                    raise NotFound(message)
                tx.allocations.take(sorted((each.provider_id, each.resource_class, -each.used) for each in held))
                tx.allocations.forget([consumer])

        retried(attempt)

    def _write(self, wanted: Sequence[Wanted]) -> None:
        with self.store.write() as tx:
            now_is = tx.allocations.open(wanted)
            ledger.refuse_stale(now_is.generations, wanted)
            ledger.refuse_unknown(now_is.providers, wanted)
            _refuse_unknown_classes(tx, wanted)
            now = self.clock()
            changed = ledger.rewrite(tx, wanted, now_is.held, now_is.providers, now, now_is.stocks)
            tx.providers.bump(changed, now)


def _refuse_unknown_classes(tx: Transaction, wanted: Sequence[Wanted]) -> None:
    unknown = unknown_class(tx, {kind for each in wanted for amounts in each.resources.values() for kind in amounts})
    if unknown:
        whom = f" for consumer {wanted[0].consumer}:" if len(wanted) == 1 else ""
        message = f"Unable to allocate inventory{whom} {unknown}"
        raise Invalid(message)
