"""What a turn of an action is about, and how it ends."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from covey.model.access import Actor
from covey.model.clustering.actions import Action, ActionStatus
from covey.model.clustering.clusters import Cluster, Node
from covey.model.errors import NotFound, TransactionConflict
from covey.model.work import Job
from covey.storage.store import Transaction


@dataclass(frozen=True, slots=True)
class Run:
    """An action and what it is done to, as they were when the turn began. What is gone is None."""

    action: Action
    cluster: Cluster | None
    node: Node | None = None  # the target of a node's action
    job: Job | None = None  # whose turn it is; None where nobody else can take one

    @property
    def actor(self) -> Actor:
        """On whose behalf it is done."""
        return self.action.owner.with_roles(self.action.roles)

    @property
    def request_id(self) -> str:
        """Under which servers remember what was done to them."""
        return f"req-{self.action.id}"

    @property
    def the_cluster(self) -> Cluster:
        """The cluster of an action that is about one. Raises NotFound when it is gone."""
        if self.cluster is None:
            raise NotFound(f"The cluster '{self.action.cluster_id}' could not be found.")
        return self.cluster

    @property
    def the_node(self) -> Node:
        """The node of an action that is about one. Raises NotFound when it is gone."""
        if self.node is None:
            raise NotFound(f"The node '{self.action.target}' could not be found.")
        return self.node


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing is left to do, but for what becomes true in the moment in which the action ends."""

    status: ActionStatus = ActionStatus.SUCCEEDED
    reason: str = ""  # for the event, and for the action where it failed
    outputs: Mapping[str, object] = field(default_factory=dict)
    finally_: Callable[[Transaction], None] | None = None

    @property
    def worked(self) -> bool:
        return self.status is ActionStatus.SUCCEEDED


@dataclass(frozen=True, slots=True)
class Later:
    """There is more to do after a while. A reason tells how far it has come."""

    after_s: float = 0.0
    reason: str = ""


Step = Ended | Later


class Handler(Protocol):
    """Does one kind of action. Raises CoveyError when it fails; its message is the reason.

    `begin` may be repeated until it made the action WAITING, in the same transaction as all that it changed;
    `go_on` follows until it says Ended. Both only trust what the rows say.
    """

    def begin(self, run: Run) -> Step: ...

    def go_on(self, run: Run) -> Step: ...


def failed(reason: str) -> Ended:
    """It did not work out."""
    return Ended(ActionStatus.FAILED, reason)


def hold(tx: Transaction, action_id: str) -> tuple[Cluster | None, Action | None]:
    """An action and its cluster, which nobody else changes meanwhile; always in this order."""
    seen = tx.clustering.actions.one(action_id, None)
    if seen is None:
        return None, None
    cluster = None if seen.cluster_id is None else tx.clustering.clusters.lock(seen.cluster_id)
    return cluster, tx.clustering.actions.lock(action_id)


def still(tx: Transaction, run: Run) -> tuple[Cluster | None, Action]:
    """The same, if no other worker took a turn, nor can until the transaction ends. Raises TransactionConflict."""
    cluster, action = hold(tx, run.action.id)
    is_ours = run.job is None or tx.work.hold(run.job)
    if action is None or action.status is not run.action.status or not is_ours:
        raise TransactionConflict(f"Somebody else took a turn of the action {run.action.id}.")
    return cluster, action
