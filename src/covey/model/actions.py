"""Instance actions and migrations: the log of what was done to servers."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from covey.model.flavors import Flavor
from covey.model.ids import ProjectId, ServerId, UserId
from covey.model.resources import quota_size, quota_sizes

UNDER_WAY = ("preparing", "finished")  # the statuses in which a migration holds allocations


@dataclass(frozen=True, slots=True)
class ActionEvent:
    """One step of an action."""

    event: str
    started_at: datetime
    finished_at: datetime | None = None
    result: str | None = None  # Success, or Error
    details: str | None = None  # of a failure, for the owner
    traceback: str | None = None  # of a failure, for administrators


@dataclass(frozen=True, slots=True)
class Action:
    """An action on a server."""

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
    """The kind of a migration, as the API names it."""

    MIGRATION = "migration"
    RESIZE = "resize"
    LIVE_MIGRATION = "live-migration"
    EVACUATION = "evacuation"


@dataclass(frozen=True, slots=True)
class Migration:
    """A migration, past or present."""

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
    abort: bool = False  # its end was requested

    @property
    def growth(self) -> dict[str, int]:
        """By how much the new flavor exceeds the old one, by the name of the quota."""
        return quota_growth(self.old_flavor, self.new_flavor)

    @property
    def upsize_delta(self) -> tuple[int, int]:
        """Cores and MB of memory by which the new flavor exceeds the old one. Quotas count the larger of both."""
        return _excess(quota_size(self.new_flavor), quota_size(self.old_flavor))

    @property
    def downsize_delta(self) -> tuple[int, int]:
        """Cores and MB of memory by which the old flavor exceeds the new one."""
        return _excess(quota_size(self.old_flavor), quota_size(self.new_flavor))

    @property
    def charged(self) -> tuple[int, int]:
        """Cores and MB of memory that the server uses of the quota until the migration is confirmed or reverted."""
        (old_cores, old_ram), (cores, ram) = quota_size(self.old_flavor), quota_size(self.new_flavor)
        return max(old_cores, cores), max(old_ram, ram)


def quota_growth(old: Flavor, new: Flavor) -> dict[str, int]:
    """Return by how much a new flavor exceeds an old one, by the name of the quota."""
    present = quota_sizes(old)
    growth = {name: size - present.get(name, 0) for name, size in quota_sizes(new).items()}
    return {name: more for name, more in growth.items() if more > 0}


def _excess(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    (cores, ram), (other_cores, other_ram) = one, other
    return max(0, cores - other_cores), max(0, ram - other_ram)


@dataclass(frozen=True, slots=True)
class LogPage:
    """A page of a log, newest first. None means no restriction."""

    marker: str | None = None  # the entry before the page: a request id, or a migration's uuid
    limit: int | None = None
    changed_since: datetime | None = None
    changed_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class MigrationFilter:
    """The filter of a migration list. None means no restriction."""

    server_id: str | None = None
    status: str | None = None
    kind: str | None = None
    host: str | None = None  # source or destination
    source: str | None = None
    user_id: str | None = None
    project_id: str | None = None
    page: LogPage = LogPage()
