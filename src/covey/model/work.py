"""What follows a commit: jobs to carry out, and notifications to publish."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class JobKind(StrEnum):
    """What a job does. The value is stored in the job's row."""

    SPAWN = "spawn"
    DESTROY = "destroy"
    MOVE = "move"
    REVERT = "revert"
    SHELVE = "shelve"
    UNSHELVE = "unshelve"
    POWER = "power"
    REBALANCE = "rebalance"
    DRAIN = "drain"
    COMPUTE_SERVICES = "compute_services"
    CLUSTER_ACTION = "cluster"
    EVACUATE_HOST = "evacuate_host"


FIRST_EPOCH = 1
"""The epoch of a server's first lease, which its claim writes."""


@dataclass(frozen=True, slots=True)
class Job:
    """A unit of work that a worker has leased.

    The epoch grows with each lease of a subject's jobs. A host that has seen a larger one rejects the worker.
    """

    kind: JobKind
    subject_id: str  # of a server, a rebalance, a drain, a cluster action or a host, by kind
    arguments: Mapping[str, object] = field(default_factory=dict)
    epoch: int = FIRST_EPOCH
    attempts: int = 1  # with this one


@dataclass(frozen=True, slots=True)
class ParkedJob:
    """A job that failed so often that no worker takes it."""

    kind: str
    subject_id: str
    attempts: int
    error: str


@dataclass(frozen=True, slots=True)
class Notification:
    """An event that is to be published."""

    id: int
    event: str
    payload: Mapping[str, object]
    created_at: datetime
