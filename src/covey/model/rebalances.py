"""Rebalances: moves that put a server group right, and how far they have come."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from covey.model.ids import GroupId, ProjectId, UserId


class RebalanceStatus(StrEnum):
    """Whether there is more to do."""

    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Step:
    """One server goes from one host to another; hosts by their names, which outlive them."""

    server_id: str
    source: str
    destination: str


@dataclass(frozen=True, slots=True)
class Rebalance:
    """The steps in their order; the first ones are done, and the next may be under way."""

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
    plans: int = 1  # that were made since the last step was taken: things change while servers move
    reason: str | None = None  # why it ended otherwise than it was meant to

    @property
    def next(self) -> Step | None:
        """What is to be done now."""
        return self.steps[self.done] if self.done < len(self.steps) else None
