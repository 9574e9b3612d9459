"""Events: list, show."""

from dataclasses import dataclass

from covey.model.access import Actor, Target
from covey.model.clustering.events import Event
from covey.model.clustering.paging import PageQuery
from covey.ports import Access
from covey.services.clustering.lookup import require_access, visible_page, visible_project
from covey.storage.store import Store

_RULE = "events:"


@dataclass(frozen=True, slots=True)
class Events:
    """Requests about events."""

    store: Store
    access: Access

    def page(self, actor: Actor, query: PageQuery) -> list[Event]:
        """Return a page of those that the actor may see. Raises Forbidden."""
        self.access.require(actor, f"{_RULE}index", Target(project_id=actor.project_id))
        with self.store.read() as tx:
            return tx.clustering.events.page(visible_page(self.access, actor, query))

    def get(self, actor: Actor, key: str) -> Event:
        """Raises NotFound, Ambiguous, Forbidden."""
        with self.store.read() as tx:
            found = tx.clustering.events.one(key, visible_project(self.access, actor))
            return require_access(self.access, actor, f"{_RULE}get", "event", key, found)
