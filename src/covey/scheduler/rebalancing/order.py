"""The order of moves: one after another, each allowed by the scheduler and by every policy at its time."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from covey.model.groups import GroupView
from covey.model.ids import HostId
from covey.scheduler.decide import allowed_hosts
from covey.scheduler.provider_allocations import allocations_on, search_budget
from covey.scheduler.rebalancing.assignments import Assignment
from covey.scheduler.rebalancing.problem import Move, Problem

_TRIES = 8

Objective = tuple[tuple[int, ...], int]  # the penalties by precedence, and the number of moves; less is better


@dataclass(frozen=True, slots=True)
class _Leaving:
    """A member that leaves its host."""

    member: str
    member_class: int
    row: int


@dataclass(frozen=True, slots=True)
class MovePlan:
    """Moves in an allowed order, and the blocked ones: no order of them is allowed."""

    moves: tuple[Move, ...]
    blocked: tuple[Move, ...]
    objective: Objective


def order_moves(problem: Problem, assignment: Assignment) -> MovePlan:
    """Return as much of the assignment as has an allowed order.

    The penalty of a hard policy never grows. That of a soft policy stays within the larger of its start and its end,
    unless the move reduces a penalty of higher precedence. Members left over are tried first the next time, a few
    times. Moves after the best point are dropped.
    """
    members = [_Leaving(member, group.member_class, group.row) for group in assignment.leaving for member in group.ids]
    best, left = _Sequence(problem, assignment), members
    for _ in range(_TRIES):
        sequence = _Sequence(problem, assignment)
        left = sequence.run(members)
        best = min(best, sequence, key=lambda candidate: candidate.objective())
        if not left:
            break
        late = set(left)
        members = [*left, *(member for member in members if member not in late)]
    return MovePlan(best.moves(), best.blocked(members), best.objective())


def unserved(problem: Problem, plan: MovePlan) -> dict[tuple[int, int], int]:
    """Return provider trees that took fewer members of a class than assigned: by row and class, how many they took."""
    row_of, roots = problem.fleet.row_of, set(problem.fleet.trees.anchored.roots.tolist())
    class_of = {member: group.member_class for group in problem.move_groups for member in group.ids}
    took = Counter((row_of[move.destination], class_of[move.member]) for move in plan.moves)
    blocked = {(row_of[move.destination], class_of[move.member]) for move in plan.blocked}
    return {(row, number): took[row, number] for row, number in blocked if row in roots}


def may_continue(problem: Problem, moves: Sequence[Move]) -> bool:
    """Return whether the first move is allowed now, and all moves together still reduce the penalties."""
    assignment = _assignment(problem, moves)
    if assignment is None:
        return False
    objective = problem.objective(assignment.penalties(problem))
    first, row = moves[0], problem.fleet.row_of[moves[0].destination]
    group = next(group for group in assignment.leaving if first.member in group.ids)
    leaving = _Leaving(first.member, group.member_class, group.row)
    is_better = objective < problem.objective(problem.penalties_before)
    return is_better and _Sequence(problem, assignment).move(leaving, [row])


def _assignment(problem: Problem, moves: Sequence[Move]) -> Assignment | None:
    """Return the moves as an assignment; None if some of them are not possible any more."""
    group_of = {member: group for group in problem.move_groups for member in group.ids}
    row_of = problem.fleet.row_of
    leaving, receiving = [], {number: Counter[int]() for number in range(len(problem.member_classes))}
    for move in moves:
        group = group_of.get(move.member)
        if group is None or row_of.get(move.source) != group.row or move.destination not in row_of:
            return None
        leaving.append(replace(group, ids=(move.member,)))
        receiving[group.member_class][row_of[move.destination]] += 1
    return Assignment(tuple(leaving), receiving)


class _Sequence:
    """Moves made so far, and the group after them."""

    def __init__(self, problem: Problem, assignment: Assignment) -> None:
        self._problem = problem
        self._fleet = problem.fleet.copy()
        self._receiving = {number: Counter(rows) for number, rows in assignment.receiving.items()}
        self._members_by_host = Counter(problem.fleet.ids[problem.rows].tolist())
        self._counts = [scoped.counts(problem.rows) for scoped in problem.scoped]
        self._penalties = problem.penalties_before
        self._bounds = tuple(map(max, self._penalties, assignment.penalties(problem)))
        self._moves_made: list[tuple[_Leaving, int]] = []
        self._objectives = [problem.objective(self._penalties)]

    def run(self, members: Sequence[_Leaving]) -> list[_Leaving]:
        """Make every move that is allowed until none is, and return the members left over."""
        left, before = list(members), len(members) + 1
        while left and len(left) < before:
            before = len(left)
            left = [member for member in left if not self.move(member, list(self._receiving[member.member_class]))]
        return left

    def objective(self) -> Objective:
        """Return the best objective on the way, and the number of moves to it."""
        return min((objective, moves) for moves, objective in enumerate(self._objectives))

    def moves(self) -> tuple[Move, ...]:
        """Return the moves up to the best point."""
        return tuple(self._move(member, row) for member, row in self._moves_made[: self.objective()[1]])

    def blocked(self, members: Sequence[_Leaving]) -> tuple[Move, ...]:
        """Return the moves that have no allowed order, and those after the best point."""
        kept, dropped = self._moves_made[: self.objective()[1]], self._moves_made[self.objective()[1] :]
        receiving = {number: list(rows.elements()) for number, rows in self._receiving.items()}
        for member, row in dropped:
            receiving[member.member_class].append(row)
        done = {member for member, _ in kept}
        return tuple(self._move(m, receiving[m.member_class].pop()) for m in members if m not in done)

    def move(self, member: _Leaving, rows: Iterable[int]) -> bool:
        """Move the member to the first of these hosts that is allowed; return whether there is one."""
        member_class, source = self._problem.member_classes[member.member_class], self._id(member.row)
        self._members_by_host[source] -= 1  # a member does not count against itself
        spec = member_class.spec(GroupView(self._problem.policies, +self._members_by_host, source_host=source))
        mask = allowed_hosts(spec, self._fleet)
        for row in rows:
            # The member counts on its present host until it has arrived.
            taken = allocations_on(spec, self._fleet, row, search_budget(1)) if mask[row] else None
            if taken is not None and self._count_if_allowed(member.row, row):
                self._receiving[member.member_class] = self._receiving[member.member_class] - Counter([row])
                self._members_by_host[self._id(row)] += 1
                left = ((provider, each * -1) for provider, each in self._problem.held[member.member].items())
                self._fleet.take_all([*left, *taken.items()])
                self._moves_made.append((member, row))
                self._objectives.append(self._problem.objective(self._penalties))
                return True
        self._members_by_host[source] += 1
        return False

    def _count_if_allowed(self, source: int, destination: int) -> bool:
        """Add the move to the counts, unless it increases a penalty that may not grow. Return whether it is added."""
        self._count(source, destination)
        problem, before = self._problem, self._penalties
        after = problem.penalties(self._counts)
        is_better = problem.objective(after) < problem.objective(before)
        for policy, old, new, bound in zip(problem.policies, before, after, self._bounds, strict=True):
            if new > old and not (policy.kind.is_soft and (is_better or new <= bound)):
                self._count(destination, source)
                return False
        self._penalties = after
        return True

    def _count(self, source: int, destination: int) -> None:
        for scoped, counts in zip(self._problem.scoped, self._counts, strict=True):
            counts[[*scoped.counted_in(source)]] -= 1
            counts[[*scoped.counted_in(destination)]] += 1

    def _move(self, member: _Leaving, row: int) -> Move:
        return Move(member.member, self._id(member.row), self._id(row))

    def _id(self, row: int) -> HostId:
        return HostId(int(self._problem.fleet.ids[row]))
