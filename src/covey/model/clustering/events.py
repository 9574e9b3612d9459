"""Events: that an action began, and how it ended."""

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum

from covey.model.clustering.owners import Owner


class Level(IntEnum):
    """How much an event matters."""

    DEBUG = 10
    INFO = 20
    WARN = 30
    ERROR = 40
    CRITICAL = 50


class Phase(StrEnum):
    """What happened to the action."""

    START = "start"
    END = "end"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a cluster or a node, told under the names that they had then."""

    id: str
    timestamp: datetime
    object_id: str
    object_name: str
    object_type: str  # CLUSTER or NODE
    cluster_id: str | None
    level: Level
    action: str  # its verb
    phase: Phase
    reason: str
    owner: Owner
