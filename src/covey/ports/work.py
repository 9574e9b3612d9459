"""What follows a commit: as storage offers it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from covey.model.work import Job, Notification


class WorkRows(Protocol):
    """What workers have yet to do."""

    def add(self, verb: str, server: str, due: datetime, arguments: dict[str, object] | None = None) -> None: ...
    def any_due(self, now: datetime) -> bool: ...
    def take(self, now: datetime, again: datetime, most: int) -> list[Job]: ...
    def hold(self, job: Job) -> bool:
        """Whether nobody else took the job since, nor can until the end of the transaction."""

    def done(self, ids: Sequence[int]) -> None: ...
    def finish(self, verb: str, servers: Sequence[str]) -> None: ...
    def drop(self, server: str) -> None: ...


class OutboxRows(Protocol):
    """What has yet to be told."""

    def add(self, notes: Sequence[tuple[str, object]], now: datetime) -> None: ...
    def is_empty(self) -> bool: ...
    def turn(self) -> AbstractContextManager[bool]:
        """Whether nobody else is telling; if so, nobody else begins to while the block lasts."""

    def oldest(self, most: int) -> list[Notification]: ...
    def told(self, ids: Sequence[int]) -> None: ...
