"""An order for the errands: one step after another, each of them one that the scheduler allows and no policy minds."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from covey.model.groups import GroupView
from covey.model.ids import HostId
from covey.scheduler.decide import allowed
from covey.scheduler.rebalancing.assignments import Assignment
from covey.scheduler.rebalancing.measures import ranked
from covey.scheduler.rebalancing.plans import Move
from covey.scheduler.rebalancing.problem import Problem

_TRIES = 8


@dataclass(frozen=True, slots=True)
class _Task:
    """One who leaves."""

    member: str
    kind: int
    row: int


@dataclass(frozen=True, slots=True)
class MovePlan:
    """Moves that can be made one after another, and those for which there is no such order."""

    moves: tuple[Move, ...]
    left: tuple[Move, ...]
    worth: tuple[tuple[int, ...], int]  # what is wrong in the end, and the number of moves; less is better


def in_order(case: Problem, errands: Assignment) -> MovePlan:
    """As much of the errands as there is an order for.

    A hard policy never gets worse on the way. A soft one gets no worse than it was or will be, unless the step makes
    something better that comes before it. Who was left over is first the next time, a few times. Moves that turn out
    to be in vain are not made.
    """
    tasks = [_Task(member, crew.kind, crew.row) for crew in errands.leaving for member in crew.ids]
    best, left = _Walk(case, errands), tasks
    for _ in range(_TRIES):
        walk = _Walk(case, errands)
        left = walk.go(tasks)
        best = min(best, walk, key=lambda each: each.worth())
        if not left:
            break
        late = set(left)
        tasks = [*left, *(task for task in tasks if task not in late)]
    return MovePlan(best.moves(), best.left(tasks), best.worth())


def may_go_on(case: Problem, moves: Sequence[Move]) -> bool:
    """Whether the first of the moves may be made now, and all of them together still make something better."""
    errands = _errands(case, moves)
    if errands is None:
        return False
    worth = ranked(case.measures, errands.values(case))
    first, row = moves[0], case.fleet.row_of[moves[0].destination]
    crew = next(crew for crew in errands.leaving if first.member in crew.ids)
    walk = _Walk(case, errands)
    return worth < ranked(case.measures, case.before) and walk.step(_Task(first.member, crew.kind, crew.row), [row])


def _errands(case: Problem, moves: Sequence[Move]) -> Assignment | None:
    """The moves as errands; None if some of them can't be made any more."""
    crew_of = {member: crew for crew in case.crews for member in crew.ids}
    row_of = case.fleet.row_of
    leaving, waiting = [], {kind: Counter[int]() for kind in range(len(case.kinds))}
    for move in moves:
        crew = crew_of.get(move.member)
        if crew is None or row_of.get(move.source) != crew.row or move.destination not in row_of:
            return None
        leaving.append(replace(crew, ids=(move.member,)))
        waiting[crew.kind][row_of[move.destination]] += 1
    return Assignment(tuple(leaving), waiting)


class _Walk:
    """The group on its way."""

    def __init__(self, case: Problem, errands: Assignment) -> None:
        self._case = case
        self._fleet = case.fleet.copy()
        self._waiting = {kind: Counter(rows) for kind, rows in errands.waiting.items()}
        self._places = Counter(case.fleet.ids[case.rows].tolist())
        self._counts = [measure.counts(case.rows) for measure in case.measures]
        self._values = case.before
        self._bounds = tuple(map(max, case.before, errands.values(case)))
        self._made: list[tuple[_Task, int]] = []
        self._worth = [ranked(case.measures, self._values)]

    def go(self, tasks: Sequence[_Task]) -> list[_Task]:
        """Take every step that can be taken, as long as there is one; tells what is left."""
        left, before = list(tasks), len(tasks) + 1
        while left and len(left) < before:
            before = len(left)
            left = [task for task in left if not self.step(task, list(self._waiting[task.kind]))]
        return left

    def worth(self) -> tuple[tuple[int, ...], int]:
        """The best that it comes to, and after how many steps."""
        return min((worth, steps) for steps, worth in enumerate(self._worth))

    def moves(self) -> tuple[Move, ...]:
        """The steps that are worth it."""
        return tuple(self._move(task, row) for task, row in self._made[: self.worth()[1]])

    def left(self, tasks: Sequence[_Task]) -> tuple[Move, ...]:
        """The others."""
        made, in_vain = self._made[: self.worth()[1]], self._made[self.worth()[1] :]
        waiting = {kind: list(rows.elements()) for kind, rows in self._waiting.items()}
        for task, row in in_vain:
            waiting[task.kind].append(row)
        done = {task for task, _ in made}
        return tuple(self._move(task, waiting[task.kind].pop()) for task in tasks if task not in done)

    def step(self, task: _Task, rows: Iterable[int]) -> bool:
        """Go to the first of these hosts that may be gone to, if there is one."""
        kind, here = self._case.kinds[task.kind], self._id(task.row)
        self._places[here] -= 1  # it never counts against itself
        may = allowed(kind.spec(GroupView(self._case.policies, +self._places)), self._fleet)
        for row in rows:
            if may[row] and self._fits_the_policies(task.row, row):
                self._waiting[task.kind] = self._waiting[task.kind] - Counter([row])
                self._places[self._id(row)] += 1
                self._fleet.take(task.row, [-amount for amount in kind.amounts])
                self._fleet.take(row, kind.amounts)
                self._made.append((task, row))
                self._worth.append(ranked(self._case.measures, self._values))
                return True
        self._places[here] += 1
        return False

    def _fits_the_policies(self, source: int, destination: int) -> bool:
        """Counts the step in, unless some policy minds it."""
        self._count(source, destination)
        measures, before = self._case.measures, self._values
        values = tuple(measure.of(counts) for measure, counts in zip(measures, self._counts, strict=True))
        better = ranked(measures, values) < ranked(measures, before)
        for measure, now, then, bound in zip(measures, before, values, self._bounds, strict=True):
            if then > now and not (measure.policy.kind.is_soft and (better or then <= bound)):
                self._count(destination, source)
                return False
        self._values = values
        return True

    def _count(self, source: int, destination: int) -> None:
        for measure, counts in zip(self._case.measures, self._counts, strict=True):
            counts[measure.domains.of_host[source]] -= 1
            counts[measure.domains.of_host[destination]] += 1

    def _move(self, task: _Task, row: int) -> Move:
        return Move(task.member, self._id(task.row), self._id(row))

    def _id(self, row: int) -> HostId:
        return HostId(int(self._case.fleet.ids[row]))
