"""The best end, by CP-SAT: how many leave each host, and how many arrive at each spot.

What matters, in this order: the hard policies, the soft ones as they are listed, the number of moves. Each is made
as small as can be, and then held there. docs/decisions/0012-rebalance-by-cp-sat.md says why it is done so.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ortools.sat.python import cp_model
from ortools.sat.python.cp_model import CpModel, CpSolver

from covey.scheduler.rebalancing.flows import Flows, Term
from covey.scheduler.rebalancing.host_classes import HostClass
from covey.scheduler.rebalancing.problem import Problem
from covey.scheduler.rebalancing.terms import penalty

_LEAST_S = 0.01


@dataclass(frozen=True, slots=True)
class End:
    """How many of each crew leave, and how many of each kind arrive at each spot."""

    leaving: tuple[int, ...]
    arriving: dict[tuple[int, int], int]  # (spot, kind)
    values: tuple[int, ...]  # what is left of the hard policies, and of each soft one
    bound: int  # the fewest moves by which that could be had
    proved: bool  # all of it
    spent_s: float


def solve(case: Problem, spots: Sequence[HostClass], seed: int, patience_s: float) -> End | None:
    """The best end that is found in that time; None if it is too short to find any."""
    search = _Search(case, spots, seed, patience_s)
    *policies, moves = search.goals()
    values = []
    for goal, known in policies:
        value = known if known is not None else search.smallest(goal)
        if value is None:
            break
        values.append(value)
        search.model.add(goal <= value)
    else:
        search.smallest(moves[0])
        return search.end(tuple(values), search.bound)
    return search.end(tuple(values), 0)


class _Search:
    """One goal after another on one model; each begins where the last one ended."""

    def __init__(self, case: Problem, spots: Sequence[HostClass], seed: int, patience_s: float) -> None:
        self.model = CpModel()
        self.bound = 0  # below what the last goal can't be
        self._flows = Flows(self.model, case, spots)
        self._spent_s, self._patience_s = 0.0, patience_s
        self._proved = True
        self._answer: list[int] | None = None
        self._solver = CpSolver()
        self._solver.parameters.num_workers = 1
        self._solver.parameters.random_seed = seed % 2**31
        self._solver.parameters.linearization_level = 2  # these are flows: linear programming sees most of it
        self._begin_at([0] * len(self._flows.variables))  # to leave all as it is would do

    def goals(self) -> list[tuple[Term, int | None]]:
        """What to make small, in this order, and how small it can be where that is known.

        As long as all is well it can stay so. No hard policy may get worse than it is.
        """
        pairs = list(zip(self._flows.case.measures, self._flows.case.before, strict=True))
        hard = [(measure, before) for measure, before in pairs if not measure.policy.kind.is_soft]
        total: Term = 0
        for measure, before in hard:
            term = penalty(self.model, self._flows, measure, steady=True)
            self.model.add(term <= before)
            total = total + term
        well = not any(before for _, before in hard)
        goals: list[tuple[Term, int | None]] = [(total, 0 if well else None)]
        for measure, before in pairs:
            if measure.policy.kind.is_soft:
                term = penalty(self.model, self._flows, measure, steady=well)
                well = well and not before
                goals.append((term, 0 if well else None))
        return [*goals, (sum(self._flows.leave), None)]

    def smallest(self, goal: Term) -> int | None:
        """How small the goal was made; None if there was no time."""
        self.model.minimize(goal)
        left_s = max(_LEAST_S, self._patience_s - self._spent_s)
        self._solver.parameters.max_time_in_seconds = left_s
        self._solver.parameters.max_deterministic_time = left_s  # so that, as a rule, equal inputs end equally
        status = self._solver.solve(self.model)
        self._spent_s += self._solver.wall_time
        self._proved = self._proved and status == cp_model.OPTIMAL
        if status not in {cp_model.OPTIMAL, cp_model.FEASIBLE}:
            return None
        self._answer = [self._solver.value(variable) for variable in self._flows.variables]
        self._begin_at(self._answer)
        self.bound = round(self._solver.best_objective_bound)
        return round(self._solver.objective_value)

    def end(self, values: tuple[int, ...], bound: int) -> End | None:
        """What the last answer says."""
        if self._answer is None:
            return None
        number = len(self._flows.leave)
        arriving = zip(self._flows.arrive, self._answer[number:], strict=True)
        leaving, arrived = tuple(self._answer[:number]), {key: count for key, count in arriving if count}
        return End(leaving, arrived, values, bound, self._proved, self._spent_s)

    def _begin_at(self, values: Sequence[int]) -> None:
        self.model.clear_hints()  # type: ignore[no-untyped-call]
        for variable, value in zip(self._flows.variables, values, strict=True):
            self.model.add_hint(variable, value)
