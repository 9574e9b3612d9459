"""Taking what callers ask for: from then on an action is a row with a lock and a job, and workers do the rest."""

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

# These do not mind that somebody works on the target: a deletion ends that first, an operation waits for its end.
_PATIENT = frozenset({Verb.CLUSTER_DELETE, Verb.NODE_DELETE, Verb.NODE_OPERATION, Verb.CLUSTER_OPERATION})
_IMPATIENT_WITH_OTHERS = frozenset({Verb.CLUSTER_DELETE, Verb.NODE_DELETE})


@dataclass(frozen=True, slots=True)
class Requests:
    """Makes actions."""

    clock: Clock
    new_uuid: NewUuid
    timeout_s: int = 3600  # of actions on nodes that are in no cluster

    def accept(
        self, tx: Transaction, actor: Actor, verb: Verb, target: Cluster | Node, inputs: Document, name: str = ""
    ) -> Action:
        """An action that will be done. Raises Locked when somebody works on the target, ActionConflict when one waits.

        It belongs to the target's project, and is done with the roles of whoever asked.
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
        if not grab(tx, action):
            if verb not in _PATIENT:
                kind = "cluster" if isinstance(target, Cluster) else "node"
                raise Locked(f"{verb} for {kind} '{target.id}' cannot be completed because it is already locked.")
            if verb in _IMPATIENT_WITH_OTHERS:
                self._end_others(tx, action)
        elif verb not in _PATIENT:
            _refuse_second(tx, action)
        tx.work.add(JobKind.CLUSTER_ACTION, action.id, action.created_at)
        return action

    def cancel(self, tx: Transaction, action: Action) -> None:
        """Have an action end soon; what it has begun is brought to an end first."""
        tx.clustering.actions.update([replace(action, to_be_cancelled=True, updated_at=self.clock())])
        tx.work.finish(JobKind.CLUSTER_ACTION, [action.id])
        tx.work.add(JobKind.CLUSTER_ACTION, action.id, self.clock())

    def _end_others(self, tx: Transaction, action: Action) -> None:
        for holder in sorted(set(_in_the_way(tx, action))):
            found = tx.clustering.actions.lock(holder)
            if found is not None and not found.to_be_cancelled:
                self.cancel(tx, found)


def grab(tx: Transaction, action: Action) -> bool:
    """Take the lock that an action needs, if it can be had. The caller holds the rows of its cluster and its node."""
    if action.id in _held(tx, action).values():
        return True
    if _in_the_way(tx, action):
        return False
    cluster = None if action.verb.is_for_cluster else action.cluster_id
    tx.clustering.locks.take([action.target], cluster, action.id)
    return True


def _refuse_second(tx: Transaction, action: Action) -> None:
    """Raises ActionConflict when something is to be done to the target that was asked for before."""
    others = [other.id for other in tx.clustering.actions.under_way(action.target) if other.id != action.id]
    if others:
        message = f"The {action.verb} action for target {action.target} conflicts with the following action(s): "
        raise ActionConflict(message + ",".join(others))


def _held(tx: Transaction, action: Action) -> dict[str, str]:
    """Who holds the target, or something that it is part of, or that is part of it."""
    held = dict(tx.clustering.locks.holders(action.target))
    if not action.verb.is_for_cluster and action.cluster_id is not None:
        whole = tx.clustering.locks.holders(action.cluster_id).get(action.cluster_id)
        held |= {} if whole is None else {action.cluster_id: whole}
    return held


def _in_the_way(tx: Transaction, action: Action) -> list[str]:
    return [holder for holder in _held(tx, action).values() if holder != action.id]
