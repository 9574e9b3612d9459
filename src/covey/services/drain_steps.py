"""Carries out a drain: several moves at once, each checked against the present state, until no server can leave."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog

from covey.model.access import Actor
from covey.model.drains import Drain, DrainStatus, DrainStep, StepStatus
from covey.model.errors import Busy, Conflict, Invalid, NotFound, NoValidHost, ServiceFault, Unavailable
from covey.model.ids import HostId
from covey.model.server_moves import LONGEST_OUTAGE_PAUSE_S, LONGEST_PAUSE_S, MoveState, ServerPosition, pause_s
from covey.model.work import Job, JobKind
from covey.ports import Clock, Mover
from covey.scheduler.drain_planning import PlannedMove
from covey.services.drains import DrainHosts, DrainPlanner, DrainSnapshot
from covey.services.movers import on_behalf_of
from covey.storage.store import Store

log = structlog.get_logger()

_MOVES_AT_ONCE = 4
_MAX_ATTEMPTS_PER_SERVER = 2
_NO_HOSTS: frozenset[HostId] = frozenset()
_UNKNOWN = "Nova does not show where {} is: its cell is down, or Nova fails."
_STALLED_S = 60  # without progress, for servers that are busy


@dataclass(frozen=True, slots=True)
class DrainSteps:
    """Every run asks where the servers are now, so any worker may continue after another died.

    A move is saved as pending before it begins. So a worker that continues knows which moves are those of the drain,
    and plans a pending one again if it did not begin.
    """

    store: Store
    clock: Clock
    planner: DrainPlanner
    mover: Mover

    def run(self, job: Job) -> None:
        """Carry out what is possible now; add a job for the rest."""
        with self.store.read() as tx:
            found = tx.drains.by_id(job.subject_id)
        longest_s = LONGEST_PAUSE_S
        if found is not None and not found.is_over:
            try:
                self._advance(found)
            except Unavailable as error:
                self._save(found, replace(found, reason=error.message))
                longest_s = LONGEST_OUTAGE_PAUSE_S
        self._queue_next(job.subject_id, longest_s)

    def _advance(self, found: Drain) -> None:
        # Positions come first: a move that ends after them is still counted as in progress.
        positions = self.mover.positions([step.server_id for step in found.open_steps])
        settled = [
            self._settled(found, step, positions.get(step.server_id)) if step.is_open else step for step in found.steps
        ]
        steps = tuple(step for step in settled if step is not None)
        overdue = next((step.reason for step in steps if step.is_open and step.reason), None)
        after = replace(found, steps=steps, reason=overdue)
        moves, snapshot = list[PlannedMove](), None
        if found.is_running:
            with self.store.read() as tx:
                snapshot = self.planner.snapshot(tx, DrainHosts.named(tx, found.hosts))
            after, moves = self._planned(after, snapshot)
        saved = self._save(found, after)
        if saved is not None and moves:
            self._begin_all(saved, moves)

    def _settled(self, found: Drain, step: DrainStep, position: ServerPosition | None) -> DrainStep | None:
        """Return an open step, updated by the position of its server.

        None if the move did not begin, or the server went elsewhere.
        """
        state = MoveState.DIVERGED if position is None else position.state(step.source, step.destination)
        if position is None or state is MoveState.DIVERGED:
            return None
        if state is MoveState.DONE:
            return replace(step, status=StepStatus.DONE, reason=None)
        if state is MoveState.WAITING and step.status is StepStatus.MOVING and found.is_running and position.cold_next:
            return self._begin(found, step, cold=True)
        if state is MoveState.WAITING:
            failure = position.failure or f"The move to {step.destination} failed."
            failed = replace(step, status=StepStatus.FAILED, reason=failure, refused=position.refused)
            return failed if step.status is StepStatus.MOVING else None
        reason = _UNKNOWN.format(step.server_id) if position.unknown else None
        if state is MoveState.ARRIVED:
            reason = self._confirm(found, step)
        elif position.overdue or not (found.is_running or position.unknown):
            aborted = self.mover.abort(step.server_id)
            if position.overdue and not aborted:  # followed to its end, since Covey confirms it
                reason = f"The move to {step.destination} takes longer than it may, and can't be aborted."
        return replace(step, status=StepStatus.MOVING, reason=reason)

    def _confirm(self, found: Drain, step: DrainStep) -> str | None:
        """Begin to confirm a move that arrived. Return why that failed, until the next run. Raises Unavailable."""
        try:
            with suppress(Conflict, Invalid, NotFound):  # its owner was faster
                self.mover.confirm(_requester(found), found.request_id, step.server_id)
        except ServiceFault as error:
            return error.message
        return None

    def _planned(self, found: Drain, snapshot: DrainSnapshot) -> tuple[Drain, list[PlannedMove]]:
        """Return the drain with the moves that begin now, or its end if nothing is left to do."""
        moving, rest = len(found.open_steps), snapshot.after(found.steps, _MAX_ATTEMPTS_PER_SERVER, avoid_refused=True)
        if moving >= _MOVES_AT_ONCE:
            return found, []
        moves, blocked = self.planner.plan(snapshot, rest, most=_MOVES_AT_ONCE - moving)
        if not moving and not moves and any(step.refused for step in found.steps):
            # What is left is tried where others were refused: Nova may have refused what only these asked for.
            rest = snapshot.after(found.steps, _MAX_ATTEMPTS_PER_SERVER, avoid_refused=False)
            moves, blocked = self.planner.plan(snapshot, rest, most=_MOVES_AT_ONCE)
        if moving or moves:
            name = snapshot.name
            new = (DrainStep(each.server.id, name(each.server.host), name(each.destination)) for each in moves)
            return replace(found, steps=(*found.steps, *new)), moves
        if not rest:
            return replace(found, status=DrainStatus.DONE, left=()), []
        waits = any(candidate.waits for candidate in rest)
        if waits and self.clock() < found.updated_at + timedelta(seconds=_STALLED_S):
            return found, []
        return replace(found, status=DrainStatus.FAILED, left=snapshot.left(blocked, found.steps)), []

    def _begin_all(self, found: Drain, moves: Sequence[PlannedMove]) -> None:
        """Begin the pending moves, and save their outcomes. Raises Unavailable if one of them is unknown.

        A later run asks which of those began. One instance for which Nova does not answer stops no other.
        """
        begins: dict[str, PlannedMove] = {move.server.id: move for move in moves}
        steps, outage = list[DrainStep](), None
        for step in found.steps:
            after: DrainStep | None = step
            if step.status is StepStatus.PENDING:
                try:
                    after = self._begin(found, step, begins[step.server_id].leaving)
                except Unavailable as error:
                    outage = error
            steps += [] if after is None else [after]
        reason = found.reason if outage is None else outage.message
        self._save(found, replace(found, steps=tuple(steps), reason=reason))
        if outage is not None:
            raise outage

    def _begin(
        self, found: Drain, step: DrainStep, leaving: frozenset[HostId] = _NO_HOSTS, *, cold: bool = False
    ) -> DrainStep | None:
        """Begin a move. Return its step, or None if it is planned again. Raises Unavailable."""
        try:
            who, destination = _requester(found), step.destination
            self.mover.begin(who, found.request_id, step.server_id, destination, leaving, cold=cold)
        except (Busy, NotFound):
            return None
        except (NoValidHost, Conflict, Invalid) as error:
            log.info("drain.move_refused", drain=found.id, server=step.server_id, reason=error.message)
            return replace(step, status=StepStatus.FAILED, reason=error.message)
        except ServiceFault as error:  # before or after the move began
            position = self.mover.positions([step.server_id]).get(step.server_id)
            if position is not None and position.state(step.source, step.destination) is MoveState.WAITING:
                log.info("drain.move_refused", drain=found.id, server=step.server_id, reason=error.message)
                return replace(step, status=StepStatus.FAILED, reason=error.message)
        return replace(step, status=StepStatus.MOVING)

    def _save(self, before: Drain, after: Drain) -> Drain | None:
        """Save the progress. Return what is saved; None if another request or worker changed the drain."""
        with self.store.write() as tx:
            if tx.drains.by_id(before.id, lock=True) != before:
                return None
            if after != before:
                after = replace(after, updated_at=self.clock())
                tx.drains.update(after)
        return after

    def _queue_next(self, drain: str, longest_s: float) -> None:
        """Add a job that continues the drain, unless nothing is left to do."""
        now = self.clock()
        with self.store.write() as tx:
            current = tx.drains.by_id(drain)
            tx.work.finish(JobKind.DRAIN, [drain])
            if current is not None and not current.is_over:
                pause = pause_s((now - current.updated_at).total_seconds(), longest_s)
                tx.work.add(JobKind.DRAIN, drain, after_s=pause)


def _requester(found: Drain) -> Actor:
    return on_behalf_of(found.user_id, found.project_id)
