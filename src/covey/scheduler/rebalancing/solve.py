"""The solver: CP-SAT finds how many members leave each host, and how many arrive at each host class.

It minimises one goal after another and then holds each at its minimum: the penalty of the hard policies, that of each
soft policy in its order, the number of moves. docs/decisions/0012-rebalance-by-cp-sat.md has the reasons.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ortools.sat.python import cp_model
from ortools.sat.python.cp_model import CpModel, CpSolver

from covey.scheduler.policies import kind_of
from covey.scheduler.policies.scopes import ScopedPolicy
from covey.scheduler.rebalancing.flows import Flows, Term
from covey.scheduler.rebalancing.host_classes import HostClass
from covey.scheduler.rebalancing.problem import Problem

_MIN_TIMEOUT_S = 0.01


@dataclass(frozen=True, slots=True)
class Solution:
    """How many members of each move group leave, and how many of each class arrive at each host class."""

    leaving: tuple[int, ...]
    arriving: dict[tuple[int, int], int]  # by (host class, member class)
    objective: tuple[int, ...]  # the penalty of the hard policies, and of each soft one
    bound: int  # a lower bound for the number of moves
    proved: bool  # every goal is at its minimum
    spent_s: float


def solve(problem: Problem, host_classes: Sequence[HostClass], seed: int, timeout_s: float) -> Solution | None:
    """Return the best solution found within the timeout; None if there is none."""
    search = _Search(problem, host_classes, seed, timeout_s)
    *policies, moves = search.goals()
    objective = []
    for goal, known in policies:
        value = known if known is not None else search.minimize(goal)
        if value is None:
            break
        objective.append(value)
        search.model.add(goal <= value)
    else:
        search.minimize(moves[0])
        return search.solution(tuple(objective), search.bound)
    return search.solution(tuple(objective), 0)


class _Search:
    """Minimises one goal after another on one model; each search starts from the last solution."""

    def __init__(self, problem: Problem, host_classes: Sequence[HostClass], seed: int, timeout_s: float) -> None:
        self.model = CpModel()
        self.bound = 0  # a lower bound for the last goal
        self._flows = Flows(self.model, problem, host_classes)
        self._spent_s, self._timeout_s = 0.0, timeout_s
        self._proved = True
        self._values: list[int] | None = None
        self._solver = CpSolver()
        self._solver.parameters.num_workers = 1
        self._solver.parameters.random_seed = seed % 2**31
        # The model is mostly a network flow, which linear programming solves well.
        self._solver.parameters.linearization_level = 2
        self._hint([0] * len(self._flows.variables))  # no moves: always a solution

    def goals(self) -> list[tuple[Term, int | None]]:
        """Return what to minimise, in this order, with the minimum where it is known.

        While no penalty before it is positive, a penalty of zero can stay zero. No hard policy's penalty grows.
        """
        problem = self._flows.problem
        pairs = list(zip(problem.scoped, problem.penalties_before, strict=True))
        hard = [(scoped, before) for scoped, before in pairs if not scoped.policy.kind.is_soft]
        total: Term = 0
        for scoped, before in hard:
            term = self._penalty(scoped, monotonic=True)
            self.model.add(term <= before)
            total = total + term
        holds = not any(before for _, before in hard)
        goals: list[tuple[Term, int | None]] = [(total, 0 if holds else None)]
        for scoped, before in pairs:
            if scoped.policy.kind.is_soft:
                term = self._penalty(scoped, monotonic=holds)
                holds = holds and not before
                goals.append((term, 0 if holds else None))
        return [*goals, (sum(self._flows.leave), None)]

    def _penalty(self, scoped: ScopedPolicy, *, monotonic: bool) -> Term:
        flows = self._flows.by_domain(scoped)
        return kind_of(scoped.policy).penalty_term(self.model, scoped, flows, monotonic=monotonic)

    def minimize(self, goal: Term) -> int | None:
        """Return the smallest value found; None if the time did not suffice for any."""
        self.model.minimize(goal)
        left_s = max(_MIN_TIMEOUT_S, self._timeout_s - self._spent_s)
        self._solver.parameters.max_time_in_seconds = left_s
        self._solver.parameters.max_deterministic_time = left_s  # equal inputs usually stop at the same point
        status = self._solver.solve(self.model)
        self._spent_s += self._solver.wall_time
        self._proved = self._proved and status == cp_model.OPTIMAL
        if status not in {cp_model.OPTIMAL, cp_model.FEASIBLE}:
            return None
        self._values = [self._solver.value(variable) for variable in self._flows.variables]
        self._hint(self._values)
        self.bound = round(self._solver.best_objective_bound)
        return round(self._solver.objective_value)

    def solution(self, objective: tuple[int, ...], bound: int) -> Solution | None:
        """Return the last solution found."""
        if self._values is None:
            return None
        number = len(self._flows.leave)
        arriving = zip(self._flows.arrive, self._values[number:], strict=True)
        leaving, arrived = tuple(self._values[:number]), {key: count for key, count in arriving if count}
        return Solution(leaving, arrived, objective, bound, self._proved, self._spent_s)

    def _hint(self, values: Sequence[int]) -> None:
        self.model.clear_hints()  # type: ignore[no-untyped-call]
        for variable, value in zip(self._flows.variables, values, strict=True):
            self.model.add_hint(variable, value)
