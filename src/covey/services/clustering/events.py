"""Events: looking at what happened to clusters and nodes."""

from dataclasses import dataclass

from covey.model.access import Actor, Target
from covey.model.clustering.events import Event
from covey.model.clustering.listing import Listing
from covey.ports import Access
from covey.services.clustering.finding import allowed
from covey.services.clustering.visibility import listing_seen, project_seen
from covey.storage.store import Store

_RULE = "events:"


@dataclass(frozen=True, slots=True)
class Events:
    """What can be asked about events."""

    store: Store
    access: Access

    def page(self, actor: Actor, wanted: Listing) -> list[Event]:
        """Some of those that the actor may see. Raises Forbidden."""
        self.access.require(actor, f"{_RULE}index", Target(project_id=actor.project_id))
        with self.store.read() as tx:
            return tx.clustering.events.page(listing_seen(self.access, actor, wanted))

    def get(self, actor: Actor, key: str) -> Event:
        """Raises NotFound, Ambiguous."""
        with self.store.read() as tx:
            found = tx.clustering.events.one(key, project_seen(self.access, actor))
            return allowed(self.access, actor, f"{_RULE}get", "event", key, found)
