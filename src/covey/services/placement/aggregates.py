"""The aggregates of resource providers. An aggregate is any uuid; no separate record of it exists."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from covey.model.access import Actor
from covey.model.providers import Provider
from covey.ports import Access, Clock
from covey.services.placement.generations import CHANGED, check_generation, get_provider, retry_on_conflict
from covey.storage.store import Store

_RULE = "placement:resource_providers:aggregates:"


@dataclass(frozen=True, slots=True)
class ProviderAggregates:
    """Operations on the aggregates of a provider."""

    store: Store
    access: Access
    clock: Clock

    def all(self, actor: Actor, uuid: str) -> tuple[Provider, list[str]]:
        """Raises NotFound."""
        self.access.require(actor, f"{_RULE}list")
        with self.store.read() as tx:
            provider = get_provider(tx, uuid)
            return provider, tx.providers.aggregates(provider.id)

    def require_replace(self, actor: Actor, uuid: str) -> None:
        """Raise Forbidden or NotFound, before the request body is read."""
        self.access.require(actor, f"{_RULE}update")
        with self.store.read() as tx:
            get_provider(tx, uuid)

    def replace(self, actor: Actor, uuid: str, generation: int | None, uuids: Collection[str]) -> Provider:
        """Replace the provider's aggregates. Without a generation, none is checked or incremented.

        Raises NotFound, ConcurrentUpdate.
        """
        self.access.require(actor, f"{_RULE}update")

        def attempt() -> Provider:
            with self.store.write() as tx:
                provider = get_provider(tx, uuid, lock=True)
                check_generation(provider, generation, CHANGED)
                tx.providers.set_aggregates(provider.id, uuids)
                if generation is None:
                    return provider
                tx.providers.bump({provider.id: 1}, self.clock())
                return replace(provider, generation=provider.generation + 1)

        return retry_on_conflict(attempt)
