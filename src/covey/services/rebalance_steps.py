"""What follows the start of a rebalance: one step after another, each looked at anew; or another plan, or the end."""

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum, auto

import structlog

from covey.model.access import Actor, with_implied
from covey.model.actions import MoveKind
from covey.model.errors import Busy, Conflict, Invalid, MissingExtra, NotFound, NoValidHost
from covey.model.rebalances import Rebalance, RebalanceStatus, Step
from covey.model.servers import Server, VmState
from covey.model.work import Job, JobKind
from covey.ports import Clock
from covey.services.moves import MoveRequest, Moves
from covey.services.rebalances import Planner, movable
from covey.storage.store import Store

log = structlog.get_logger()

_LOOK_AGAIN_S = 0.5  # while a server is on its way
_MOST_PLANS = 4
_OVER = {RebalanceStatus.DONE, RebalanceStatus.FAILED}
_MAY_LOOK = "os_compute_api:servers:show"


class _At(Enum):
    """Where a step stands, by the rows of its server."""

    START = auto()
    WAY = auto()
    THERE = auto()  # but its old place is not given back yet
    END = auto()
    LOST = auto()  # it is elsewhere, or gone, or busy with something else


@dataclass(frozen=True, slots=True)
class RebalanceSteps:
    """Each turn asks the rows where it stands, so it does not matter who took the last one, or died over it."""

    store: Store
    clock: Clock
    planner: Planner
    moves: Moves

    def turn(self, job: Job) -> None:
        """Do what can be done now, and come back for the rest."""
        with self.store.read() as tx:
            found = tx.rebalances.by_id(job.subject_id)
            step = None if found is None else found.next
            server = None if step is None else tx.servers.by_id(step.server_id)
        if found is None or found.status in _OVER:
            self._forget(job.subject_id)
        elif step is None:
            self._keep(found, replace(found, status=RebalanceStatus.DONE))
        else:
            self._go_on(found, step, server)

    def _go_on(self, found: Rebalance, step: Step, server: Server | None) -> None:
        runs = found.status is RebalanceStatus.RUNNING
        match _where(step, server):
            case _At.WAY:
                self._keep(found, replace(found, under_way=True), later=True)
            case _At.THERE:
                self.moves.confirm(_on_behalf_of(found), step.server_id, found.request_id)
                self._keep(found, _one_more(found))
            case _At.END:
                self._keep(found, _one_more(found))
            case _At.START if runs and not found.under_way:
                self._begin(found, step)
            case _ if runs:
                self._plan_again(found)
            case _:
                self._forget(found.id)

    def _begin(self, found: Rebalance, step: Step) -> None:
        with self.store.read() as tx:
            group = tx.groups.by_id(found.group_id)
            seen = None if group is None else self.planner.look(tx, group)
            server = tx.servers.by_id(step.server_id)
        if seen is None or server is None or not seen.still_right(found.steps[found.done :]):
            self._plan_again(found)
            return
        live = server.vm_state is VmState.ACTIVE
        kind = MoveKind.LIVE_MIGRATION if live else MoveKind.MIGRATION
        request = MoveRequest(kind, found.request_id, step.destination)
        try:
            self.moves.begin(_on_behalf_of(found), step.server_id, request, _MAY_LOOK)
        except Busy:
            self._keep(found, found, later=True)
        except (NoValidHost, Conflict, Invalid, NotFound) as error:
            log.info("rebalance.step_refused", rebalance=found.id, server=step.server_id, reason=error.message)
            self._plan_again(found)
        else:
            self._keep(found, replace(found, under_way=True), later=True)

    def _plan_again(self, found: Rebalance) -> None:
        """Things are not as they were when the plan was made."""
        if found.plans >= _MOST_PLANS:
            reason = f"After {found.plans} plans a step still could not be taken: the group or its hosts keep changing."
            self._keep(found, replace(found, status=RebalanceStatus.FAILED, reason=reason))
            return
        with self.store.read() as tx:
            group = tx.groups.by_id(found.group_id)
            seen = None if group is None else self.planner.look(tx, group)
        if seen is None:
            self._forget(found.id)
            return
        try:
            thought = self.planner.think(seen)
        except MissingExtra as error:
            self._keep(found, replace(found, status=RebalanceStatus.FAILED, reason=error.message))
            return
        steps = (*found.steps[: found.done], *seen.steps(thought.moves))
        changed = replace(found, steps=steps, under_way=False, plans=found.plans + 1)
        if not thought.moves and thought.after:
            reason = f"No further move ends what is left: {thought.after[0].sentence}."
            changed = replace(changed, status=RebalanceStatus.FAILED, reason=reason)
        self._keep(found, changed)

    def _keep(self, was: Rebalance, now: Rebalance, *, later: bool = False) -> None:
        """Write down how far it has come, unless somebody else did meanwhile, and come back for the rest."""
        time = self.clock()
        with self.store.write() as tx:
            current = tx.rebalances.by_id(was.id, lock=True)
            tx.work.finish(JobKind.REBALANCE, [was.id])
            if current == was:
                current = replace(now, updated_at=time)
                tx.rebalances.update(current)
            if current is not None and current.status not in _OVER:
                tx.work.add(JobKind.REBALANCE, was.id, time + timedelta(seconds=_LOOK_AGAIN_S if later else 0))

    def _forget(self, rebalance: str) -> None:
        """There is nothing more to do."""
        with self.store.write() as tx:
            tx.work.finish(JobKind.REBALANCE, [rebalance])


def _where(step: Step, server: Server | None) -> _At:
    if server is None:
        return _At.LOST
    if server.migration_host_id is None:
        if server.host_name == step.destination:
            return _At.END
        return _At.START if server.host_name == step.source and movable(server) else _At.LOST
    arrived = server.vm_state is VmState.RESIZED
    here, there = (
        (server.migration_host_name, server.host_name) if arrived else (server.host_name, server.migration_host_name)
    )
    if (here, there) != (step.source, step.destination):
        return _At.LOST
    return _At.THERE if arrived and server.task is None else _At.WAY


def _one_more(found: Rebalance) -> Rebalance:
    done = found.done + 1
    ended = done == len(found.steps) and found.status is RebalanceStatus.RUNNING
    status = RebalanceStatus.DONE if ended else found.status
    return replace(found, done=done, under_way=False, plans=1, status=status)


def _on_behalf_of(found: Rebalance) -> Actor:
    """Whoever asked, with the rights of the service: to rebalance is not to migrate as one pleases."""
    return Actor(found.user_id, found.project_id, with_implied(frozenset({"admin"})))
