"""Assignments: the members that leave, and how many each host receives, from a solution that only has numbers."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from covey.model.groups import GroupView
from covey.model.ids import HostId
from covey.scheduler.decide import decide
from covey.scheduler.rebalancing.host_classes import HostClass
from covey.scheduler.rebalancing.problem import MoveGroup, Problem

if TYPE_CHECKING:
    from covey.scheduler.rebalancing.solve import Solution  # the solver is optional, and slow to import


@dataclass(frozen=True, slots=True)
class Assignment:
    """The members that leave, and how many of each class each host receives; which member goes where is still open."""

    leaving: tuple[MoveGroup, ...]  # only the members that leave
    receiving: dict[int, Counter[int]]  # by member class: the number of members for each row

    def penalties(self, problem: Problem) -> tuple[int, ...]:
        """Return the penalty of each policy after all moves."""
        left: Counter[int] = Counter()
        for group in self.leaving:
            left[group.row] += len(group.ids)
        after = Counter(problem.rows.tolist()) - left + sum(self.receiving.values(), Counter[int]())
        rows = np.array(list(after.elements()), dtype=np.intp)
        return problem.penalties([scoped.counts(rows) for scoped in problem.scoped])


def name_hosts(
    problem: Problem, host_classes: Sequence[HostClass], solution: "Solution", seed: int
) -> tuple[Assignment, set[int]]:
    """Let the scheduler choose among the hosts of each class.

    Returns also the rows of host classes that took fewer members, or less evenly, than the solution assumes.
    """
    receiving: dict[int, Counter[int]] = {number: Counter() for number in range(len(problem.member_classes))}
    fleet = problem.fleet.copy()
    members_by_host = Counter(problem.fleet.ids[problem.rows].tolist())
    doubtful: set[int] = set()
    used: set[int] = set()

    def size(arrival: tuple[tuple[int, int], int]) -> list[int]:
        amounts = problem.member_classes[arrival[0][1]].total
        return [amounts.get(name, 0) for name in problem.fleet.inventories.classes]

    for (number, member_class), count in sorted(solution.arriving.items(), key=size, reverse=True):
        host_class = host_classes[number]
        if host_class.rows.size == 1:
            receiving[member_class][host_class.row] += count
            continue
        hosts = frozenset(map(HostId, fleet.ids[host_class.rows].tolist()))
        group = GroupView(problem.host_policies, dict(members_by_host))
        spec = problem.member_classes[member_class].spec(group, count, hosts)
        decision = decide(spec, fleet, seed)
        chosen = decision.chosen
        fleet.take_all(use for served in decision.allocations(spec.amounts) for use in served.items())
        members_by_host.update(chosen)
        receiving[member_class].update(fleet.row_of[host] for host in chosen)
        used.update(host_class.rows.tolist())
        if len(chosen) < count:
            doubtful.update(host_class.rows.tolist())
    assignment = _balance(problem, solution, receiving)
    objective = problem.objective(assignment.penalties(problem))[: len(solution.objective)]
    return assignment, doubtful or (used if objective > solution.objective else set())


def _balance(problem: Problem, solution: "Solution", receiving: dict[int, Counter[int]]) -> Assignment:
    """Let as many members leave as hosts receive, and none for the host that it is on."""
    leaving = []
    for member_class, hosts in receiving.items():
        left = hosts.total()
        for group, number in zip(problem.move_groups, solution.leaving, strict=True):
            if group.member_class == member_class and number:
                staying = min(number, hosts[group.row])
                hosts[group.row] -= staying
                left -= staying
                going = min(number - staying, left)
                left -= going
                if going:
                    leaving.append(replace(group, ids=group.ids[:going]))
        receiving[member_class] = +hosts
    return Assignment(tuple(leaving), receiving)
