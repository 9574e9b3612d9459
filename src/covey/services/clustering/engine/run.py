"""What a turn of an action is about, and how it ends."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from covey.model.access import Actor
from covey.model.clustering.actions import Action, ActionStatus
from covey.model.clustering.clusters import Cluster, Node


@dataclass(frozen=True, slots=True)
class Run:
    """An action and what it is done to, as they were when the turn began. What is gone is None."""

    action: Action
    cluster: Cluster | None
    node: Node | None = None  # the target of a node's action

    @property
    def actor(self) -> Actor:
        """On whose behalf it is done."""
        return self.action.owner.with_roles(self.action.roles)

    @property
    def request_id(self) -> str:
        """Under which servers remember what was done to them."""
        return f"req-{self.action.id}"


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing is left to do."""

    status: ActionStatus = ActionStatus.SUCCEEDED
    reason: str = ""  # for the event, and for the action where it failed
    outputs: Mapping[str, object] = field(default_factory=dict)


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
