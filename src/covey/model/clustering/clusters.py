"""Clusters and their nodes."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from covey.model.clustering.owners import Owner
from covey.model.clustering.specs import Document
from covey.model.ids import ServerId

NO_MAXIMUM = -1
ORPHAN = -1  # the index of a node without a cluster


class ClusterStatus(StrEnum):
    """The status of a cluster."""

    INIT = "INIT"
    ACTIVE = "ACTIVE"
    CREATING = "CREATING"
    UPDATING = "UPDATING"
    RESIZING = "RESIZING"
    DELETING = "DELETING"
    CHECKING = "CHECKING"
    RECOVERING = "RECOVERING"
    CRITICAL = "CRITICAL"
    ERROR = "ERROR"
    WARNING = "WARNING"
    OPERATING = "OPERATING"


class NodeStatus(StrEnum):
    """The status of a node."""

    INIT = "INIT"
    ACTIVE = "ACTIVE"
    ERROR = "ERROR"
    WARNING = "WARNING"
    CREATING = "CREATING"
    UPDATING = "UPDATING"
    DELETING = "DELETING"
    RECOVERING = "RECOVERING"
    OPERATING = "OPERATING"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A set of nodes created from one profile."""

    id: str
    name: str
    profile_id: str
    owner: Owner
    init_at: datetime
    created_at: datetime | None = None  # None until the first nodes exist
    updated_at: datetime | None = None
    min_size: int = 0
    max_size: int = NO_MAXIMUM
    desired_capacity: int = 0
    next_index: int = 1  # never decreases
    timeout: int = 3600
    status: ClusterStatus = ClusterStatus.INIT
    status_reason: str = "Initializing"
    metadata: Document = field(default_factory=dict)
    data: Document = field(default_factory=dict)
    dependents: Document = field(default_factory=dict)
    config: Document = field(default_factory=dict)
    profile_name: str = ""
    nodes: tuple[str, ...] = ()
    bindings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A server of a cluster, or an orphan. The server is not_found before its creation and after its loss."""

    id: str
    name: str
    profile_id: str
    owner: Owner
    init_at: datetime
    cluster_id: str | None = None
    server_id: ServerId | None = None
    index: int = ORPHAN
    role: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    status: NodeStatus = NodeStatus.INIT
    status_reason: str = "Initializing"
    metadata: Document = field(default_factory=dict)
    data: Document = field(default_factory=dict)  # {"placement": {"servergroup": …, "zone": …}}
    dependents: Document = field(default_factory=dict)
    tainted: bool = False
    profile_name: str = ""


def evaluate_status(cluster: Cluster, active: int) -> tuple[ClusterStatus, str]:
    """Return the status of a cluster with that many active nodes, and a reason that follows an action's name."""
    if active < cluster.min_size:
        return ClusterStatus.ERROR, f"number of active nodes is below min_size ({cluster.min_size})."
    if active < cluster.desired_capacity:
        return ClusterStatus.WARNING, f"number of active nodes is below desired_capacity ({cluster.desired_capacity})."
    if cluster.max_size == NO_MAXIMUM or active <= cluster.max_size:
        reason = f"number of active nodes is equal or above desired_capacity ({cluster.desired_capacity})."
        return ClusterStatus.ACTIVE, reason
    return ClusterStatus.WARNING, f"number of active nodes is above max_size ({cluster.max_size})."
