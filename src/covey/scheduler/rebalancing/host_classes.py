"""Spots: where members are or could go. Hosts that hold some stand alone; empty ones that are alike stand together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey.model.groups import HOST, GroupView, PolicyKind
from covey.scheduler.constraints.room import times_it_fits
from covey.scheduler.fleet import Rows
from covey.scheduler.rebalancing.problem import Problem

_TOGETHER = {PolicyKind.AFFINITY, PolicyKind.SOFT_AFFINITY}


@dataclass(frozen=True, slots=True)
class HostClass:
    """Some hosts, in the same domain of every scope that matters, and how many of each kind would fit there at most."""

    rows: Rows
    most: tuple[int, ...]  # of each kind; for a host that holds members, if all that can move were gone
    free: tuple[int, int, int]

    @property
    def row(self) -> int:
        """One of the hosts, which has the domains of all."""
        return int(self.rows[0])


def find_spots(case: Problem, apart: Iterable[int]) -> list[HostClass]:
    """All of them; the hosts in `apart` stand alone too."""
    most = _most(case)
    alone = np.zeros(len(case.fleet), dtype=np.bool_)
    alone[case.rows] = True
    alone[list(apart)] = True
    alone[_likely_homes(case, most)] = True
    for measure in case.measures:
        if measure.policy.scope == HOST and measure.target is not None and measure.target >= 0:
            alone[measure.target] = True
    singles = [np.array([row], dtype=np.intp) for row in np.flatnonzero(alone)]
    return [_spot(case, rows, most) for rows in (*singles, *_alike(case, most, ~alone))]


def _most(case: Problem) -> NDArray[np.int64]:
    """How many of each kind each host could take, if all that can move were gone."""
    room = case.fleet.copy()
    for crew in case.crews:
        amounts = case.kinds[crew.kind].amounts
        room.take(crew.row, [-amount * len(crew.ids) for amount in amounts])
    limits = [p.limit for p in case.host_policies if p.kind is PolicyKind.ANTI_AFFINITY and p.target is None]
    most = np.zeros((len(case.kinds), len(case.fleet)), dtype=np.int64)
    for number, kind in enumerate(case.kinds):
        members = sum(len(crew.ids) for crew in case.crews if crew.kind == number)
        fits = np.minimum(times_it_fits(kind.spec(GroupView()), room), min([members, *limits]))
        most[number] = np.where(kind.may, fits, 0)
    return most


def _alike(case: Problem, most: NDArray[np.int64], among: NDArray[np.bool_]) -> list[Rows]:
    """Hosts that differ in nothing but their room."""
    rows = np.flatnonzero(among & most.any(axis=0)) if len(most) else np.empty(0, dtype=np.intp)
    if not rows.size:
        return []
    scopes = [measure.domains.of_host[rows] for measure in case.measures if measure.policy.scope != HOST]
    marks = np.stack([*scopes, *(kind.may[rows] for kind in case.kinds)])
    _, group_of = np.unique(marks, axis=1, return_inverse=True)
    order = np.argsort(group_of, kind="stable")
    return np.split(rows[order], np.cumsum(np.bincount(group_of))[:-1])


def _likely_homes(case: Problem, most: NDArray[np.int64]) -> Sequence[int]:
    """Where all of a group may want to be on one host, the roomiest of each lot could be that host."""
    if not any(policy.kind in _TOGETHER and policy.target is None for policy in case.host_policies):
        return []
    empty = np.ones(len(case.fleet), dtype=np.bool_)
    empty[case.rows] = False
    return [int(rows[fits[rows].argmax()]) for rows in _alike(case, most, empty) for fits in most]


def _spot(case: Problem, rows: Rows, most: NDArray[np.int64]) -> HostClass:
    free = case.fleet.free[:, rows]
    cpu, memory, disk = (free if rows.size == 1 else np.maximum(free, 0)).sum(axis=1).tolist()
    return HostClass(rows, tuple(most[:, rows].sum(axis=1).tolist()), (cpu, memory, disk))
