"""Carries out a rebalance: one step at a time, each checked against the present state, or a new plan."""

from contextlib import suppress
from dataclasses import dataclass, replace

import structlog

from covey.model.access import Actor
from covey.model.errors import (
    Busy,
    Conflict,
    Invalid,
    MissingExtra,
    NotFound,
    NoValidHost,
    ServiceFault,
    Unavailable,
)
from covey.model.rebalances import FailedMove, Rebalance, RebalanceStatus, Step
from covey.model.server_moves import LONGEST_OUTAGE_PAUSE_S, LONGEST_PAUSE_S, MoveState, ServerPosition, pause_s
from covey.model.work import Job, JobKind
from covey.ports import Clock, Mover
from covey.services.movers import on_behalf_of
from covey.services.rebalances import Planner
from covey.storage.store import Store

log = structlog.get_logger()

_MAX_PLANS = 4
_FINISHED = {RebalanceStatus.DONE, RebalanceStatus.FAILED}
_GONE = ServerPosition(None)
_OVERDUE = "A move takes longer than it may, and can't be aborted. The rebalance continues when it ends."
_OUTAGE = "The service that runs the server does not answer. The rebalance continues when it does."


@dataclass(frozen=True, slots=True)
class RebalanceSteps:
    """Every run asks where the server is now, so any worker may continue after another died."""

    store: Store
    clock: Clock
    planner: Planner
    mover: Mover

    def run(self, job: Job) -> None:
        """Carry out what is possible now; add a job for the rest."""
        with self.store.read() as tx:
            found = tx.rebalances.by_id(job.subject_id)
        if found is None or found.status in _FINISHED:
            self._finish(job.subject_id)
        elif found.next is None:
            self._save(found, replace(found, status=RebalanceStatus.DONE))
        else:
            try:
                position = self.mover.positions([found.next.server_id]).get(found.next.server_id, _GONE)
                self._advance(found, found.next, position)
            except Unavailable as error:
                log.warning("rebalance.waiting", rebalance=found.id, reason=error.message)
                self._save(found, replace(found, reason=_OUTAGE), pause_up_to_s=LONGEST_OUTAGE_PAUSE_S)

    def _advance(self, found: Rebalance, step: Step, position: ServerPosition) -> None:
        runs = found.status is RebalanceStatus.RUNNING
        match position.state(step.source, step.destination):
            case MoveState.MOVING:
                self._follow(found, step, position)
            case MoveState.ARRIVED:
                with suppress(Conflict, Invalid, NotFound):  # its owner was faster
                    self.mover.confirm(_requester(found), found.request_id, step.server_id)
                self._save(found, replace(found, under_way=True, reason=None), pause_up_to_s=LONGEST_PAUSE_S)
            case MoveState.DONE:
                self._save(found, _with_step_done(found))
            case MoveState.WAITING if runs and found.under_way and position.cold_next:
                self._begin(found, step, cold=True)
            case MoveState.WAITING if runs and found.under_way:
                self._replan(_with_failure(found, step, position.failure or "The move failed."), found)
            case MoveState.WAITING if runs and position.movable:
                self._start_move(found, step)
            case _ if runs:
                self._replan(found, found)
            case _:
                self._finish(found.id)

    def _follow(self, found: Rebalance, step: Step, position: ServerPosition) -> None:
        """Wait for a move; abort it where that is possible if it takes too long or the rebalance is cancelled.

        A cold move can't be aborted. It is followed to its end, since Covey confirms it: until then it has both hosts.
        """
        if position.unknown:
            self._save(found, replace(found, reason=_OUTAGE), pause_up_to_s=LONGEST_OUTAGE_PAUSE_S)
            return
        aborted = (position.overdue or found.status is RebalanceStatus.CANCELLED) and self.mover.abort(step.server_id)
        reason = _OVERDUE if position.overdue and not aborted else None
        self._save(found, replace(found, under_way=True, reason=reason), pause_up_to_s=LONGEST_PAUSE_S)

    def _start_move(self, found: Rebalance, step: Step) -> None:
        with self.store.read() as tx:
            group = tx.groups.by_id(found.group_id)
            snapshot = None if group is None else self.planner.snapshot(tx, group, found.failed)
        if snapshot is None or not snapshot.are_still_valid(found.steps[found.done :]):
            self._replan(found, found)
        else:
            self._begin(found, step)

    def _begin(self, found: Rebalance, step: Step, *, cold: bool = False) -> None:
        try:
            self.mover.begin(_requester(found), found.request_id, step.server_id, step.destination, cold=cold)
        except Busy:
            self._save(found, found, pause_up_to_s=LONGEST_PAUSE_S)
        except (NoValidHost, Conflict, Invalid, NotFound) as error:
            log.info("rebalance.step_refused", rebalance=found.id, server=step.server_id, reason=error.message)
            self._replan(_with_failure(found, step, error.message), found)
        except ServiceFault as error:  # before or after the move began
            position = self.mover.positions([step.server_id]).get(step.server_id, _GONE)
            if position.state(step.source, step.destination) is not MoveState.WAITING:
                self._save(found, replace(found, under_way=True, reason=None), pause_up_to_s=LONGEST_PAUSE_S)
                return
            log.info("rebalance.step_refused", rebalance=found.id, server=step.server_id, reason=error.message)
            self._replan(_with_failure(found, step, error.message), found)
        else:
            self._save(found, replace(found, under_way=True, reason=None), pause_up_to_s=LONGEST_PAUSE_S)

    def _replan(self, found: Rebalance, before: Rebalance) -> None:
        """Plan again: the group or the fleet is not as the plan assumed, or a move failed. `before` is stored."""
        if found.plans >= _MAX_PLANS:
            reason = f"A step failed after {found.plans} plans: the group or its hosts keep changing."
            self._save(before, replace(found, status=RebalanceStatus.FAILED, reason=reason))
            return
        with self.store.read() as tx:
            group = tx.groups.by_id(found.group_id)
            snapshot = None if group is None else self.planner.snapshot(tx, group, found.failed)
        if snapshot is None:
            self._finish(found.id)
            return
        try:
            plan = self.planner.plan(snapshot)
        except MissingExtra as error:
            self._save(before, replace(found, status=RebalanceStatus.FAILED, reason=error.message))
            return
        steps = (*found.steps[: found.done], *snapshot.steps(plan.moves))
        changed = replace(found, steps=steps, under_way=False, plans=found.plans + 1)
        if found.max_moves is not None and len(steps) > found.max_moves:
            self._save(before, replace(found, status=RebalanceStatus.FAILED, reason=_too_many_moves(found, len(steps))))
            return
        if not plan.moves and plan.after:
            reason = f"No further move ends the remaining violation: {plan.after[0].sentence}."
            changed = replace(changed, status=RebalanceStatus.FAILED, reason=reason)
        self._save(before, changed)

    def _save(self, before: Rebalance, after: Rebalance, *, pause_up_to_s: float = 0) -> None:
        """Save the progress, unless another worker saved first, and add a job for the rest."""
        now = self.clock()
        with self.store.write() as tx:
            current = tx.rebalances.by_id(before.id, lock=True)
            tx.work.finish(JobKind.REBALANCE, [before.id])
            if current == before and after != before:
                current = replace(after, updated_at=now)
                tx.rebalances.update(current)
            if current is not None and current.status not in _FINISHED:
                pause = pause_s((now - current.updated_at).total_seconds(), pause_up_to_s) if pause_up_to_s else 0
                tx.work.add(JobKind.REBALANCE, before.id, after_s=pause)

    def _finish(self, rebalance: str) -> None:
        """Delete the job: nothing is left to do."""
        with self.store.write() as tx:
            tx.work.finish(JobKind.REBALANCE, [rebalance])


def _with_step_done(found: Rebalance) -> Rebalance:
    done = found.done + 1
    ended = done == len(found.steps) and found.status is RebalanceStatus.RUNNING
    status = RebalanceStatus.DONE if ended else found.status
    return replace(found, done=done, under_way=False, plans=1, status=status, reason=None)


def _too_many_moves(found: Rebalance, moves: int) -> str:
    return (
        f"The group changed: its rebalance needs {moves} moves by now; tenants may start one of up to "
        f"{found.max_moves}. Ask an operator."
    )


def _with_failure(found: Rebalance, step: Step, reason: str) -> Rebalance:
    return replace(found, failed=(*found.failed, FailedMove(step.server_id, step.destination, reason)))


def _requester(found: Rebalance) -> Actor:
    return on_behalf_of(found.user_id, found.project_id)
