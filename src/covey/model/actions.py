"""What was done to servers, step by step, and where they moved."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from covey.model.flavors import Flavor
from covey.model.ids import ProjectId, ServerId, UserId


@dataclass(frozen=True, slots=True)
class ActionEvent:
    """One step of an action."""

    event: str
    started_at: datetime
    finished_at: datetime | None = None
    result: str | None = None  # Success, or Error
    details: str | None = None  # what its owner may read of a failure
    traceback: str | None = None  # what an administrator may


@dataclass(frozen=True, slots=True)
class Action:
    """Something that was done to a server."""

    id: int
    server_id: ServerId
    action: str
    request_id: str
    user_id: UserId
    project_id: ProjectId
    started_at: datetime
    updated_at: datetime
    message: str | None = None
    events: tuple[ActionEvent, ...] = ()


class MoveKind(StrEnum):
    """Why a server moves; the words are the wire's."""

    MIGRATION = "migration"
    RESIZE = "resize"
    LIVE_MIGRATION = "live-migration"
    EVACUATION = "evacuation"


@dataclass(frozen=True, slots=True)
class Migration:
    """A move, past or present."""

    uuid: str
    server_id: ServerId
    project_id: ProjectId
    user_id: UserId
    kind: MoveKind
    status: str
    source: str
    destination: str | None
    old_flavor: Flavor
    new_flavor: Flavor
    created_at: datetime
    updated_at: datetime
    id: int = 0
