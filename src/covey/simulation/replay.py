"""A stream of happenings, replayed on a fleet: the same stream and seed, the same outcome."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey.model.groups import HOST
from covey.model.ids import HostId
from covey.scheduler.violations import violations
from covey.simulation.events import Event
from covey.simulation.gauges import Gauges, History
from covey.simulation.start import Start
from covey.simulation.what_ifs import WhatIf
from covey.simulation.world import Clock, Counts, World

LOOKS = 200  # at the world, in a run


@dataclass(frozen=True, slots=True)
class GroupsFate:
    """How the groups fared, in the end."""

    groups: int  # that still want members
    whole: int  # have every member that they asked for
    emptied: int  # have none
    breaking: int  # break a hard policy
    uneven: int  # break a soft one


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run."""

    counts: Counts
    history: History
    fate: GroupsFate
    decision_s: NDArray[np.float64]
    places: dict[str, str]  # the host of each server, by name


@dataclass(frozen=True, slots=True)
class Replay:
    """How a stream is replayed. Times are of decisions alone, by the clock; nothing else depends on it."""

    start: Start
    stream: Sequence[Event]
    clock: Clock
    seed: int = 0
    evacuate: bool = False  # servers of failed hosts find other places

    def run(
        self, what_ifs: Sequence[WhatIf] = (), at: float = 0.5, progress: Callable[[int], None] = lambda _: None
    ) -> Outcome:
        """Everything in turn; what-ifs come when that part of the stream is done. Raises Invalid."""
        world = World(self.start, self.clock)
        gauges = Gauges((HOST.name, *self.start.scopes), tuple(sorted(world.fleet.zones)))
        gauges.look(world, 0.0)
        turn = int(len(self.stream) * at) if what_ifs else -1
        every, now = max(1, len(self.stream) // LOOKS), 0.0
        for number, event in enumerate(self.stream):
            if number == turn:
                self._change(world, gauges, what_ifs, now)
            now = event.at
            self._happen(world, event, self.seed + number)
            if (number + 1) % every == 0:
                gauges.look(world, now)
                progress(every)
        if turn == len(self.stream):
            self._change(world, gauges, what_ifs, now)
        gauges.look(world, now)
        progress(len(self.stream) % every)
        hosts = world.fleet.hosts
        places = {name: hosts[seat.row].name for name, seat in world.servers.items()}
        return Outcome(world.counts, gauges.history(), fate(world), np.array(world.decision_s), places)

    def _happen(self, world: World, event: Event, seed: int) -> None:
        if event.boot is not None:
            world.boot(event.boot, seed)
        elif event.delete is not None:
            world.delete(event.delete)
        elif event.grow is not None:
            world.grow(event.grow, seed)
        elif event.fail is not None:
            world.fail([world.row(event.fail)], seed, evacuate=self.evacuate)
        elif event.recover is not None:
            world.recover([world.row(event.recover)])

    def _change(self, world: World, gauges: Gauges, what_ifs: Sequence[WhatIf], now: float) -> None:
        """With a look before and after, so that what it did is seen."""
        gauges.look(world, now)
        for what_if in what_ifs:
            what_if.apply(world, self.seed)
        gauges.changed_at_s = now
        gauges.look(world, now)


def fate(world: World) -> GroupsFate:
    """By the same verdicts that an audit gives."""
    places = {name: dict[str, HostId]() for name in world.groups}
    for name, seat in world.servers.items():
        if seat.group is not None:
            places[seat.group][name] = world.fleet.hosts[seat.row].id
    wanted = {name: group.wanted for name, group in world.groups.items() if group.wanted > 0}
    broken = [
        {found.soft for found in violations(group.view.policies, places[name], world.fleet)}
        for name, group in world.groups.items()
    ]
    return GroupsFate(
        groups=len(wanted),
        whole=sum(len(places[name]) >= number for name, number in wanted.items()),
        emptied=sum(not places[name] for name in wanted),
        breaking=sum(False in kinds for kinds in broken),
        uneven=sum(True in kinds for kinds in broken),
    )
