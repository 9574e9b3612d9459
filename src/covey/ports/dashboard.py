"""What the dashboard asks across all nouns: as storage offers it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from covey.model.ids import GroupId, HostId, ProjectId, ServerId
from covey.model.news import Backlog, Trace


class DashboardRows(Protocol):
    """Many rows at once, each with few columns; of one project, or of all."""

    def traces(self) -> list[Trace]: ...
    def placed(self, project: ProjectId | None) -> Sequence[tuple[HostId, ServerId, GroupId | None]]: ...
    def group_names(self, project: ProjectId | None) -> Sequence[tuple[GroupId, str]]: ...
    def members(self, groups: Sequence[GroupId]) -> Sequence[tuple[GroupId, ServerId, HostId | None]]: ...
    def backlog(self, now: datetime) -> Backlog: ...
