"""Actions: what is done to clusters and nodes. A row, until long after it is over."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from covey.model.clustering.owners import Owner
from covey.model.clustering.specs import Document


class ActionStatus(StrEnum):
    """How far an action has come."""

    INIT = "INIT"
    WAITING = "WAITING"
    READY = "READY"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    WAITING_LIFECYCLE_COMPLETION = "WAITING_LIFECYCLE_COMPLETION"


OVER = frozenset({ActionStatus.SUCCEEDED, ActionStatus.FAILED, ActionStatus.CANCELLED})


class Verb(StrEnum):
    """What is done."""

    CLUSTER_CREATE = "CLUSTER_CREATE"
    CLUSTER_DELETE = "CLUSTER_DELETE"
    CLUSTER_UPDATE = "CLUSTER_UPDATE"
    CLUSTER_ADD_NODES = "CLUSTER_ADD_NODES"
    CLUSTER_DEL_NODES = "CLUSTER_DEL_NODES"
    CLUSTER_RESIZE = "CLUSTER_RESIZE"
    CLUSTER_CHECK = "CLUSTER_CHECK"
    CLUSTER_RECOVER = "CLUSTER_RECOVER"
    CLUSTER_REPLACE_NODES = "CLUSTER_REPLACE_NODES"
    CLUSTER_SCALE_OUT = "CLUSTER_SCALE_OUT"
    CLUSTER_SCALE_IN = "CLUSTER_SCALE_IN"
    CLUSTER_ATTACH_POLICY = "CLUSTER_ATTACH_POLICY"
    CLUSTER_DETACH_POLICY = "CLUSTER_DETACH_POLICY"
    CLUSTER_UPDATE_POLICY = "CLUSTER_UPDATE_POLICY"
    CLUSTER_OPERATION = "CLUSTER_OPERATION"
    NODE_CREATE = "NODE_CREATE"
    NODE_DELETE = "NODE_DELETE"
    NODE_UPDATE = "NODE_UPDATE"
    NODE_JOIN = "NODE_JOIN"
    NODE_LEAVE = "NODE_LEAVE"
    NODE_CHECK = "NODE_CHECK"
    NODE_RECOVER = "NODE_RECOVER"
    NODE_OPERATION = "NODE_OPERATION"

    @property
    def is_for_cluster(self) -> bool:
        """Whether its target is a cluster, and not a node."""
        return self.startswith("CLUSTER_")


class Cause(StrEnum):
    """Who wanted it."""

    REQUEST = "RPC Request"
    DERIVED = "Derived Action"


@dataclass(frozen=True, slots=True)
class Action:
    """Something done to a cluster or a node.

    A derived one belongs to its parent, which waits for it and drives it: only what was asked for has a job.
    """

    id: str
    name: str
    verb: Verb
    target: str
    owner: Owner
    created_at: datetime
    cluster_id: str | None = None
    roles: frozenset[str] = frozenset()  # of whoever asked
    cause: Cause = Cause.REQUEST
    parent_id: str | None = None
    status: ActionStatus = ActionStatus.READY
    status_reason: str = ""
    inputs: Document = field(default_factory=dict)
    outputs: Document = field(default_factory=dict)
    data: Document = field(default_factory=dict)  # what policies made of it
    timeout: int = 3600
    started_at: datetime | None = None
    ended_at: datetime | None = None
    updated_at: datetime | None = None
    worker: str | None = None  # who did its last turn
    to_be_cancelled: bool = False
    depends_on: tuple[str, ...] = ()  # children that are not over
    depended_by: tuple[str, ...] = ()  # its parent, unless it is over

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.status in OVER


_SHORT = 8  # letters of an id in a name
_NAMES: Mapping[Verb, str] = {
    Verb.CLUSTER_ATTACH_POLICY: "attach_policy",
    Verb.CLUSTER_DETACH_POLICY: "detach_policy",
    Verb.CLUSTER_UPDATE_POLICY: "update_policy",
}


def action_name(verb: Verb, target: str) -> str:
    """How an action is called: what it does, and to whom."""
    return f"{_NAMES.get(verb, verb.lower())}_{target[:_SHORT]}"
