"""Moves that rebalances and drains carry out, by where their servers are: Covey's own, or instances of Nova."""

from dataclasses import dataclass
from enum import Enum, auto

MOVABLE_LIVE = frozenset({"ACTIVE", "PAUSED"})  # by status
MOVABLE_COLD = frozenset({"SHUTOFF"})

_SHORTEST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 5.0
LONGEST_OUTAGE_PAUSE_S = 60.0


class MoveState(Enum):
    """The state of a planned move, by the position of its server."""

    WAITING = auto()  # the server is on its source, and does not move
    MOVING = auto()
    ARRIVED = auto()  # not confirmed yet
    DONE = auto()
    DIVERGED = auto()  # the server is elsewhere, deleted, or moves to another host


@dataclass(frozen=True, slots=True)
class ServerPosition:
    """Where a server is, and where it moves to. Hosts are named."""

    host: str | None
    movable: bool = False
    moves: bool = False  # a move is in progress, or waits for its confirmation
    source: str | None = None  # of that move
    destination: str | None = None  # of that move; None while it is not known
    arrived: bool = False  # it waits for its confirmation
    overdue: bool = False  # it takes longer than it may
    failure: str | None = None  # why its last move failed
    refused: bool = False  # that move failed before the server began to move
    unknown: bool = False  # the service that runs it has lost sight of it: a move may go on
    cold_next: bool = False  # that move was a live one which never began, and a cold one may follow

    def state(self, source: str, destination: str) -> MoveState:
        """Return the state of a move between two hosts."""
        if self.unknown:
            return MoveState.MOVING
        if not self.moves:
            if self.host == destination:
                return MoveState.DONE
            return MoveState.WAITING if self.host == source else MoveState.DIVERGED
        if self.source != source or self.destination not in {None, destination}:
            return MoveState.DIVERGED
        return MoveState.ARRIVED if self.arrived else MoveState.MOVING


def pause_s(since_progress_s: float, longest_s: float) -> float:
    """Return how long to wait for progress: half of the time without any, so that long moves are looked at rarely."""
    return min(max(since_progress_s / 2, _SHORTEST_PAUSE_S), longest_s)
