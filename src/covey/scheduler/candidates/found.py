"""What was found: candidates, and the state of the providers that they draw on.

These come by the thousand, hence tuples with names: they are made in a third of the time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Candidate(NamedTuple):
    """One way to meet the question: who gives what, and which providers serve which group."""

    allocations: Mapping[str, Mapping[str, int]]
    mappings: Mapping[str, tuple[str, ...]]


class Room(NamedTuple):
    """What a provider may give of one class in all, and what of that is taken."""

    capacity: int
    used: int


class Summary(NamedTuple):
    """One provider, as far as a candidate's reader wants to know."""

    uuid: str
    parent: str | None
    root: str
    traits: tuple[str, ...]
    rooms: Mapping[str, Room]


@dataclass(frozen=True, slots=True)
class Found:
    """The answer; empty when nobody can."""

    candidates: tuple[Candidate, ...] = ()
    summaries: tuple[Summary, ...] = ()
