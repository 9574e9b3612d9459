"""Builders of small simulations: a test states only the fields that matter."""

import itertools
from collections.abc import Iterable

from covey.model.resources import server_resources
from covey.simulation.cloud import SimulatedCloud
from covey.simulation.events import Boot, Event, Grow
from covey.simulation.initial_state import InitialState
from covey.simulation.replay import Outcome, Replay
from covey.simulation.synthetic import Synthetic
from covey.simulation.what_ifs import WhatIf
from covey.simulation.workload import Mix, Workload, generate

SMALL = (1, 2048, 20)


def start(hosts: int = 60, zones: int = 3, racks_per_zone: int = 4) -> InitialState:
    """Racks of five hosts, with room for a few servers each."""
    return Synthetic(hosts, zones, racks_per_zone, capacity=server_resources(32, 65536, 1000)).start()


def stream(
    begin: InitialState, seed: int = 1, boots: int | None = None, failures: int = 5, mix: tuple[Mix, ...] = ()
) -> list[Event]:
    return generate(begin, Workload(boots, failures=failures, mix=mix), seed)


def replayed(
    events: Iterable[Event], *what_ifs: WhatIf, begin: InitialState | None = None, at: float = 0.5, **how: bool
) -> Outcome:
    ticks = itertools.count()
    return Replay(begin or start(), list(events), lambda: next(ticks), **how).run(what_ifs, at)


def a_cloud(begin: InitialState | None = None) -> SimulatedCloud:
    return SimulatedCloud(begin or start(), lambda: 0.0)


def boot(name: str, group: str | None = None, *policies: str, count: int = 1, **more: object) -> Boot:
    return Boot(name, *SMALL, count=count, group=group, policies=policies, **more)  # type: ignore[arg-type]


def boots(number: int, group: str | None = None, *policies: str) -> list[Event]:
    return [Event(float(n), boot(f"s{n}", group, *policies)) for n in range(number)]


def grow(group: str, count: int) -> Grow:
    return Grow(group, count)
