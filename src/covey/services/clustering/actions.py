"""Actions: list, show, cancel."""

from dataclasses import dataclass

from covey.model.access import Actor, Target
from covey.model.clustering.actions import Action, ActionStatus, Cause
from covey.model.clustering.errors import Immutable
from covey.model.clustering.paging import PageQuery
from covey.ports import Access
from covey.services.clustering.dispatcher import Dispatcher
from covey.services.clustering.lookup import require_access, visible_page, visible_project
from covey.storage.store import Store

_RULE = "actions:"
_CANCELLABLE = (
    ActionStatus.INIT,
    ActionStatus.WAITING,
    ActionStatus.READY,
    ActionStatus.RUNNING,
    ActionStatus.WAITING_LIFECYCLE_COMPLETION,
)
_SHORT_ID = 8  # characters of an id in a message


@dataclass(frozen=True, slots=True)
class Actions:
    """Requests about actions."""

    store: Store
    access: Access
    dispatcher: Dispatcher

    def page(self, actor: Actor, query: PageQuery) -> list[Action]:
        """Return a page of those that the actor may see. Raises Forbidden."""
        self.access.require(actor, f"{_RULE}index", Target(project_id=actor.project_id))
        with self.store.read() as tx:
            return tx.clustering.actions.page(visible_page(self.access, actor, query))

    def get(self, actor: Actor, key: str) -> Action:
        """Raises NotFound, Ambiguous, Forbidden."""
        with self.store.read() as tx:
            found = tx.clustering.actions.one(key, visible_project(self.access, actor))
            return require_access(self.access, actor, f"{_RULE}get", "action", key, found)

    def cancel(self, actor: Actor, key: str, *, force: bool) -> None:
        """Cancel an action; with `force`, release its lock at once. Raises Immutable when it is finished."""
        with self.store.write() as tx:
            found = tx.clustering.actions.one(key, visible_project(self.access, actor))
            if found is not None:
                if found.cluster_id is not None:
                    tx.clustering.clusters.lock(found.cluster_id)
                found = tx.clustering.actions.lock(found.id)
            action = require_access(self.access, actor, f"{_RULE}update", "action", key, found)
            if action.cause is Cause.DERIVED:
                raise Immutable(
                    f"Action ({action.id[:_SHORT_ID]}) is a child of the action ({action.parent_id}): cancel that one."
                )
            if force:
                tx.clustering.locks.release(action.id)
            else:
                _reject_finished(action)
            if not action.is_finished:
                self.dispatcher.cancel_action(tx, action)


def _reject_finished(action: Action) -> None:
    if action.status not in _CANCELLABLE:
        expected = ", ".join(_CANCELLABLE)
        raise Immutable(
            f"Action ({action.id[:_SHORT_ID]}) is in status ({action.status}) while expected status must be one of "
            f"({expected})."
        )
