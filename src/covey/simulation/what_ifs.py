"""What-ifs: changes of the fleet during a run, to compare it with the run without them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from covey.simulation.cloud import SimulatedCloud
from covey.simulation.initial_state import InitialState


class WhatIf(Protocol):
    """One change. Its text is its command-line option."""

    def check(self, start: InitialState) -> None:
        """Raise Invalid for an unknown aggregate, zone, host or scope."""

    def apply(self, cloud: SimulatedCloud, seed: int) -> None:
        """Apply the change."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Disable the hosts of an aggregate or a zone, or one host, and migrate their servers."""

    place: str

    def check(self, start: InitialState) -> None:
        start.hosts_at(self.place)

    def apply(self, cloud: SimulatedCloud, seed: int) -> None:
        cloud.drain(_rows(cloud, self.place), seed)

    def __str__(self) -> str:
        return f"--drain {self.place}"


@dataclass(frozen=True, slots=True)
class Lose:
    """Take the hosts of an aggregate or a zone, or one host, down permanently; optionally evacuate their servers."""

    place: str
    evacuate: bool = False

    def check(self, start: InitialState) -> None:
        start.hosts_at(self.place)

    def apply(self, cloud: SimulatedCloud, seed: int) -> None:
        cloud.fail(_rows(cloud, self.place), seed, evacuate=self.evacuate, permanent=True)

    def __str__(self) -> str:
        return f"--lose {self.place}"


@dataclass(frozen=True, slots=True)
class Add:
    """Add hosts to each domain of a scope."""

    count: int
    scope: str

    def check(self, start: InitialState) -> None:
        start.domains(self.scope)

    def apply(self, cloud: SimulatedCloud, _: int) -> None:
        cloud.add_hosts(self.count, self.scope)

    def __str__(self) -> str:
        return f"--add {self.count} {self.scope}"


def _rows(cloud: SimulatedCloud, place: str) -> Iterable[int]:
    return sorted(cloud.fleet.row_of[host] for host in cloud.start.hosts_at(place))
