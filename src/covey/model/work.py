"""What follows a commit: jobs to do, and notes to send."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Job:
    """Something to be done to a server; doing it twice does no harm."""

    id: int
    verb: str
    server_id: str
    arguments: Mapping[str, object]
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class Notification:
    """Something that happened, to be told to whoever listens."""

    id: int
    event: str
    payload: Mapping[str, object]
    created_at: datetime
