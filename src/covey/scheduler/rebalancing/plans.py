"""What a rebalance comes to."""

from dataclasses import dataclass

from covey.model.ids import HostId
from covey.scheduler.violations import Violation


@dataclass(frozen=True, slots=True)
class Move:
    """One member goes from one host to another."""

    member: str
    source: HostId
    destination: HostId


@dataclass(frozen=True, slots=True)
class Plan:
    """Moves in an order in which each may be made, and what they end.

    An optimal one ends as much as can be ended, and nobody does that by fewer moves: the bound is their number.
    Otherwise it is the best that was found, and the bound only says how few moves could do at the least.
    """

    moves: tuple[Move, ...]
    bound: int
    optimal: bool
    before: tuple[Violation, ...]
    after: tuple[Violation, ...]
    left: tuple[Move, ...] = ()  # would end more, but there is no order in which they may be made
