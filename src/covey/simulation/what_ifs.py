"""What if? Changes to a fleet in the middle of a run, so that it can be compared with the run without them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from covey.simulation.start import Start
from covey.simulation.world import World


class WhatIf(Protocol):
    """One change, which says how it is written on the command line."""

    def check(self, start: Start) -> None:
        """Raises Invalid for a place or a scope that there is not."""

    def apply(self, world: World, seed: int) -> None:
        """Make it true."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Nothing goes to a place any more, and what is there moves away."""

    place: str

    def check(self, start: Start) -> None:
        start.hosts_at(self.place)

    def apply(self, world: World, seed: int) -> None:
        world.drain(_rows(world, self.place), seed)

    def __str__(self) -> str:
        return f"--drain {self.place}"


@dataclass(frozen=True, slots=True)
class Lose:
    """A place goes down for good, with all its servers; they are booted again elsewhere if they are to be evacuated."""

    place: str
    evacuate: bool = False

    def check(self, start: Start) -> None:
        start.hosts_at(self.place)

    def apply(self, world: World, seed: int) -> None:
        world.fail(_rows(world, self.place), seed, evacuate=self.evacuate, for_good=True)

    def __str__(self) -> str:
        return f"--lose {self.place}"


@dataclass(frozen=True, slots=True)
class Add:
    """So many more hosts for each domain of a scope."""

    count: int
    scope: str

    def check(self, start: Start) -> None:
        start.domains(self.scope)

    def apply(self, world: World, _: int) -> None:
        world.add_hosts(self.count, self.scope)

    def __str__(self) -> str:
        return f"--add {self.count} {self.scope}"


def _rows(world: World, place: str) -> Iterable[int]:
    return sorted(world.fleet.row_of[host] for host in world.start.hosts_at(place))
