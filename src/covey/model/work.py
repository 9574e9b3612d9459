"""What follows a commit: jobs to carry out, and notifications to publish."""

from collections.abc import Mapping
from dataclasses import dataclass
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
    CLUSTER_ACTION = "cluster"


@dataclass(frozen=True, slots=True)
class Job:
    """A unit of work for a worker. Carrying it out twice is harmless."""

    id: int
    kind: JobKind
    subject_id: str  # of a server, a rebalance or a cluster action, by kind
    arguments: Mapping[str, object]
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class Notification:
    """An event that is to be published."""

    id: int
    event: str
    payload: Mapping[str, object]
    created_at: datetime
