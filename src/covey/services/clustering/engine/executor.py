"""One turn of an action after another: it begins, goes on, and ends, and all of that can be taken up by anybody."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from covey.model.clustering.actions import Action, ActionStatus, Verb
from covey.model.clustering.clusters import Cluster, ClusterStatus, NodeStatus, evaluated
from covey.model.clustering.events import Event, Level, Phase
from covey.model.errors import Busy, CoveyError, TransactionConflict, Unavailable
from covey.model.work import Job, JobKind
from covey.ports import Clock, NewUuid
from covey.services.clustering.engine.aftermath import settle_nodes
from covey.services.clustering.engine.child_actions import DONE, NODE_IS
from covey.services.clustering.engine.policy_checks import PolicyChecks
from covey.services.clustering.engine.run import Ended, Handler, Later, Run, Step, failed, hold
from covey.services.clustering.requests import grab
from covey.storage.store import Store, Transaction

log = structlog.get_logger()

_LOOK_AGAIN_S = 0.2  # for a lock, or when somebody was faster
_SHORT = 8  # letters of an id in an event
_CANCELLED = "Action was cancelled."
_UNEXPECTED = "Something went wrong that nobody expected; the service's log has the details."

_CLUSTER_IS: Mapping[Verb, ClusterStatus] = {
    Verb.CLUSTER_CREATE: ClusterStatus.CREATING,
    Verb.CLUSTER_DELETE: ClusterStatus.DELETING,
    Verb.CLUSTER_UPDATE: ClusterStatus.UPDATING,
    Verb.CLUSTER_RESIZE: ClusterStatus.RESIZING,
    Verb.CLUSTER_SCALE_OUT: ClusterStatus.RESIZING,
    Verb.CLUSTER_SCALE_IN: ClusterStatus.RESIZING,
    Verb.CLUSTER_CHECK: ClusterStatus.CHECKING,
    Verb.CLUSTER_RECOVER: ClusterStatus.RECOVERING,
    Verb.CLUSTER_OPERATION: ClusterStatus.OPERATING,
}


@dataclass(frozen=True, slots=True)
class Executor:
    """Takes turns of actions."""

    store: Store
    clock: Clock
    new_uuid: NewUuid
    handlers: Mapping[Verb, Handler]
    checks: PolicyChecks
    worker: str  # how this process is called

    def turn(self, job: Job) -> None:
        """Do what can be done now, and come back for the rest."""
        run = self._open(job)
        if run is None:
            return
        try:
            self._keep(job, self._step(run))
        except Unavailable:
            raise  # nobody can do anything now; the job is due again when its lease is over
        except (Busy, TransactionConflict) as error:
            log.info("action.again", action=run.action.id, reason=error.message)
            self._keep(job, Later(_LOOK_AGAIN_S))
        except CoveyError as error:
            self._keep(job, failed(error.message))
        except Exception:
            log.exception("action.crashed", action=run.action.id)  # it would fare no better the next time
            self._keep(job, failed(_UNEXPECTED))

    def _open(self, job: Job) -> Run | None:
        """The action and what it is about, ready for a turn; None when there is nothing to do now."""
        with self.store.write() as tx:
            cluster, action = hold(tx, job.subject_id)
            if not tx.work.hold(job):
                return None  # somebody else took it meanwhile
            if action is None or action.is_over:
                tx.work.finish(JobKind.CLUSTER_ACTION, [job.subject_id])
                return None
            now = self.clock()
            if action.to_be_cancelled and action.status is not ActionStatus.WAITING:
                self._end(tx, cluster, action, Ended(ActionStatus.CANCELLED, _CANCELLED))
                return None
            if _is_late(action, now):
                reason = f"It was not done after {action.timeout} seconds."
                self._end(tx, cluster, action, failed(reason))
                return None
            if action.status is ActionStatus.READY:
                if not grab(tx, action):
                    self._come_back(tx, action, _LOOK_AGAIN_S)
                    return None
                cluster, action = self._start(tx, cluster, action, now)
            if action.to_be_cancelled:
                _cancel_waiting_children(tx, action, now)
            node = None if action.verb.is_for_cluster else next(iter(tx.clustering.nodes.by_ids([action.target])), None)
            return Run(action, cluster, node, job)

    def _start(
        self, tx: Transaction, cluster: Cluster | None, action: Action, now: datetime
    ) -> tuple[Cluster | None, Action]:
        action = replace(action, status=ActionStatus.RUNNING, started_at=now, updated_at=now, worker=self.worker)
        tx.clustering.actions.update([action])
        if cluster is not None and action.verb in _CLUSTER_IS:
            status = _CLUSTER_IS[action.verb]
            cluster = replace(cluster, status=status, status_reason=f"{action.verb} is under way.")
            tx.clustering.clusters.update(cluster)
        if action.verb in NODE_IS:
            nodes = tx.clustering.nodes.by_ids([action.target])
            tx.clustering.nodes.update([replace(node, status=NODE_IS[action.verb]) for node in nodes])
        self._tell(tx, action, _name(tx, cluster, action), Phase.START, action.id[:_SHORT])
        return cluster, action

    def _step(self, run: Run) -> Step:
        handler = self.handlers[run.action.verb]
        if run.action.status is not ActionStatus.RUNNING:
            return handler.go_on(run)
        if run.cluster is not None and not run.action.data:
            run = self.checks.before(run)
        if run.action.data.get("status") == "ERROR":
            kind = "Policy check failure" if run.action.verb.is_for_cluster else "Policy check"
            return failed(f"{kind}: {run.action.status_reason}")
        return handler.begin(run)

    def _keep(self, job: Job, step: Step) -> None:
        """Write down how far it has come, and come back for the rest; unless somebody else has the job by now."""
        with self.store.write() as tx:
            cluster, action = hold(tx, job.subject_id)
            if not tx.work.hold(job):
                return
            if action is None or action.is_over:
                tx.work.finish(JobKind.CLUSTER_ACTION, [job.subject_id])
            elif isinstance(step, Ended):
                self._end(tx, cluster, action, step)
            else:
                if step.reason and step.reason != action.status_reason:
                    tx.clustering.actions.update([replace(action, status_reason=step.reason, updated_at=self.clock())])
                self._come_back(tx, action, step.after_s)

    def _come_back(self, tx: Transaction, action: Action, after_s: float) -> None:
        tx.work.finish(JobKind.CLUSTER_ACTION, [action.id])
        tx.work.add(JobKind.CLUSTER_ACTION, action.id, self.clock() + timedelta(seconds=after_s))

    def _end(self, tx: Transaction, cluster: Cluster | None, action: Action, ended: Ended) -> None:
        """It is over, and its cluster is free, in one moment."""
        now = self.clock()
        name = _name(tx, cluster, action)
        if ended.finally_ is not None:
            ended.finally_(tx)
        if action.to_be_cancelled:
            ended = replace(ended, status=ActionStatus.CANCELLED, reason=ended.reason or _CANCELLED)
        if ended.worked and cluster is not None:
            self.checks.after(tx, action, cluster, now)
        over = replace(
            action,
            status=ended.status,
            status_reason=DONE if ended.worked else ended.reason,
            outputs={**action.outputs, **ended.outputs},
            ended_at=now,
            updated_at=now,
            worker=self.worker,
        )
        tx.clustering.actions.update([over])
        self._end_children(tx, over, now)
        settle_nodes(tx, over, over.status_reason, now)
        self._evaluate(tx, over)
        tx.clustering.locks.free(action.id)
        self._tell(tx, over, name, Phase.END if ended.worked else Phase.ERROR, ended.reason or over.status_reason)
        tx.work.finish(JobKind.CLUSTER_ACTION, [action.id])

    def _end_children(self, tx: Transaction, action: Action, now: datetime) -> None:
        """What was derived from it and is not over will not be done any more."""
        status = ActionStatus.FAILED if action.status is ActionStatus.SUCCEEDED else action.status
        reason = f"{action.verb} came to its end: {action.status_reason}"
        left = [child for child in tx.clustering.actions.of_parent(action.id) if not child.is_over]
        tx.clustering.actions.update(
            [replace(child, status=status, status_reason=reason, ended_at=now, updated_at=now) for child in left]
        )

    def _evaluate(self, tx: Transaction, action: Action) -> None:
        """How the cluster fares now, if it is still there."""
        cluster = None if action.cluster_id is None else tx.clustering.clusters.lock(action.cluster_id)
        if cluster is None:
            return
        nodes = tx.clustering.nodes.of(cluster.id)
        status, why = evaluated(cluster, sum(node.status is NodeStatus.ACTIVE for node in nodes))
        reason = f"{action.verb}: {why}"
        if action.verb is Verb.CLUSTER_CREATE and action.status is ActionStatus.FAILED and not nodes:
            status, reason = ClusterStatus.ERROR, f"{action.verb}: {action.status_reason}"
        tx.clustering.clusters.update(replace(cluster, status=status, status_reason=reason, updated_at=self.clock()))

    def _tell(self, tx: Transaction, action: Action, name: str, phase: Phase, reason: str) -> None:
        """An event about an action that somebody asked for, and whatever it was done to was called then."""
        event = Event(
            id=self.new_uuid(),
            timestamp=self.clock(),
            object_id=action.target,
            object_name=name,
            object_type="CLUSTER" if action.verb.is_for_cluster else "NODE",
            cluster_id=action.cluster_id,
            level=Level.ERROR if phase is Phase.ERROR else Level.INFO,
            action=action.verb,
            phase=phase,
            reason=reason,
            owner=action.owner,
        )
        tx.clustering.events.add([event])


def _name(tx: Transaction, cluster: Cluster | None, action: Action) -> str:
    """How the target is called."""
    if action.verb.is_for_cluster:
        return "" if cluster is None else cluster.name
    return next((node.name for node in tx.clustering.nodes.by_ids([action.target])), "")


def _is_late(action: Action, now: datetime) -> bool:
    return action.started_at is not None and now > action.started_at + timedelta(seconds=action.timeout)


def _cancel_waiting_children(tx: Transaction, action: Action, now: datetime) -> None:
    """Those that nobody began."""
    waiting = [child for child in tx.clustering.actions.of_parent(action.id) if child.status is ActionStatus.READY]
    tx.clustering.actions.update(
        [replace(child, status=ActionStatus.CANCELLED, status_reason=_CANCELLED, ended_at=now) for child in waiting]
    )
