"""The aggregates that resource providers are in. An aggregate is a uuid; that it was named makes it exist."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from covey.model.access import Actor
from covey.model.providers import Provider
from covey.ports import Access, Clock
from covey.services.placement.finding import CHANGED, existing, expect, retried
from covey.storage.store import Store

_RULE = "placement:resource_providers:aggregates:"


@dataclass(frozen=True, slots=True)
class ProviderAggregates:
    """What can be done with the aggregates of a provider."""

    store: Store
    access: Access
    clock: Clock

    def all(self, actor: Actor, uuid: str) -> tuple[Provider, list[str]]:
        """Raises NotFound."""
        self.access.require(actor, f"{_RULE}list")
        with self.store.read() as tx:
            provider = existing(tx, uuid)
            return provider, tx.providers.aggregates(provider.id)

    def may_replace(self, actor: Actor, uuid: str) -> None:
        """Raises Forbidden, NotFound."""
        self.access.require(actor, f"{_RULE}update")
        with self.store.read() as tx:
            existing(tx, uuid)

    def replace(self, actor: Actor, uuid: str, generation: int | None, uuids: Collection[str]) -> Provider:
        """Puts a provider into these and no others; without a generation none is counted. Raises NotFound."""
        self.access.require(actor, f"{_RULE}update")

        def attempt() -> Provider:
            with self.store.write() as tx:
                provider = existing(tx, uuid, lock=True)
                expect(provider, generation, CHANGED)
                tx.providers.set_aggregates(provider.id, uuids)
                if generation is None:
                    return provider
                tx.providers.bump({provider.id: 1}, self.clock())
                return replace(provider, generation=provider.generation + 1)

        return retried(attempt)
