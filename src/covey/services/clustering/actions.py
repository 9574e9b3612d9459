"""Actions: looking at what is done to clusters and nodes, and calling it off."""

from dataclasses import dataclass

from covey.model.access import Actor, Target
from covey.model.clustering.actions import Action, ActionStatus, Cause
from covey.model.clustering.errors import Immutable
from covey.model.clustering.listing import Listing
from covey.ports import Access
from covey.services.clustering.finding import allowed
from covey.services.clustering.requests import Requests
from covey.services.clustering.visibility import listing_seen, project_seen
from covey.storage.store import Store

_RULE = "actions:"
_CANCELLABLE = (
    ActionStatus.INIT,
    ActionStatus.WAITING,
    ActionStatus.READY,
    ActionStatus.RUNNING,
    ActionStatus.WAITING_LIFECYCLE_COMPLETION,
)
_SHORT = 8  # letters of an id in a message


@dataclass(frozen=True, slots=True)
class Actions:
    """What can be done with actions."""

    store: Store
    access: Access
    requests: Requests

    def page(self, actor: Actor, wanted: Listing) -> list[Action]:
        """Some of those that the actor may see. Raises Forbidden."""
        self.access.require(actor, f"{_RULE}index", Target(project_id=actor.project_id))
        with self.store.read() as tx:
            return tx.clustering.actions.page(listing_seen(self.access, actor, wanted))

    def get(self, actor: Actor, key: str) -> Action:
        """Raises NotFound, Ambiguous."""
        with self.store.read() as tx:
            found = tx.clustering.actions.one(key, project_seen(self.access, actor))
            return allowed(self.access, actor, f"{_RULE}get", "action", key, found)

    def cancel(self, actor: Actor, key: str, *, force: bool) -> None:
        """Have it end soon; a forced one keeps nobody waiting for that. Raises Immutable when it is over."""
        with self.store.write() as tx:
            found = tx.clustering.actions.one(key, project_seen(self.access, actor))
            if found is not None:
                if found.cluster_id is not None:
                    tx.clustering.clusters.lock(found.cluster_id)
                found = tx.clustering.actions.lock(found.id)
            action = allowed(self.access, actor, f"{_RULE}update", "action", key, found)
            if action.cause is Cause.DERIVED:
                raise Immutable(
                    f"Action ({action.id[:_SHORT]}) is part of the action ({action.parent_id}): cancel that one."
                )
            if force:
                tx.clustering.locks.free(action.id)
            else:
                _refuse_over(action)
            if not action.is_over:
                self.requests.cancel(tx, action)


def _refuse_over(action: Action) -> None:
    if action.status not in _CANCELLABLE:
        expected = ", ".join(_CANCELLABLE)
        raise Immutable(
            f"Action ({action.id[:_SHORT]}) is in status ({action.status}) while expected status must be one of "
            f"({expected})."
        )
