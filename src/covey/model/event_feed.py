"""The event feed: what changed between two reads of the database, for open dashboard pages."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from covey.model.ids import ProjectId


class Subject(StrEnum):
    """What a page reloads."""

    FLEET = "fleet"
    GROUPS = "groups"
    SERVERS = "servers"
    ACTIONS = "actions"


@dataclass(frozen=True, slots=True)
class ChangeMarker:
    """The version of a resource: a different marker means a change."""

    subject: Subject
    project_id: ProjectId | None  # None: operators only
    resource_id: str | None
    mark: str
    lasting: bool  # whether its removal is a change too; other markers are the newest of many


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """A change of a subject. `ids` is empty where the changed resources are unknown."""

    subject: Subject
    project_id: ProjectId | None
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Backlog:
    """Committed work that waits: jobs and notifications."""

    jobs: int
    overdue: int  # jobs
    parked: int  # jobs that failed too often
    oldest_due_at: datetime | None
    notifications: int


def feed_events(before: Collection[ChangeMarker], after: Collection[ChangeMarker]) -> list[FeedEvent]:
    """Return the changes between two sets of markers, each subject of each project once."""
    old, new = frozenset(before), frozenset(after)
    found: dict[tuple[Subject, ProjectId | None], set[str]] = defaultdict(set)
    for marker in (*(new - old), *(gone for gone in old - new if gone.lasting)):
        ids = found[marker.subject, marker.project_id]
        if marker.resource_id is not None:
            ids.add(marker.resource_id)
    return [FeedEvent(subject, project, tuple(sorted(ids))) for (subject, project), ids in found.items()]
