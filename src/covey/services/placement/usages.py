"""How much is in use: of a provider, and by a project."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from covey.model.access import Actor, Target
from covey.model.allocations import Usage
from covey.model.providers import Provider
from covey.ports import Access
from covey.services.placement.finding import existing
from covey.storage.store import Store

ALL, UNKNOWN = "all", "unknown"  # any kind of consumers; those whose kind nobody told


@dataclass(frozen=True, slots=True)
class Usages:
    """What can be asked about use."""

    store: Store
    access: Access

    def of_provider(self, actor: Actor, uuid: str) -> tuple[Provider, Mapping[str, int]]:
        """What is used of each class that a provider has. Raises NotFound."""
        self.access.require(actor, "placement:resource_providers:usages")
        with self.store.read() as tx:
            provider = existing(tx, uuid)
            has = tx.inventories.of([provider.id])[provider.id]
        return provider, {kind: inventory.used for kind, inventory in has.items()}

    def may_ask(self, actor: Actor, project: str | None) -> None:
        """Raises Forbidden unless the actor may know what the project uses."""
        self.access.require(actor, "placement:usages", Target(project_id=project))

    def of_project(self, actor: Actor, project: str, user: str | None = None) -> Usage:
        """What a project, or one user of it, uses in all."""
        found = self._by_kind(actor, project, user)
        amounts: Counter[str] = Counter()
        for usage in found.values():
            amounts.update(usage.amounts)
        return Usage(sum(usage.count for usage in found.values()), amounts)

    def by_kind(self, actor: Actor, project: str, user: str | None, kind: str | None) -> dict[str, Usage]:
        """The same by the kind of the consumers, or of one kind; nothing where nothing is used."""
        if kind == ALL:
            usage = self.of_project(actor, project, user)
            return {ALL: usage} if usage.count else {}
        found = {name or UNKNOWN: usage for name, usage in self._by_kind(actor, project, user).items()}
        return found if kind is None else {name: usage for name, usage in found.items() if name == kind}

    def _by_kind(self, actor: Actor, project: str, user: str | None) -> Mapping[str | None, Usage]:
        self.may_ask(actor, project)
        with self.store.read() as tx:
            return tx.allocations.usages(project, user)
