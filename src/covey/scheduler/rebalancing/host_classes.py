"""Host classes: each host that holds members is a class of its own; empty hosts that are alike form one class."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey.model.groups import HOST, Direction, GroupView
from covey.scheduler.fleet import Rows
from covey.scheduler.policies import hard_policies
from covey.scheduler.rebalancing.problem import Problem
from covey.scheduler.room import count_fits


@dataclass(frozen=True, slots=True)
class HostClass:
    """Hosts in the same domain of every scope that a policy names."""

    rows: Rows
    most: tuple[int, ...]  # members of each class that fit once every movable member has left
    free: Mapping[str, int]  # by resource class: the sum over the hosts, with the providers of their trees

    @property
    def row(self) -> int:
        """One of the hosts, for the domains that all share."""
        return int(self.rows[0])


Caps = Mapping[tuple[int, int], int]
"""The most members of a class that a host takes, by row and member class, where it is known to take few."""


def classify_hosts(problem: Problem, single: Iterable[int], caps: Caps) -> list[HostClass]:
    """Return all host classes; the hosts in `single` are classes of their own too."""
    most = _most(problem)
    for (row, member_class), cap in caps.items():
        most[member_class, row] = min(most[member_class, row], cap)
    free = _free(problem)
    alone = np.zeros(len(problem.fleet), dtype=np.bool_)
    alone[problem.rows] = True
    alone[list(single)] = True
    alone[_gathering_hosts(problem, most)] = True
    for scoped in problem.scoped:
        alone[list(scoped.several)] = True
        if scoped.policy.scope == HOST and scoped.target is not None and scoped.target >= 0:
            alone[scoped.target] = True
    singles = [np.array([row], dtype=np.intp) for row in np.flatnonzero(alone)]
    return [_host_class(problem, rows, most, free) for rows in (*singles, *_equivalent_hosts(problem, most, ~alone))]


def _most(problem: Problem) -> NDArray[np.int64]:
    """Return how many members of each class each host takes once every movable member has left."""
    fleet = problem.fleet.copy()
    fleet.return_all(use for held in problem.held.values() for use in held.items())
    kinds = hard_policies(GroupView(problem.host_policies))
    limits = [limit for kind, policy in kinds if (limit := kind.max_members_per_host(policy)) is not None]
    most = np.zeros((len(problem.member_classes), len(fleet)), dtype=np.int64)
    for number, member_class in enumerate(problem.member_classes):
        members = sum(len(group.ids) for group in problem.move_groups if group.member_class == number)
        fits = np.minimum(count_fits(member_class.spec(GroupView()), fleet), min([members, *limits]))
        most[number] = np.where(member_class.mask, fits, 0)
    return most


def _equivalent_hosts(problem: Problem, most: NDArray[np.int64], among: NDArray[np.bool_]) -> list[Rows]:
    """Return the hosts that differ in nothing but their room, class by class."""
    rows = np.flatnonzero(among & most.any(axis=0)) if len(most) else np.empty(0, dtype=np.intp)
    if not rows.size:
        return []
    domains = [scoped.domains.of_host[rows] for scoped in problem.scoped if scoped.policy.scope != HOST]
    keys = np.stack([*domains, *(member_class.mask[rows] for member_class in problem.member_classes)])
    _, class_of = np.unique(keys, axis=1, return_inverse=True)
    order = np.argsort(class_of, kind="stable")
    return np.split(rows[order], np.cumsum(np.bincount(class_of))[:-1])


def _gathering_hosts(problem: Problem, most: NDArray[np.int64]) -> Sequence[int]:
    """Return the roomiest host of each class if a policy gathers the group on one host: it may become that host."""
    if not any(policy.kind.direction is Direction.GATHER and policy.target is None for policy in problem.host_policies):
        return []
    empty = np.ones(len(problem.fleet), dtype=np.bool_)
    empty[problem.rows] = False
    return [int(rows[fits[rows].argmax()]) for rows in _equivalent_hosts(problem, most, empty) for fits in most]


def _free(problem: Problem) -> NDArray[np.int64]:
    """Return the free amounts of each host: a line for each class; in a tree, of all its providers together."""
    free, anchored = problem.fleet.free.copy(), problem.fleet.trees.anchored
    if anchored.roots.size:
        for line in free:
            line[anchored.roots] = anchored.sums(np.maximum(line[anchored.provider], 0))
    return free


def _host_class(problem: Problem, rows: Rows, most: NDArray[np.int64], free_of_all: NDArray[np.int64]) -> HostClass:
    free = free_of_all[:, rows]
    total = (free if rows.size == 1 else np.maximum(free, 0)).sum(axis=1).tolist()
    by_class = dict(zip(problem.fleet.inventories.classes, total, strict=True))
    return HostClass(rows, tuple(most[:, rows].sum(axis=1).tolist()), by_class)
