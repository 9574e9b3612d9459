"""Standard and custom resource classes."""

from dataclasses import dataclass
from datetime import datetime

from covey.model.access import Actor
from covey.model.errors import Conflict, Invalid, NotFound
from covey.model.vocabulary import STANDARD_CLASSES
from covey.ports import Access, Clock
from covey.services.placement.generations import retry_on_conflict
from covey.storage.store import Store, Transaction

_RULE = "placement:resource_classes:"


@dataclass(frozen=True, slots=True)
class ResourceClasses:
    """Operations on resource classes."""

    store: Store
    access: Access
    clock: Clock

    def all(self, actor: Actor) -> list[str]:
        """Return the standard classes, then the custom ones."""
        self.access.require(actor, f"{_RULE}list")
        with self.store.read() as tx:
            return [*STANDARD_CLASSES, *tx.resource_classes.custom()]

    def show(self, actor: Actor, name: str) -> datetime | None:
        """Return when a custom class was created; None for a standard one. Raises NotFound."""
        self.access.require(actor, f"{_RULE}show")
        with self.store.read() as tx:
            return _get_created_at(tx, name)

    def require_create(self, actor: Actor) -> None:
        """Raise Forbidden, before the request body is read."""
        self.access.require(actor, f"{_RULE}create")

    def create(self, actor: Actor, name: str) -> None:
        """Raises Conflict when the class exists."""
        self.require_create(actor)
        if not self._add(name):
            raise Conflict(f"Conflicting resource class already exists: {name}")

    def ensure(self, actor: Actor, name: str) -> bool:
        """Create the class if it does not exist. Return whether it is new."""
        self.access.require(actor, f"{_RULE}update")
        return self._add(name)

    def require_rename(self, actor: Actor) -> None:
        """Raise Forbidden, before the request body is read."""
        self.access.require(actor, f"{_RULE}update")

    def rename(self, actor: Actor, name: str, new: str) -> None:
        """Raises NotFound, Invalid for a standard class, and Conflict when the name is taken."""
        self.require_rename(actor)

        def attempt() -> None:
            with self.store.write() as tx:
                _get_created_at(tx, name)
                if name in STANDARD_CLASSES:
                    raise Invalid(f"Cannot update standard resource class {name}")
                if new == name:
                    return
                if tx.resource_classes.known([new]):
                    raise Conflict(f"Resource class already exists: {new}")
                tx.resource_classes.rename(name, new)
                tx.quotas.rename_class(name, new)

        retry_on_conflict(attempt)

    def delete(self, actor: Actor, name: str) -> None:
        """Raises NotFound, Invalid for a standard class, and Conflict while a provider has an inventory of it."""
        self.access.require(actor, f"{_RULE}delete")
        with self.store.write() as tx:
            _get_created_at(tx, name)
            if name in STANDARD_CLASSES:
                raise Invalid(f"Error in delete resource class: Cannot delete standard resource class {name}.")
            if not tx.resource_classes.delete(name):
                raise Conflict(
                    f"Error in delete resource class: Cannot delete resource class {name}. "
                    "Class is in use in inventory."
                )
            tx.quotas.drop_class(name)

    def _add(self, name: str) -> bool:
        with self.store.write() as tx:
            return tx.resource_classes.add(name, self.clock())


def _get_created_at(tx: Transaction, name: str) -> datetime | None:
    if name in STANDARD_CLASSES:
        return None
    found = tx.resource_classes.custom([name])
    if name not in found:
        raise NotFound(f"No such resource class {name}.")
    return found[name]
