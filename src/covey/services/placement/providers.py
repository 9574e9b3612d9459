"""Resource providers and provider trees."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from covey.model.access import Actor
from covey.model.errors import Conflict, DuplicateName, Invalid, ProviderHasChildren, ProviderInUse, TransactionConflict
from covey.model.providers import Provider, ProviderFilter
from covey.ports import Access, Clock, NewUuid
from covey.services.placement.generations import get_provider, retry_on_conflict
from covey.storage.store import Store, Transaction

_RULE = "placement:resource_providers:"


@dataclass(frozen=True, slots=True)
class NewProvider:
    """A provider to create; without a uuid it gets a new one."""

    name: str
    uuid: str | None = None
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class ProviderChange:
    """The new name and parent of a provider. Old microversions may only set the parent of a root."""

    name: str
    has_parent: bool = False  # whether the request sets the parent, possibly to None
    parent: str | None = None
    may_move: bool = False


@dataclass(frozen=True, slots=True)
class Providers:
    """Operations on resource providers."""

    store: Store
    access: Access
    clock: Clock
    new_uuid: NewUuid

    def find(self, actor: Actor, filters: ProviderFilter) -> list[Provider]:
        """Return the providers that match the filters. Raises Invalid for unknown classes and traits."""
        self.access.require(actor, f"{_RULE}list")
        with self.store.read() as tx:
            _check_names(tx, filters)
            return tx.providers.find(filters)

    def show(self, actor: Actor, uuid: str) -> Provider:
        """Raises NotFound."""
        self.access.require(actor, f"{_RULE}show")
        with self.store.read() as tx:
            return get_provider(tx, uuid)

    def require_create(self, actor: Actor) -> None:
        """Raise Forbidden, before the request body is read."""
        self.access.require(actor, f"{_RULE}create")

    def create(self, actor: Actor, new: NewProvider) -> Provider:
        """Raises Invalid for a bad parent, DuplicateName when the name or uuid is taken."""
        self.require_create(actor)
        uuid = new.uuid or self.new_uuid()
        refusal = f'Unable to create resource provider "{new.name}", {uuid}: Object action create failed because: '

        def attempt() -> Provider:
            with self.store.write() as tx:
                _require_name(new.name, refusal)
                parent = _parent(tx, new.parent, uuid, refusal)
                _reject_duplicates(tx, new.name, uuid)
                tx.providers.add(uuid, new.name, parent, self.clock())
                return get_provider(tx, uuid)

        return retry_on_conflict(attempt)

    def require_change(self, actor: Actor) -> None:
        """Raise Forbidden, before the request body is read."""
        self.access.require(actor, f"{_RULE}update")

    def change(self, actor: Actor, uuid: str, change: ProviderChange) -> Provider:
        """Rename a provider, or move it and its subtree. Raises NotFound, Invalid, Conflict, DuplicateName."""
        self.require_change(actor)
        refusal = f"Unable to save resource provider {uuid}: Object action update failed because: "

        def attempt() -> Provider:
            with self.store.write() as tx:
                provider = get_provider(tx, uuid)
                _require_name(change.name, refusal)
                if change.has_parent and change.parent != provider.parent_uuid:
                    _move(tx, provider, change, refusal)
                if change.name != provider.name:
                    _reject_rename_of_host(provider)
                tx.providers.rename(provider, change.name, self.clock())
                return get_provider(tx, uuid)

        return retry_on_conflict(attempt)

    def delete(self, actor: Actor, uuid: str) -> None:
        """Raises NotFound, ProviderHasChildren, ProviderInUse."""
        self.access.require(actor, f"{_RULE}delete")

        def attempt() -> None:
            with self.store.write() as tx:
                provider = get_provider(tx, uuid, lock=True, reason=" for delete")
                if tx.providers.has_children(provider.id):
                    raise ProviderHasChildren(
                        f"Unable to delete parent resource provider {uuid}: It has child resource providers."
                    )
                if provider.is_host:
                    raise ProviderInUse(f"Unable to delete resource provider {uuid}: It is the host {provider.name}.")
                if any(has.used for has in tx.inventories.of([provider.id], lock=True)[provider.id].values()):
                    raise ProviderInUse(
                        f"Unable to delete resource provider {uuid}: Resource provider has allocations."
                    )
                tx.providers.delete(provider.id)

        retry_on_conflict(attempt)


def _check_names(tx: Transaction, filters: ProviderFilter) -> None:
    unknown = sorted(filters.resources.keys() - tx.resource_classes.known(filters.resources))
    if unknown:
        raise Invalid(f"Invalid resource class in resources parameter: No such resource class {unknown[0]}.")
    traits = filters.forbidden.union(*filters.required)
    unknown = sorted(traits - tx.traits.known(traits))
    if unknown:
        raise Invalid(f'Invalid trait(s) in "required" parameter: No such trait(s): {", ".join(unknown)}.')


def _require_name(name: str, refusal: str) -> None:
    if not name:
        raise Invalid(f"{refusal}name is required")


def _reject_duplicates(tx: Transaction, name: str, uuid: str) -> None:
    taken = f"uuid: {uuid}" if tx.providers.by_uuid(uuid) else ""
    if not taken and tx.providers.find(ProviderFilter(name=name)):
        taken = f"name: {name}"
    if taken:
        raise DuplicateName(f"Conflicting resource provider {taken} already exists.")


def _reject_rename_of_host(provider: Provider) -> None:
    if provider.is_host:
        raise Conflict(
            f"Resource provider {provider.uuid} is the host {provider.name}; the name of a host can't change."
        )


def _parent(tx: Transaction, parent: str | None, uuid: str, refusal: str) -> Provider | None:
    """Return the parent with its row locked, so that it does not move. Raises Invalid."""
    if parent is None:
        return None
    if parent == uuid:
        raise Invalid(
            f"{refusal}parent provider UUID cannot be same as UUID. "
            "Please set parent provider UUID to None if there is no parent."
        )
    found = tx.providers.by_uuid(parent, lock=True)
    if found is None:
        raise Invalid(f"{refusal}parent provider UUID does not exist.")
    return found


def _move(tx: Transaction, provider: Provider, change: ProviderChange, refusal: str) -> None:
    """Raise Invalid for a bad parent, and TransactionConflict when a tree changed before it was locked."""
    parent = tx.providers.by_uuid(change.parent) if change.parent is not None else None
    if change.parent is not None and parent is None:
        raise Invalid(f"{refusal}parent provider UUID does not exist.")
    if provider.parent_id is not None and not change.may_move:
        raise Invalid(f"{refusal}{'re' if parent else 'un'}-parenting a provider is not currently allowed.")
    if provider.is_host:
        raise Conflict(f"Resource provider {provider.uuid} is the host {provider.name}; a host can't have a parent.")
    roots = {node.root_id for node in (provider, parent) if node}
    locked = tx.providers.trees(roots, lock=True)
    current = tx.providers.trees(roots)
    if {_position(node) for node in locked} != {_position(node) for node in current} or not {
        _position(node) for node in (provider, parent) if node
    } <= {_position(node) for node in current}:
        raise TransactionConflict(
            "Another request changed the tree of the resource provider. Read it again, then retry."
        )
    descendants = _descendants(provider, current)
    if parent is not None and parent.id in {provider.id, *descendants}:
        raise Invalid(f"{refusal}creating loop in the provider tree is not allowed.")
    tx.providers.move(provider.id, parent, descendants)


def _position(provider: Provider) -> tuple[int, int | None, int]:
    return provider.id, provider.parent_id, provider.root_id


def _descendants(provider: Provider, tree: Sequence[Provider]) -> list[int]:
    """Return the ids of a provider's descendants."""
    children: dict[int | None, list[int]] = defaultdict(list)
    for node in tree:
        children[node.parent_id].append(node.id)
    found: list[int] = []
    level = children[provider.id]
    while level:
        found += level
        level = [child for parent in level for child in children[parent]]
    return found
