"""Carries out a rebalance: one step at a time, each checked against the present state, or a new plan."""

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum, auto

import structlog

from covey.model.access import Actor, with_implied_roles
from covey.model.actions import MoveKind
from covey.model.errors import Busy, Conflict, Invalid, MissingExtra, NotFound, NoValidHost
from covey.model.rebalances import Rebalance, RebalanceStatus, Step
from covey.model.servers import Server, VmState
from covey.model.work import Job, JobKind
from covey.ports import Clock
from covey.services.moves import MoveRequest, Moves
from covey.services.rebalances import Planner, is_movable
from covey.storage.store import Store

log = structlog.get_logger()

_POLL_S = 0.5  # while a server moves
_MAX_PLANS = 4
_FINISHED = {RebalanceStatus.DONE, RebalanceStatus.FAILED}
_SHOW_RULE = "os_compute_api:servers:show"


class _StepState(Enum):
    """The state of a step, by the rows of its server."""

    PENDING = auto()
    MOVING = auto()
    ARRIVED = auto()  # not confirmed yet
    DONE = auto()
    DIVERGED = auto()  # the server is elsewhere, deleted or busy with another task


@dataclass(frozen=True, slots=True)
class RebalanceSteps:
    """Every run reads the state from the rows, so any worker may continue after another died."""

    store: Store
    clock: Clock
    planner: Planner
    moves: Moves

    def run(self, job: Job) -> None:
        """Carry out what is possible now; add a job for the rest."""
        with self.store.read() as tx:
            found = tx.rebalances.by_id(job.subject_id)
            step = None if found is None else found.next
            server = None if step is None else tx.servers.by_id(step.server_id)
        if found is None or found.status in _FINISHED:
            self._finish(job.subject_id)
        elif step is None:
            self._save(found, replace(found, status=RebalanceStatus.DONE))
        else:
            self._advance(found, step, server)

    def _advance(self, found: Rebalance, step: Step, server: Server | None) -> None:
        runs = found.status is RebalanceStatus.RUNNING
        match _state_of(step, server):
            case _StepState.MOVING:
                self._save(found, replace(found, under_way=True), poll=True)
            case _StepState.ARRIVED:
                self.moves.confirm(_on_behalf_of(found), step.server_id, found.request_id)
                self._save(found, _with_step_done(found))
            case _StepState.DONE:
                self._save(found, _with_step_done(found))
            case _StepState.PENDING if runs and not found.under_way:
                self._start_move(found, step)
            case _ if runs:
                self._replan(found)
            case _:
                self._finish(found.id)

    def _start_move(self, found: Rebalance, step: Step) -> None:
        with self.store.read() as tx:
            group = tx.groups.by_id(found.group_id)
            snapshot = None if group is None else self.planner.snapshot(tx, group)
            server = tx.servers.by_id(step.server_id)
        if snapshot is None or server is None or not snapshot.are_still_valid(found.steps[found.done :]):
            self._replan(found)
            return
        live = server.vm_state is VmState.ACTIVE
        kind = MoveKind.LIVE_MIGRATION if live else MoveKind.MIGRATION
        request = MoveRequest(kind, found.request_id, step.destination)
        try:
            self.moves.begin(_on_behalf_of(found), step.server_id, request, _SHOW_RULE)
        except Busy:
            self._save(found, found, poll=True)
        except (NoValidHost, Conflict, Invalid, NotFound) as error:
            log.info("rebalance.step_refused", rebalance=found.id, server=step.server_id, reason=error.message)
            self._replan(found)
        else:
            self._save(found, replace(found, under_way=True), poll=True)

    def _replan(self, found: Rebalance) -> None:
        """Plan again: the group or the fleet is not as the plan assumed."""
        if found.plans >= _MAX_PLANS:
            reason = f"A step failed after {found.plans} plans: the group or its hosts keep changing."
            self._save(found, replace(found, status=RebalanceStatus.FAILED, reason=reason))
            return
        with self.store.read() as tx:
            group = tx.groups.by_id(found.group_id)
            snapshot = None if group is None else self.planner.snapshot(tx, group)
        if snapshot is None:
            self._finish(found.id)
            return
        try:
            plan = self.planner.plan(snapshot)
        except MissingExtra as error:
            self._save(found, replace(found, status=RebalanceStatus.FAILED, reason=error.message))
            return
        steps = (*found.steps[: found.done], *snapshot.steps(plan.moves))
        changed = replace(found, steps=steps, under_way=False, plans=found.plans + 1)
        if not plan.moves and plan.after:
            reason = f"No further move ends the remaining violation: {plan.after[0].sentence}."
            changed = replace(changed, status=RebalanceStatus.FAILED, reason=reason)
        self._save(found, changed)

    def _save(self, before: Rebalance, after: Rebalance, *, poll: bool = False) -> None:
        """Save the progress, unless another worker saved first, and add a job for the rest."""
        now = self.clock()
        with self.store.write() as tx:
            current = tx.rebalances.by_id(before.id, lock=True)
            tx.work.finish(JobKind.REBALANCE, [before.id])
            if current == before:
                current = replace(after, updated_at=now)
                tx.rebalances.update(current)
            if current is not None and current.status not in _FINISHED:
                tx.work.add(JobKind.REBALANCE, before.id, now + timedelta(seconds=_POLL_S if poll else 0))

    def _finish(self, rebalance: str) -> None:
        """Delete the job: nothing is left to do."""
        with self.store.write() as tx:
            tx.work.finish(JobKind.REBALANCE, [rebalance])


def _state_of(step: Step, server: Server | None) -> _StepState:
    if server is None:
        return _StepState.DIVERGED
    if server.migration_host_id is None:
        if server.host_name == step.destination:
            return _StepState.DONE
        return _StepState.PENDING if server.host_name == step.source and is_movable(server) else _StepState.DIVERGED
    arrived = server.vm_state is VmState.RESIZED
    here, there = (
        (server.migration_host_name, server.host_name) if arrived else (server.host_name, server.migration_host_name)
    )
    if (here, there) != (step.source, step.destination):
        return _StepState.DIVERGED
    return _StepState.ARRIVED if arrived and server.task is None else _StepState.MOVING


def _with_step_done(found: Rebalance) -> Rebalance:
    done = found.done + 1
    ended = done == len(found.steps) and found.status is RebalanceStatus.RUNNING
    status = RebalanceStatus.DONE if ended else found.status
    return replace(found, done=done, under_way=False, plans=1, status=status)


def _on_behalf_of(found: Rebalance) -> Actor:
    """Return the requester with the service's own rights: a tenant may rebalance without the right to migrate."""
    return Actor(found.user_id, found.project_id, with_implied_roles(frozenset({"admin"})))
