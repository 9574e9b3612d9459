"""Actions on clusters and nodes, and the engines that execute them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from covey.model.clustering.owners import Owner
from covey.model.clustering.specs import Document


class ActionStatus(StrEnum):
    """The status of an action."""

    INIT = "INIT"
    WAITING = "WAITING"
    READY = "READY"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    WAITING_LIFECYCLE_COMPLETION = "WAITING_LIFECYCLE_COMPLETION"


FINAL_STATUSES = frozenset({ActionStatus.SUCCEEDED, ActionStatus.FAILED, ActionStatus.CANCELLED})


class Verb(StrEnum):
    """What an action does."""

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
        """Whether the target is a cluster; otherwise it is a node."""
        return self.startswith("CLUSTER_")


class Cause(StrEnum):
    """What created an action."""

    REQUEST = "RPC Request"
    DERIVED = "Derived Action"


@dataclass(frozen=True, slots=True)
class Action:
    """An operation on a cluster or a node.

    A derived action is a child: its parent executes it and waits for it. Only a requested action has a job.
    """

    id: str
    name: str
    verb: Verb
    target: str
    owner: Owner
    created_at: datetime
    cluster_id: str | None = None
    roles: frozenset[str] = frozenset()  # of the requesting actor
    cause: Cause = Cause.REQUEST
    parent_id: str | None = None
    status: ActionStatus = ActionStatus.READY
    status_reason: str = ""
    inputs: Document = field(default_factory=dict)
    outputs: Document = field(default_factory=dict)
    data: Document = field(default_factory=dict)  # the results of policy checks
    timeout: int = 3600
    started_at: datetime | None = None
    ended_at: datetime | None = None
    updated_at: datetime | None = None
    worker: str | None = None  # the engine that executed it last
    to_be_cancelled: bool = False
    depends_on: tuple[str, ...] = ()  # unfinished children
    depended_by: tuple[str, ...] = ()  # the parent, while the action is unfinished

    @property
    def is_finished(self) -> bool:
        """Whether the status is final."""
        return self.status in FINAL_STATUSES


@dataclass(frozen=True, slots=True)
class Engine:
    """A process that executes actions, as of its last heartbeat."""

    id: str
    host: str
    updated_at: datetime


_SHORT_ID = 8  # characters of an id in a name
_NAMES: Mapping[Verb, str] = {
    Verb.CLUSTER_ATTACH_POLICY: "attach_policy",
    Verb.CLUSTER_DETACH_POLICY: "detach_policy",
    Verb.CLUSTER_UPDATE_POLICY: "update_policy",
}


def action_name(verb: Verb, target: str) -> str:
    """Return the name of an action: its verb and the beginning of its target's id."""
    return f"{_NAMES.get(verb, verb.lower())}_{target[:_SHORT_ID]}"
