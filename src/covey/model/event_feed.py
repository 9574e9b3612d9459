"""News: what changed between two looks at the database, told to whoever keeps a page open."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from covey.model.ids import ProjectId


class Subject(StrEnum):
    """What a page would ask for anew."""

    FLEET = "fleet"
    GROUPS = "groups"
    SERVERS = "servers"
    ACTIONS = "actions"


@dataclass(frozen=True, slots=True)
class ChangeMarker:
    """A sign of something that happened, or is going on; another mark is another sign."""

    subject: Subject
    project_id: ProjectId | None  # None: the operators'
    thing: str | None  # an id
    mark: str
    lasting: bool  # whether it tells something when it goes, too; others are the newest of many


@dataclass(frozen=True, slots=True)
class EventFeed:
    """Something about a subject changed; no ids where it is not known of what."""

    subject: Subject
    project_id: ProjectId | None
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is committed and not yet done, and not yet told."""

    jobs: int
    overdue: int  # of the jobs
    oldest_due_at: datetime | None
    notes: int


def event_feed(before: Collection[ChangeMarker], after: Collection[ChangeMarker]) -> list[EventFeed]:
    """What the traces of two looks tell, each subject of each project once."""
    old, new = frozenset(before), frozenset(after)
    found: dict[tuple[Subject, ProjectId | None], set[str]] = defaultdict(set)
    for trace in (*(new - old), *(gone for gone in old - new if gone.lasting)):
        ids = found[trace.subject, trace.project_id]
        if trace.thing is not None:
            ids.add(trace.thing)
    return [EventFeed(subject, project, tuple(sorted(ids))) for (subject, project), ids in found.items()]
