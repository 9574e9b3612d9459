"""Drains: the moves that empty a host or a domain, and their progress."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from covey.model.ids import ProjectId, UserId

_REASON = "drained by "  # and its id: why a host is disabled


def drain_of_reason(reason: str | None) -> str | None:
    """Return the id of the drain that disabled a host for this reason; None if it was no drain."""
    return reason.removeprefix(_REASON) if reason is not None and reason.startswith(_REASON) else None


class DrainStatus(StrEnum):
    """The status of a drain. All but the first are final; `undone` follows any other."""

    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"
    UNDONE = "undone"


class StepStatus(StrEnum):
    """The status of one move of a drain."""

    PENDING = "pending"
    MOVING = "moving"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class DrainStep:
    """One server moves from one host to another; hosts are named, because a host may be deleted."""

    server_id: str
    source: str
    destination: str
    status: StepStatus = StepStatus.PENDING
    reason: str | None = None  # why it failed, or takes too long
    refused: bool = False  # it failed before the server began to move: another host may take it

    @property
    def is_open(self) -> bool:
        """Whether the move has not ended."""
        return self.status in {StepStatus.PENDING, StepStatus.MOVING}


@dataclass(frozen=True, slots=True)
class LeftServer:
    """A server that cannot be moved, and why."""

    server_id: str
    host: str
    reason: str


@dataclass(frozen=True, slots=True)
class Drain:
    """The hosts that are drained, the moves that began, and the servers that cannot be moved."""

    id: str
    scope: str
    domain: str
    hosts: tuple[str, ...]
    disabled: tuple[str, ...]  # the hosts that the drain itself disabled
    status: DrainStatus
    project_id: ProjectId
    user_id: UserId
    request_id: str
    created_at: datetime
    updated_at: datetime  # the time of the last progress
    planned: int = 0  # moves that the plan had when the drain started
    steps: tuple[DrainStep, ...] = ()
    left: tuple[LeftServer, ...] = ()
    reason: str | None = None  # why it waits

    @property
    def disabled_reason(self) -> str:
        """Why the hosts are disabled."""
        return f"{_REASON}{self.id}"

    @property
    def is_running(self) -> bool:
        """Whether further moves may begin."""
        return self.status is DrainStatus.RUNNING

    @property
    def open_steps(self) -> tuple[DrainStep, ...]:
        """The moves that have not ended; a cancelled drain completes them."""
        return tuple(step for step in self.steps if step.is_open)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do."""
        return not self.is_running and not self.open_steps
