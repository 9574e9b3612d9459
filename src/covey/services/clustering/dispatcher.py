"""The dispatcher: turns a request into an action with a lock and a job. Workers execute it."""

from dataclasses import dataclass, replace

from covey.model.access import Actor
from covey.model.clustering.actions import Action, Verb, action_name
from covey.model.clustering.clusters import Cluster, Node
from covey.model.clustering.errors import ActionConflict, Locked
from covey.model.clustering.owners import Owner
from covey.model.clustering.specs import Document
from covey.model.work import JobKind
from covey.ports import Clock, NewUuid
from covey.storage.store import Transaction

# Accepted while the target is locked: a deletion cancels the holder of the lock, an operation waits for its end.
_WAIT_FOR_LOCK = frozenset({Verb.CLUSTER_DELETE, Verb.NODE_DELETE, Verb.NODE_OPERATION, Verb.CLUSTER_OPERATION})
_CANCEL_HOLDER = frozenset({Verb.CLUSTER_DELETE, Verb.NODE_DELETE})


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """Creates and cancels actions."""

    clock: Clock
    new_uuid: NewUuid
    timeout_s: int = 3600  # of actions on orphan nodes

    def start_action(
        self, tx: Transaction, actor: Actor, verb: Verb, target: Cluster | Node, inputs: Document, name: str = ""
    ) -> Action:
        """Store an action that belongs to the target's project and runs with the actor's roles.

        Raises Locked when another action holds the target's lock, ActionConflict when one waits for it.
        """
        cluster_id = target.id if isinstance(target, Cluster) else target.cluster_id
        cluster = None if cluster_id is None else tx.clustering.clusters.lock(cluster_id)
        if isinstance(target, Node):
            tx.clustering.nodes.by_ids([target.id], lock=True)
        action = Action(
            id=self.new_uuid(),
            name=name or action_name(verb, target.id),
            verb=verb,
            target=target.id,
            owner=Owner(actor.user_id, target.owner.project_id),
            created_at=self.clock(),
            cluster_id=cluster_id,
            roles=actor.roles,
            inputs=inputs,
            timeout=self.timeout_s if cluster is None else cluster.timeout,
        )
        tx.clustering.actions.add([action])
        if not acquire_lock(tx, action):
            if verb not in _WAIT_FOR_LOCK:
                kind = "cluster" if isinstance(target, Cluster) else "node"
                raise Locked(f"{verb} for {kind} '{target.id}' cannot be completed because it is already locked.")
            if verb in _CANCEL_HOLDER:
                self._cancel_holders(tx, action)
        elif verb not in _WAIT_FOR_LOCK:
            _reject_second(tx, action)
        tx.work.add(JobKind.CLUSTER_ACTION, action.id)
        return action

    def cancel_action(self, tx: Transaction, action: Action) -> None:
        """Mark an action for cancellation and make its job due; started children are finished first."""
        tx.clustering.actions.update([replace(action, to_be_cancelled=True, updated_at=self.clock())])
        tx.work.finish(JobKind.CLUSTER_ACTION, [action.id])
        tx.work.add(JobKind.CLUSTER_ACTION, action.id)

    def _cancel_holders(self, tx: Transaction, action: Action) -> None:
        for holder in sorted(set(_conflicting_holders(tx, action))):
            found = tx.clustering.actions.lock(holder)
            if found is not None and not found.to_be_cancelled:
                self.cancel_action(tx, found)


def acquire_lock(tx: Transaction, action: Action) -> bool:
    """Return whether the action holds its target's lock now. The caller has locked the cluster's and node's rows."""
    if action.id in _holders(tx, action).values():
        return True
    if _conflicting_holders(tx, action):
        return False
    cluster = None if action.verb.is_for_cluster else action.cluster_id
    tx.clustering.locks.acquire([action.target], cluster, action.id)
    return True


def _reject_second(tx: Transaction, action: Action) -> None:
    """Raises ActionConflict when an earlier action on the target is unfinished."""
    others = [other.id for other in tx.clustering.actions.unfinished(action.target) if other.id != action.id]
    if others:
        raise ActionConflict(
            f"The {action.verb} action for target {action.target} conflicts with the following action(s): "
            f"{','.join(others)}"
        )


def _holders(tx: Transaction, action: Action) -> dict[str, str]:
    """Return the actions that hold the target, its cluster or its nodes."""
    holders = dict(tx.clustering.locks.holders(action.target))
    if not action.verb.is_for_cluster and action.cluster_id is not None:
        cluster_holder = tx.clustering.locks.holders(action.cluster_id).get(action.cluster_id)
        holders |= {} if cluster_holder is None else {action.cluster_id: cluster_holder}
    return holders


def _conflicting_holders(tx: Transaction, action: Action) -> list[str]:
    return [holder for holder in _holders(tx, action).values() if holder != action.id]
