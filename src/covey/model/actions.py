"""What was done to servers, step by step, and where they moved."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from covey.model.flavors import Flavor
from covey.model.ids import ProjectId, ServerId, UserId

UNDER_WAY = ("preparing", "finished")  # the states in which a move holds a place for its server


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

    @property
    def extra(self) -> tuple[int, int]:
        """Cores and MB of memory that quotas count beside the old size while it is under way: the larger counts."""
        old, new = self.old_flavor, self.new_flavor
        return max(0, new.vcpus - old.vcpus), max(0, new.memory_mb - old.memory_mb)

    @property
    def surplus(self) -> tuple[int, int]:
        """The same beside the new size."""
        old, new = self.old_flavor, self.new_flavor
        return max(0, old.vcpus - new.vcpus), max(0, old.memory_mb - new.memory_mb)


@dataclass(frozen=True, slots=True)
class Span:
    """Which part of a log is wanted, newest first; None means no matter."""

    marker: str | None = None  # the entry before the first: the id of a request, or the uuid of a move
    limit: int | None = None
    changed_since: datetime | None = None
    changed_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class MigrationFilter:
    """Which moves a listing wants; None means no matter."""

    server_id: str | None = None
    status: str | None = None
    kind: str | None = None
    host: str | None = None  # at either end
    source: str | None = None
    user_id: str | None = None
    project_id: str | None = None
    span: Span = Span()
