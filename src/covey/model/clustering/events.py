"""Events: the start and the end of an action."""

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum

from covey.model.clustering.owners import Owner


class Level(IntEnum):
    """The severity of an event."""

    DEBUG = 10
    INFO = 20
    WARN = 30
    ERROR = 40
    CRITICAL = 50


class Phase(StrEnum):
    """The phase of the action that an event reports."""

    START = "start"
    END = "end"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Event:
    """A phase of an action on a cluster or node, with the name that the object had at that time."""

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
