"""The executor: claims an action, runs its handler, and records the outcome. Any worker can continue any action."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from covey.model.clustering.actions import Action, ActionStatus, Verb
from covey.model.clustering.clusters import ORPHAN, Cluster, ClusterStatus, Node, NodeStatus, evaluate_status
from covey.model.clustering.events import Event, Level, Phase
from covey.model.clustering.health import refresh_status
from covey.model.errors import Busy, CoveyError, TransactionConflict, Unavailable
from covey.model.work import Job, JobKind
from covey.ports import Clock, NewUuid
from covey.services.clustering.dispatcher import acquire_lock
from covey.services.clustering.engine.actions import (
    NODE_STATUS_DURING,
    SUCCEEDED_REASON,
    ActionContext,
    ActionHandler,
    ActionResult,
    Outcome,
    Retry,
    failed,
    lock_action,
)
from covey.services.clustering.engine.policy_checks import PolicyChecks
from covey.services.clustering.engine.profile_servers import servers_of
from covey.storage.store import Store, Transaction

log = structlog.get_logger()

_RETRY_S = 0.2  # after a lock conflict or a concurrent update
_SHORT_ID = 8  # characters of an id in an event
_CANCELLED = "Action was cancelled."
_UNEXPECTED = "An unexpected error occurred; the service's log has the details."

_CLUSTER_STATUS_DURING: Mapping[Verb, ClusterStatus] = {
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
_TRANSIENT = frozenset({*NODE_STATUS_DURING.values(), NodeStatus.INIT})


@dataclass(frozen=True, slots=True)
class Executor:
    """Executes actions by a table of handlers."""

    store: Store
    clock: Clock
    new_uuid: NewUuid
    handlers: Mapping[Verb, ActionHandler]
    checks: PolicyChecks
    worker: str  # the name of this process

    def execute(self, job: Job) -> None:
        """Do what can be done now; a job for the rest is stored."""
        context = self._claim(job)
        if context is None:
            return
        try:
            self._record(job, self._run(context))
        except Unavailable:
            raise  # the database does not answer; the job is due again when its lease ends
        except (Busy, TransactionConflict) as error:
            log.info("action.retry", action=context.action.id, reason=error.message)
            self._record(job, Retry(_RETRY_S))
        except CoveyError as error:
            self._record(job, failed(error.message))
        except Exception:
            log.exception("action.crashed", action=context.action.id)  # a repeat would crash again
            self._record(job, failed(_UNEXPECTED))

    def _claim(self, job: Job) -> ActionContext | None:
        """Return the action with its target; None when it needs no execution now."""
        with self.store.write() as tx:
            cluster, action = lock_action(tx, job.subject_id)
            if not tx.work.lock_lease(job):
                return None  # another worker has claimed the job
            if action is None or action.is_finished:
                tx.work.finish(JobKind.CLUSTER_ACTION, [job.subject_id])
                return None
            now = self.clock()
            if action.to_be_cancelled and action.status is not ActionStatus.WAITING:
                self._end(tx, cluster, action, ActionResult(ActionStatus.CANCELLED, _CANCELLED))
                return None
            if _is_timed_out(action, now):
                self._end(tx, cluster, action, failed(f"The action timed out after {action.timeout} seconds."))
                return None
            if action.status is ActionStatus.READY:
                if not acquire_lock(tx, action):
                    self._reschedule(tx, action, _RETRY_S)
                    return None
                cluster, action = self._start(tx, cluster, action, now)
            if action.to_be_cancelled:
                _cancel_ready_children(tx, action, now)
            node = None if action.verb.is_for_cluster else next(iter(tx.clustering.nodes.by_ids([action.target])), None)
            return ActionContext(action, cluster, node, job)

    def _start(
        self, tx: Transaction, cluster: Cluster | None, action: Action, now: datetime
    ) -> tuple[Cluster | None, Action]:
        action = replace(action, status=ActionStatus.RUNNING, started_at=now, updated_at=now, worker=self.worker)
        tx.clustering.actions.update([action])
        if cluster is not None and action.verb in _CLUSTER_STATUS_DURING:
            status = _CLUSTER_STATUS_DURING[action.verb]
            cluster = replace(cluster, status=status, status_reason=f"{action.verb} is in progress.")
            tx.clustering.clusters.update(cluster)
        if action.verb in NODE_STATUS_DURING:
            nodes = tx.clustering.nodes.by_ids([action.target])
            status_during = NODE_STATUS_DURING[action.verb]
            tx.clustering.nodes.update([replace(node, status=status_during) for node in nodes])
        self._add_event(tx, action, _target_name(tx, cluster, action), Phase.START, action.id[:_SHORT_ID])
        return cluster, action

    def _run(self, context: ActionContext) -> Outcome:
        handler = self.handlers[context.action.verb]
        if context.action.status is not ActionStatus.RUNNING:
            return handler.resume(context)
        if context.cluster is not None and not context.action.data:
            context = self.checks.pre_op(context)
        if context.action.data.get("status") == "ERROR":
            kind = "Policy check failure" if context.action.verb.is_for_cluster else "Policy check"
            return failed(f"{kind}: {context.action.status_reason}")
        return handler.start(context)

    def _record(self, job: Job, outcome: Outcome) -> None:
        """Store the outcome, unless another worker has claimed the job."""
        with self.store.write() as tx:
            cluster, action = lock_action(tx, job.subject_id)
            if not tx.work.lock_lease(job):
                return
            if action is None or action.is_finished:
                tx.work.finish(JobKind.CLUSTER_ACTION, [job.subject_id])
            elif isinstance(outcome, ActionResult):
                self._end(tx, cluster, action, outcome)
            else:
                if outcome.reason and outcome.reason != action.status_reason:
                    changed = replace(action, status_reason=outcome.reason, updated_at=self.clock())
                    tx.clustering.actions.update([changed])
                self._reschedule(tx, action, outcome.after_s)

    def _reschedule(self, tx: Transaction, action: Action, after_s: float) -> None:
        tx.work.finish(JobKind.CLUSTER_ACTION, [action.id])
        tx.work.add(JobKind.CLUSTER_ACTION, action.id, after_s=after_s)

    def _end(self, tx: Transaction, cluster: Cluster | None, action: Action, result: ActionResult) -> None:
        """End the action, evaluate its cluster and release its lock in one transaction."""
        now = self.clock()
        name = _target_name(tx, cluster, action)
        if result.finalize is not None:
            result.finalize(tx)
        if action.to_be_cancelled:
            result = replace(result, status=ActionStatus.CANCELLED, reason=result.reason or _CANCELLED)
        if result.succeeded and cluster is not None:
            self.checks.post_op(tx, action, cluster, now)
        ended = replace(
            action,
            status=result.status,
            status_reason=SUCCEEDED_REASON if result.succeeded else result.reason,
            outputs={**action.outputs, **result.outputs},
            ended_at=now,
            updated_at=now,
            worker=self.worker,
        )
        tx.clustering.actions.update([ended])
        _end_children(tx, ended, now)
        _settle_nodes(tx, ended, now)
        self._evaluate_cluster(tx, ended)
        tx.clustering.locks.release(action.id)
        phase = Phase.END if result.succeeded else Phase.ERROR
        self._add_event(tx, ended, name, phase, result.reason or ended.status_reason)
        tx.work.finish(JobKind.CLUSTER_ACTION, [action.id])

    def _evaluate_cluster(self, tx: Transaction, action: Action) -> None:
        """Update the status of the cluster, if it still exists."""
        cluster = None if action.cluster_id is None else tx.clustering.clusters.lock(action.cluster_id)
        if cluster is None:
            return
        nodes = tx.clustering.nodes.of(cluster.id)
        status, reason = evaluate_status(cluster, sum(node.status is NodeStatus.ACTIVE for node in nodes))
        if action.verb is Verb.CLUSTER_CREATE and action.status is ActionStatus.FAILED and not nodes:
            status, reason = ClusterStatus.ERROR, action.status_reason
        tx.clustering.clusters.update(
            replace(cluster, status=status, status_reason=f"{action.verb}: {reason}", updated_at=self.clock())
        )

    def _add_event(self, tx: Transaction, action: Action, name: str, phase: Phase, reason: str) -> None:
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


def _target_name(tx: Transaction, cluster: Cluster | None, action: Action) -> str:
    if action.verb.is_for_cluster:
        return "" if cluster is None else cluster.name
    return next((node.name for node in tx.clustering.nodes.by_ids([action.target])), "")


def _is_timed_out(action: Action, now: datetime) -> bool:
    return action.started_at is not None and now > action.started_at + timedelta(seconds=action.timeout)


def _cancel_ready_children(tx: Transaction, action: Action, now: datetime) -> None:
    ready = [child for child in tx.clustering.actions.of_parent(action.id) if child.status is ActionStatus.READY]
    tx.clustering.actions.update(
        [replace(child, status=ActionStatus.CANCELLED, status_reason=_CANCELLED, ended_at=now) for child in ready]
    )


def _end_children(tx: Transaction, action: Action, now: datetime) -> None:
    """End the unfinished children of an action that has ended."""
    status = ActionStatus.FAILED if action.status is ActionStatus.SUCCEEDED else action.status
    reason = f"{action.verb} ended: {action.status_reason}"
    unfinished = [child for child in tx.clustering.actions.of_parent(action.id) if not child.is_finished]
    tx.clustering.actions.update(
        [replace(child, status=status, status_reason=reason, ended_at=now, updated_at=now) for child in unfinished]
    )


def _settle_nodes(tx: Transaction, action: Action, now: datetime) -> None:
    """Give the nodes that an ended action left in a transient status the status of their servers."""
    targets = [child.target for child in tx.clustering.actions.of_parent(action.id)]
    if not action.verb.is_for_cluster:
        targets.append(action.target)
    transient = [node for node in tx.clustering.nodes.by_ids(targets) if node.status in _TRANSIENT]
    servers = servers_of(tx, transient)
    refreshed = [
        replace(refresh_status(node, servers.get(node.id), now), status_reason=action.status_reason)
        for node in transient
    ]
    tx.clustering.nodes.update([_without_failed_membership(node, action) for node in refreshed])


def _without_failed_membership(node: Node, action: Action) -> Node:
    """A new member whose server was not created becomes an orphan."""
    is_failed = action.verb is Verb.NODE_CREATE and node.server_id is None and node.status is NodeStatus.ERROR
    return replace(node, cluster_id=None, index=ORPHAN) if is_failed else node
