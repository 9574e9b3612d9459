"""Rebalances: moves that repair a server group's policies, and their progress."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from covey.model.ids import GroupId, ProjectId, UserId


class RebalanceStatus(StrEnum):
    """The status of a rebalance."""

    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Step:
    """One server moves from one host to another; hosts are named, because a host may be deleted."""

    server_id: str
    source: str
    destination: str


@dataclass(frozen=True, slots=True)
class FailedMove:
    """A move that failed. No instance of Nova goes to that host again: Covey does not know all of Nova's filters."""

    server_id: str
    destination: str
    reason: str


@dataclass(frozen=True, slots=True)
class Rebalance:
    """The steps in their order: the first `done` ones have ended, and the next one may be running."""

    id: str
    group_id: GroupId
    project_id: ProjectId
    user_id: UserId
    request_id: str
    status: RebalanceStatus
    steps: tuple[Step, ...]
    created_at: datetime
    updated_at: datetime
    done: int = 0
    under_way: bool = False
    plans: int = 1  # made since the last step ended: the fleet changes while servers move
    reason: str | None = None  # why it failed, or waits
    failed: tuple[FailedMove, ...] = ()
    max_moves: int | None = None  # in all, if a tenant started it

    @property
    def next(self) -> Step | None:
        """The next step; None after the last one."""
        return self.steps[self.done] if self.done < len(self.steps) else None
