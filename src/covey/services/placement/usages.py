"""Usages of providers and projects."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from covey.model.access import Actor, Target
from covey.model.allocations import Usage
from covey.model.providers import Provider
from covey.ports import Access
from covey.services.placement.generations import get_provider
from covey.storage.store import Store

ALL, UNKNOWN = "all", "unknown"  # all consumer types; consumers without a type


@dataclass(frozen=True, slots=True)
class Usages:
    """Queries of usages."""

    store: Store
    access: Access

    def of_provider(self, actor: Actor, uuid: str) -> tuple[Provider, Mapping[str, int]]:
        """Return the usage of each inventory of a provider. Raises NotFound."""
        self.access.require(actor, "placement:resource_providers:usages")
        with self.store.read() as tx:
            provider = get_provider(tx, uuid)
            has = tx.inventories.of([provider.id])[provider.id]
        return provider, {kind: inventory.used for kind, inventory in has.items()}

    def require_show(self, actor: Actor, project: str | None) -> None:
        """Raise Forbidden unless the actor may see the usages of the project."""
        self.access.require(actor, "placement:usages", Target(project_id=project))

    def of_project(self, actor: Actor, project: str, user: str | None = None) -> Usage:
        """Return the total usage of a project, or of one of its users."""
        found = self._by_kind(actor, project, user)
        amounts: Counter[str] = Counter()
        for usage in found.values():
            amounts.update(usage.amounts)
        return Usage(sum(usage.count for usage in found.values()), amounts)

    def by_kind(self, actor: Actor, project: str, user: str | None, kind: str | None) -> dict[str, Usage]:
        """Return the usage by consumer type, optionally of one type; types without consumers are left out."""
        if kind == ALL:
            usage = self.of_project(actor, project, user)
            return {ALL: usage} if usage.count else {}
        found = {name or UNKNOWN: usage for name, usage in self._by_kind(actor, project, user).items()}
        return found if kind is None else {name: usage for name, usage in found.items() if name == kind}

    def _by_kind(self, actor: Actor, project: str, user: str | None) -> Mapping[str | None, Usage]:
        self.require_show(actor, project)
        with self.store.read() as tx:
            return tx.allocations.usages(project, user)
