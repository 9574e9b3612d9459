"""Units of an action: what it does to one node after another. Each is a derived action, or the action itself."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from covey.model.clustering.actions import Action, ActionStatus, Cause, Verb, action_name
from covey.model.clustering.clusters import Node, NodeStatus
from covey.ports import NewUuid
from covey.services.clustering.engine.run import Ended, Later, Step
from covey.storage.store import Transaction

DONE = "Action completed successfully."
LOOK_AGAIN_S = 0.3  # while servers are on their way

NODE_IS = {
    Verb.NODE_CREATE: NodeStatus.CREATING,
    Verb.NODE_DELETE: NodeStatus.DELETING,
    Verb.NODE_UPDATE: NodeStatus.UPDATING,
    Verb.NODE_RECOVER: NodeStatus.RECOVERING,
    Verb.NODE_OPERATION: NodeStatus.OPERATING,
}
"""How a node is called while something is done to it."""


def derived(
    parent: Action, verb: Verb, nodes: Sequence[Node], new_uuid: NewUuid, now: datetime, *, begun: bool
) -> list[Action]:
    """One for each node, driven by the turns of their parent. What nobody began yet can still be cancelled."""
    return [
        Action(
            id=new_uuid(),
            name=action_name(verb, node.id),
            verb=verb,
            target=node.id,
            owner=parent.owner,
            created_at=now,
            cluster_id=parent.cluster_id,
            roles=parent.roles,
            cause=Cause.DERIVED,
            parent_id=parent.id,
            status=ActionStatus.RUNNING if begun else ActionStatus.READY,
            timeout=parent.timeout,
            started_at=now if begun else None,
            worker=parent.worker,
        )
        for node in nodes
    ]


def units_of(tx: Transaction, action: Action, *verbs: Verb) -> list[Action]:
    """What an action does to nodes by these verbs; an action on a node is a unit itself."""
    if not action.verb.is_for_cluster:
        return [action]
    return [unit for unit in tx.clustering.actions.of_parent(action.id) if unit.verb in verbs]


def wait(tx: Transaction, action: Action, told: str, now: datetime) -> None:
    """The action has begun, and waits for its units."""
    waiting = replace(action, status=ActionStatus.WAITING, status_reason=told, updated_at=now)
    tx.clustering.actions.update([waiting])


def begun(unit: Action, now: datetime) -> Action:
    """A unit that is being done."""
    return replace(unit, status=ActionStatus.RUNNING, started_at=now, updated_at=now)


def over(unit: Action, now: datetime, problem: str = "") -> Action:
    """A unit that is done; or is not, for that problem."""
    status = ActionStatus.FAILED if problem else ActionStatus.SUCCEEDED
    return replace(unit, status=status, status_reason=problem or DONE, ended_at=now, updated_at=now)


def keep(tx: Transaction, child_actions: Sequence[Action]) -> None:
    """Write down how far units have come; the action itself is ended by its turn."""
    tx.clustering.actions.update([unit for unit in child_actions if unit.parent_id is not None])


def progress(child_actions: Sequence[Action], doing: str, did: str) -> Step:
    """How far an action has come by its units: "creating" and "Created", for the sentences."""
    outputs = _outputs(child_actions)
    done = sum(unit.status is ActionStatus.SUCCEEDED for unit in child_actions)
    if any(not unit.is_over for unit in child_actions):
        return Later(LOOK_AGAIN_S, f"{did} {done} of {len(child_actions)} nodes.")
    lost = [unit for unit in child_actions if unit.status is ActionStatus.FAILED]
    if lost:
        alone = lost[0].parent_id is None
        reason = lost[0].status_reason if alone else f"Failed in {doing} nodes. {lost[0].status_reason}"
        return Ended(ActionStatus.FAILED, reason, outputs)
    if any(unit.status is ActionStatus.CANCELLED for unit in child_actions):
        return Ended(
            ActionStatus.CANCELLED, f"{did} {done} of {len(child_actions)} nodes before it was cancelled.", outputs
        )
    return Ended(reason=f"{did} {done} node{'' if done == 1 else 's'}.", outputs=outputs)


_COUNTED = {
    Verb.NODE_CREATE: "nodes_added",
    Verb.NODE_DELETE: "nodes_removed",
    Verb.NODE_LEAVE: "nodes_removed",
}


def _outputs(child_actions: Sequence[Action]) -> dict[str, object]:
    """Which members came, and which went."""
    found: dict[str, list[str]] = {}
    for unit in child_actions:
        if unit.parent_id is not None and unit.status is ActionStatus.SUCCEEDED and unit.verb in _COUNTED:
            found.setdefault(_COUNTED[unit.verb], []).append(unit.target)
    return dict(found)
