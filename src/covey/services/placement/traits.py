"""Standard and custom traits, and the traits of resource providers."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime

from covey.model.access import Actor
from covey.model.errors import Conflict, Invalid, NotFound
from covey.model.providers import Provider
from covey.model.vocabulary import CUSTOM_NAME, STANDARD_TRAITS
from covey.ports import Access, Clock
from covey.services.placement.generations import CHANGED, check_generation, get_provider, retry_on_conflict
from covey.storage.store import Store

_RULE, _OF_PROVIDER = "placement:traits:", "placement:resource_providers:traits:"


@dataclass(frozen=True, slots=True)
class TraitFilter:
    """The filters of a trait listing."""

    names: frozenset[str] | None = None
    prefix: str = ""
    associated: bool | None = None  # whether any provider has the trait


@dataclass(frozen=True, slots=True)
class Traits:
    """Operations on traits."""

    store: Store
    access: Access
    clock: Clock

    def find(self, actor: Actor, filters: TraitFilter) -> list[str]:
        """Return the traits that match the filters, sorted by name."""
        self.access.require(actor, f"{_RULE}list")
        with self.store.read() as tx:
            names = STANDARD_TRAITS | tx.traits.custom().keys()
            if filters.associated is not None:
                used = tx.traits.in_use()
                names = names & used if filters.associated else names - used
        if filters.names is not None:
            names &= filters.names
        return sorted(name for name in names if name.startswith(filters.prefix))

    def show(self, actor: Actor, name: str) -> datetime | None:
        """Return when a custom trait was created; None for a standard one. Raises NotFound."""
        self.access.require(actor, f"{_RULE}show")
        if name in STANDARD_TRAITS:
            return None
        with self.store.read() as tx:
            found = tx.traits.custom([name])
        if name not in found:
            raise NotFound(_no_such_trait(name))
        return found[name]

    def ensure(self, actor: Actor, name: str) -> bool:
        """Create the custom trait if it does not exist. Return whether it is new. Raises Invalid for a bad name."""
        self.access.require(actor, f"{_RULE}update")
        if not CUSTOM_NAME.fullmatch(name):
            raise Invalid(
                "The trait is invalid. A valid trait must be no longer than 255 characters, start with the "
                'prefix "CUSTOM_" and use following characters: "A"-"Z", "0"-"9" and "_"'
            )
        with self.store.write() as tx:
            return tx.traits.add_custom([name], self.clock())

    def delete(self, actor: Actor, name: str) -> None:
        """Raises Invalid for a standard trait, NotFound, and Conflict while a provider has it."""
        self.access.require(actor, f"{_RULE}delete")
        if name in STANDARD_TRAITS:
            raise Invalid(f"Cannot delete standard trait {name}.")
        with self.store.write() as tx:
            if name not in tx.traits.custom([name]):
                raise NotFound(_no_such_trait(name))
            if not tx.traits.delete_custom(name):
                raise Conflict(f"The trait {name} is in use by a resource provider.")

    def of_provider(self, actor: Actor, uuid: str) -> tuple[Provider, frozenset[str]]:
        """Raises NotFound."""
        self.access.require(actor, f"{_OF_PROVIDER}list")
        with self.store.read() as tx:
            provider = get_provider(tx, uuid)
            return provider, tx.traits.of(provider.id)

    def require_replace(self, actor: Actor) -> None:
        """Raise Forbidden, before the request body is read."""
        self.access.require(actor, f"{_OF_PROVIDER}update")

    def replace(self, actor: Actor, uuid: str, generation: int, names: Collection[str]) -> Provider:
        """Replace the traits of a provider. Raises NotFound, Invalid, ConcurrentUpdate."""
        self.require_replace(actor)
        return self._replace(uuid, generation, frozenset(names))

    def clear(self, actor: Actor, uuid: str) -> None:
        """Remove all traits of a provider. Raises NotFound."""
        self.access.require(actor, f"{_OF_PROVIDER}delete")
        self._replace(uuid, None, frozenset())

    def _replace(self, uuid: str, generation: int | None, names: frozenset[str]) -> Provider:
        def attempt() -> Provider:
            with self.store.write() as tx:
                provider = get_provider(tx, uuid, lock=True)
                check_generation(provider, generation, CHANGED)
                if unknown := sorted(names - tx.traits.known(names, lock=True)):
                    raise Invalid(f"No such trait {', '.join(unknown)}")
                if names == tx.traits.of(provider.id):
                    return provider
                tx.traits.replace(provider.id, names)
                tx.providers.bump({provider.id: 1}, self.clock())
                return replace(provider, generation=provider.generation + 1)

        return retry_on_conflict(attempt)


def _no_such_trait(name: str) -> str:
    return f"No such trait(s): {name}."
