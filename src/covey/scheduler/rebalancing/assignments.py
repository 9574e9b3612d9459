"""From how many to whom: which members leave, and which hosts wait for some."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from covey.model.groups import GroupView
from covey.model.ids import HostId
from covey.scheduler.decide import decide
from covey.scheduler.rebalancing.host_classes import HostClass
from covey.scheduler.rebalancing.measures import ranked
from covey.scheduler.rebalancing.problem import MoveGroup, Problem

if TYPE_CHECKING:
    from covey.scheduler.rebalancing.solve import End  # not otherwise: the solver is slow to import


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who leaves, and the hosts that wait for some of each kind; who goes where is not yet said."""

    leaving: tuple[MoveGroup, ...]  # only those who do
    waiting: dict[int, Counter[int]]  # by kind: how many each row waits for

    def values(self, case: Problem) -> tuple[int, ...]:
        """How badly each policy is broken when all have arrived."""
        gone: Counter[int] = Counter()
        for crew in self.leaving:
            gone[crew.row] += len(crew.ids)
        now = Counter(case.rows.tolist()) - gone + sum(self.waiting.values(), Counter[int]())
        rows = np.array(list(now.elements()), dtype=np.intp)
        return tuple(measure.of(measure.counts(rows)) for measure in case.measures)


def name_hosts(case: Problem, spots: Sequence[HostClass], end: "End", seed: int) -> tuple[Assignment, set[int]]:
    """Let the scheduler choose among the hosts of each lot.

    Tells also the hosts of lots that could not take as many, or not as evenly, as they were thought to.
    """
    waiting: dict[int, Counter[int]] = {kind: Counter() for kind in range(len(case.kinds))}
    fleet = case.fleet.copy()
    places = Counter(case.fleet.ids[case.rows].tolist())
    doubtful: set[int] = set()
    used: set[int] = set()
    for (number, kind), count in sorted(end.arriving.items(), key=lambda item: _size(case, item[0][1]), reverse=True):
        spot = spots[number]
        if spot.rows.size == 1:
            waiting[kind][spot.row] += count
            continue
        hosts = frozenset(map(HostId, fleet.ids[spot.rows].tolist()))
        spec = case.kinds[kind].spec(GroupView(case.host_policies, dict(places)), count, hosts)
        chosen = decide(spec, fleet, seed).fitting
        if chosen:
            fleet.take_for(chosen, spec.amounts)
        places.update(chosen)
        waiting[kind].update(fleet.row_of[host] for host in chosen)
        used.update(spot.rows.tolist())
        if len(chosen) < count:
            doubtful.update(spot.rows.tolist())
    errands = _even(case, end, waiting)
    value = ranked(case.measures, errands.values(case))[: len(end.values)]
    return errands, doubtful or (used if value > end.values else set())


def _size(case: Problem, kind: int) -> tuple[int, int, int]:
    return case.kinds[kind].amounts


def _even(case: Problem, end: "End", waiting: dict[int, Counter[int]]) -> Assignment:
    """As many leave as are waited for, and nobody for where it is already."""
    leaving = []
    for kind, hosts in waiting.items():
        left = hosts.total()
        for crew, number in zip(case.crews, end.leaving, strict=True):
            if crew.kind == kind and number:
                back = min(number, hosts[crew.row])
                hosts[crew.row] -= back
                left -= back
                going = min(number - back, left)
                left -= going
                if going:
                    leaving.append(replace(crew, ids=crew.ids[:going]))
        waiting[kind] = +hosts
    return Assignment(tuple(leaving), waiting)
