"""An action under execution: its context, its result, and its child actions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from covey.model.access import Actor
from covey.model.clustering.actions import Action, ActionStatus, Cause, Verb, action_name
from covey.model.clustering.clusters import Cluster, Node, NodeStatus
from covey.model.errors import NotFound, TransactionConflict
from covey.model.work import Job
from covey.ports import NewUuid
from covey.storage.store import Transaction

SUCCEEDED_REASON = "Action completed successfully."
POLL_INTERVAL_S = 0.3  # while servers change their state

NODE_STATUS_DURING: Mapping[Verb, NodeStatus] = {
    Verb.NODE_CREATE: NodeStatus.CREATING,
    Verb.NODE_DELETE: NodeStatus.DELETING,
    Verb.NODE_UPDATE: NodeStatus.UPDATING,
    Verb.NODE_RECOVER: NodeStatus.RECOVERING,
    Verb.NODE_OPERATION: NodeStatus.OPERATING,
}
"""The status of a node while an action with this verb is in progress."""


@dataclass(frozen=True, slots=True)
class ActionContext:
    """An action and its target as of the start of this execution. A deleted cluster or node is None."""

    action: Action
    cluster: Cluster | None
    node: Node | None = None  # the target of a node action
    job: Job | None = None  # the claimed job; None where no other worker can claim one

    @property
    def actor(self) -> Actor:
        """The actor on whose behalf the action runs."""
        return self.action.owner.with_roles(self.action.roles)

    @property
    def request_id(self) -> str:
        """The request id of everything that the action does to servers."""
        return f"req-{self.action.id}"

    @property
    def required_cluster(self) -> Cluster:
        """The cluster of the action. Raises NotFound when it was deleted."""
        if self.cluster is None:
            raise NotFound(f"The cluster '{self.action.cluster_id}' could not be found.")
        return self.cluster

    @property
    def required_node(self) -> Node:
        """The node of the action. Raises NotFound when it was deleted."""
        if self.node is None:
            raise NotFound(f"The node '{self.action.target}' could not be found.")
        return self.node


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The end of an action. `finalize` runs in the transaction that ends it."""

    status: ActionStatus = ActionStatus.SUCCEEDED
    reason: str = ""  # of the event, and of the action unless it succeeded
    outputs: Mapping[str, object] = field(default_factory=dict)
    finalize: Callable[[Transaction], None] | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the action did what it was requested to do."""
        return self.status is ActionStatus.SUCCEEDED


@dataclass(frozen=True, slots=True)
class Retry:
    """The action is unfinished: execute it again after a delay. The reason reports its progress."""

    after_s: float = 0.0
    reason: str = ""


Outcome = ActionResult | Retry


class ActionHandler(Protocol):
    """Executes the actions of one verb. Raises CoveyError when the action fails; its message is the reason.

    `start` can be repeated until it has made the action WAITING, in one transaction with everything that it changed.
    `resume` follows until it returns an ActionResult. Both derive their state from the rows only.
    """

    def start(self, context: ActionContext) -> Outcome: ...

    def resume(self, context: ActionContext) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class Immediate:
    """Handles an action that never waits. Its function is idempotent, so a crash is followed by a repeat."""

    execute: Callable[[ActionContext], Outcome]

    def start(self, context: ActionContext) -> Outcome:
        return self.execute(context)

    def resume(self, context: ActionContext) -> Outcome:
        return self.execute(context)


def failed(reason: str) -> ActionResult:
    """Return the result of a failed action."""
    return ActionResult(ActionStatus.FAILED, reason)


def lock_action(tx: Transaction, action_id: str) -> tuple[Cluster | None, Action | None]:
    """Lock an action and its cluster, always in the order cluster, action. What does not exist is None."""
    found = tx.clustering.actions.one(action_id, None)
    if found is None:
        return None, None
    cluster = None if found.cluster_id is None else tx.clustering.clusters.lock(found.cluster_id)
    return cluster, tx.clustering.actions.lock(action_id)


def lock_claimed_action(tx: Transaction, context: ActionContext) -> tuple[Cluster | None, Action]:
    """Lock the action and its cluster. Raises TransactionConflict when another worker has executed the action since."""
    cluster, action = lock_action(tx, context.action.id)
    is_claimed = context.job is None or tx.work.lock_lease(context.job)
    if action is None or action.status is not context.action.status or not is_claimed:
        raise TransactionConflict(f"Another worker executed the action {context.action.id}.")
    return cluster, action


def new_children(
    parent: Action, verb: Verb, nodes: Sequence[Node], new_uuid: NewUuid, now: datetime, *, started: bool
) -> list[Action]:
    """Return a child action for each node. Their parent executes them; a child that is not started can be cancelled."""
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
            status=ActionStatus.RUNNING if started else ActionStatus.READY,
            timeout=parent.timeout,
            started_at=now if started else None,
            worker=parent.worker,
        )
        for node in nodes
    ]


def children_of(tx: Transaction, action: Action, *verbs: Verb) -> list[Action]:
    """Return the child actions with these verbs. A node action has none and stands for itself."""
    if not action.verb.is_for_cluster:
        return [action]
    return [child for child in tx.clustering.actions.of_parent(action.id) if child.verb in verbs]


def wait_for_children(tx: Transaction, action: Action, reason: str, now: datetime) -> None:
    """Make the action WAITING: its changes are committed and its children are in progress."""
    tx.clustering.actions.update([replace(action, status=ActionStatus.WAITING, status_reason=reason, updated_at=now)])


def started(child: Action, now: datetime) -> Action:
    """Return the child as RUNNING."""
    return replace(child, status=ActionStatus.RUNNING, started_at=now, updated_at=now)


def finished(child: Action, now: datetime, problem: str = "") -> Action:
    """Return the child as SUCCEEDED, or as FAILED because of a problem."""
    status = ActionStatus.FAILED if problem else ActionStatus.SUCCEEDED
    return replace(child, status=status, status_reason=problem or SUCCEEDED_REASON, ended_at=now, updated_at=now)


def update_children(tx: Transaction, children: Sequence[Action]) -> None:
    """Store child actions. An action that stands for itself is stored by the executor."""
    tx.clustering.actions.update([child for child in children if child.parent_id is not None])


def progress(children: Sequence[Action], doing: str, done: str) -> Outcome:
    """Return the outcome that the children imply; "creating" and "Created" are words of its reason."""
    outputs = _outputs(children)
    succeeded = sum(child.status is ActionStatus.SUCCEEDED for child in children)
    if any(not child.is_finished for child in children):
        return Retry(POLL_INTERVAL_S, f"{done} {succeeded} of {len(children)} nodes.")
    failures = [child for child in children if child.status is ActionStatus.FAILED]
    if failures:
        is_child = failures[0].parent_id is not None
        reason = failures[0].status_reason
        return ActionResult(ActionStatus.FAILED, f"Failed in {doing} nodes. {reason}" if is_child else reason, outputs)
    if any(child.status is ActionStatus.CANCELLED for child in children):
        reason = f"{done} {succeeded} of {len(children)} nodes before it was cancelled."
        return ActionResult(ActionStatus.CANCELLED, reason, outputs)
    return ActionResult(reason=f"{done} {succeeded} node{'' if succeeded == 1 else 's'}.", outputs=outputs)


_OUTPUT_KEYS = {
    Verb.NODE_CREATE: "nodes_added",
    Verb.NODE_DELETE: "nodes_removed",
    Verb.NODE_LEAVE: "nodes_removed",
}


def _outputs(children: Sequence[Action]) -> dict[str, object]:
    outputs: dict[str, list[str]] = {}
    for child in children:
        if child.parent_id is not None and child.status is ActionStatus.SUCCEEDED and child.verb in _OUTPUT_KEYS:
            outputs.setdefault(_OUTPUT_KEYS[child.verb], []).append(child.target)
    return dict(outputs)
