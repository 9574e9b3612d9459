"""Node removal: nodes are deleted with their servers, or leave their cluster and keep them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog

from covey.model.clustering.actions import Action, ActionStatus, Verb
from covey.model.clustering.clusters import Cluster, Node, NodeStatus
from covey.model.clustering.policies.context import section
from covey.model.clustering.sizes import check_min_size
from covey.model.clustering.specs import Document
from covey.model.errors import Conflict, CoveyError, Forbidden, NotFound, Unavailable
from covey.ports import Clock, NewUuid
from covey.services.clustering.engine.actions import (
    ActionContext,
    ActionResult,
    Outcome,
    Retry,
    children_of,
    finished,
    lock_claimed_action,
    new_children,
    progress,
    started,
    update_children,
    wait_for_children,
)
from covey.services.clustering.engine.membership import leave_cluster
from covey.services.clustering.engine.node_creation import ClusterChange, cluster_update, unchanged
from covey.services.clustering.engine.policy_attachments import PolicyAttachments
from covey.services.clustering.engine.profile_servers import servers_of
from covey.services.servers import Servers
from covey.storage.store import Store, Transaction

log = structlog.get_logger()

_MAX_CONCURRENT_DELETIONS = 100  # servers of one action
_MAX_GRACE_POLL_S = 60.0
_VERBS = (Verb.NODE_DELETE, Verb.NODE_LEAVE)


@dataclass(frozen=True, slots=True)
class NodeRemoval:
    """Removes nodes from their cluster."""

    store: Store
    clock: Clock
    new_uuid: NewUuid
    servers: Servers

    def remove_members(
        self,
        context: ActionContext,
        nodes: Sequence[Node],
        change: ClusterChange = unchanged,
        *,
        destroy: bool = True,
    ) -> Outcome:
        """Create the child actions that remove these members, and apply `change` to the cluster."""
        cluster = context.required_cluster
        if not nodes:
            return ActionResult(reason="No node was removed.", finalize=cluster_update(cluster, change))
        verb = Verb.NODE_DELETE if destroy else Verb.NODE_LEAVE
        now = self.clock()
        with self.store.write() as tx:
            locked, action = lock_claimed_action(tx, context)
            if locked is not None and not children_of(tx, action, *_VERBS):
                tx.clustering.actions.add(new_children(action, verb, nodes, self.new_uuid, now, started=False))
                tx.clustering.clusters.update(change(locked))
            wait_for_children(tx, action, f"Deleted 0 of {len(nodes)} nodes.", now)
        return Retry()

    def poll(self, context: ActionContext, *, force: bool = False) -> Outcome:
        """Request further server deletions, and remove the nodes whose servers are deleted."""
        grace_s = self._remaining_grace_s(context)
        if grace_s > 0:
            return Retry(min(grace_s, _MAX_GRACE_POLL_S))
        with self.store.read() as tx:
            children = children_of(tx, context.action, *_VERBS)
            unfinished = [child for child in children if not child.is_finished]
            nodes = {node.id: node for node in tx.clustering.nodes.by_ids([child.target for child in unfinished])}
            has_server = set(servers_of(tx, nodes.values()))
        requested, rejected = self._request_deletions(context, unfinished, nodes, has_server)
        removable = [c for c in unfinished if c.target not in has_server or c.verb is Verb.NODE_LEAVE]
        if force:  # the node is removed even where its server cannot be deleted
            removable += [child for child in unfinished if child.id in rejected]
            rejected = {}
        changed = requested | rejected | self._remove_nodes(context, removable, nodes)
        self._store_requested(context, [*requested.values(), *rejected.values()], nodes)
        return progress([changed.get(child.id, child) for child in children], "deleting", "Deleted")

    def _request_deletions(
        self, context: ActionContext, unfinished: Sequence[Action], nodes: Mapping[str, Node], has_server: set[str]
    ) -> tuple[dict[str, Action], dict[str, Action]]:
        """Request server deletions up to the limit; return the children started, and those that failed."""
        deleting = [child for child in unfinished if child.target in has_server and child.verb is Verb.NODE_DELETE]
        ready = [child for child in deleting if child.status is not ActionStatus.RUNNING]
        free = max(0, _MAX_CONCURRENT_DELETIONS - len(deleting) + len(ready))
        now = self.clock()
        requested: dict[str, Action] = {}
        rejected: dict[str, Action] = {}
        for child in ready[:free]:
            problem = self.delete_server(context, nodes[child.target])
            if problem:
                rejected[child.id] = finished(child, now, problem)
            else:
                requested[child.id] = started(child, now)
        return requested, rejected

    def delete_server(self, context: ActionContext, node: Node) -> str:
        """Request the deletion of a node's server; return the problem, or an empty text."""
        assert node.server_id is not None
        try:
            self.servers.delete(context.actor, node.server_id, context.request_id)
        except NotFound:
            return ""
        except Unavailable:
            raise
        except CoveyError as error:
            return f"Failed in deleting server: {error.message}"
        return ""

    def _store_requested(self, context: ActionContext, children: Sequence[Action], nodes: Mapping[str, Node]) -> None:
        if not children:
            return
        deleting = [nodes[child.target] for child in children if child.status is ActionStatus.RUNNING]
        with self.store.write() as tx:
            lock_claimed_action(tx, context)
            tx.clustering.nodes.update([replace(node, status=NodeStatus.DELETING) for node in deleting])
            update_children(tx, children)

    def _remove_nodes(
        self, context: ActionContext, removable: Sequence[Action], nodes: Mapping[str, Node]
    ) -> dict[str, Action]:
        """Delete or release the nodes of child actions. The node of a node action is deleted when the action ends."""
        now = self.clock()
        ended = [finished(child, now) for child in removable]
        children = [child for child in ended if child.parent_id is not None]
        if children:
            with self.store.write() as tx:
                lock_claimed_action(tx, context)
                tx.clustering.nodes.delete([child.target for child in children if child.verb is Verb.NODE_DELETE])
                leaving = [child.target for child in children if child.verb is Verb.NODE_LEAVE]
                leave_cluster(tx, [nodes[node] for node in leaving if node in nodes], now)
                update_children(tx, children)
        return {child.id: child for child in ended}

    def _remaining_grace_s(self, context: ActionContext) -> float:
        """Return the rest of the deletion policy's grace period in seconds."""
        action = context.action
        period = section(action.data, "deletion").get("grace_period")
        if not isinstance(period, int) or action.started_at is None or action.to_be_cancelled:
            return 0.0
        return (action.started_at + timedelta(seconds=period) - self.clock()).total_seconds()


@dataclass(frozen=True, slots=True)
class DeleteNodes:
    """Removes the nodes that a request names, with or without their servers."""

    store: Store
    removal: NodeRemoval

    def start(self, context: ActionContext) -> Outcome:
        cluster, inputs = context.required_cluster, context.action.inputs
        with self.store.read() as tx:
            members = tx.clustering.nodes.of(cluster.id)
        named = inputs.get("candidates")
        nodes = [node for node in members if isinstance(named, Sequence) and node.id in named]
        size = len(members) - len(nodes)
        check_min_size(cluster, size)
        destroy = bool(inputs.get("destroy_after_deletion"))
        return self.removal.remove_members(
            context, nodes, lambda locked: reduced(locked, size, context.action.data), destroy=destroy
        )

    def resume(self, context: ActionContext) -> Outcome:
        return self.removal.poll(context)


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """Deletes one node and its server."""

    store: Store
    removal: NodeRemoval

    def start(self, context: ActionContext) -> Outcome:
        cluster, node = context.cluster, context.node
        if cluster is not None and node is not None and not context.action.inputs.get("force"):
            check_min_size(cluster, len(set(cluster.nodes) - {node.id}))
        with self.store.write() as tx:
            _, action = lock_claimed_action(tx, context)
            wait_for_children(tx, action, "Deletion in progress.", self.removal.clock())
        return Retry()

    def resume(self, context: ActionContext) -> Outcome:
        node = context.node
        if node is None:
            return ActionResult(reason="The node was already deleted.")
        outcome = self.removal.poll(context, force=bool(context.action.inputs.get("force")))
        if isinstance(outcome, ActionResult) and outcome.succeeded:
            return replace(outcome, finalize=lambda tx: _delete_node(tx, node, context.action.data))
        return outcome


@dataclass(frozen=True, slots=True)
class DeleteCluster:
    """Deletes a cluster with its nodes, servers and bindings. With force, a failure does not stop it."""

    removal: NodeRemoval
    attachments: PolicyAttachments

    def start(self, context: ActionContext) -> Outcome:
        if context.cluster is None:
            return ActionResult(reason="The cluster was already deleted.")
        with self.removal.store.read() as tx:
            members = tx.clustering.nodes.of(context.cluster.id)
        return self._with_deletion(context, self.removal.remove_members(context, members))

    def resume(self, context: ActionContext) -> Outcome:
        outcome = self.removal.poll(context, force=bool(context.action.inputs.get("force")))
        return self._with_deletion(context, outcome)

    def _with_deletion(self, context: ActionContext, outcome: Outcome) -> Outcome:
        if not isinstance(outcome, ActionResult) or not outcome.succeeded or context.cluster is None:
            return outcome
        return replace(outcome, reason="The cluster was deleted.", finalize=lambda tx: self._delete(tx, context))

    def _delete(self, tx: Transaction, context: ActionContext) -> None:
        cluster = context.required_cluster
        try:
            self.attachments.detach_all(tx, context.actor, cluster.id)
        except (Conflict, Forbidden) as error:
            if not context.action.inputs.get("force"):
                raise
            log.warning("cluster.group_not_deleted", cluster=cluster.id, reason=error.message)
        tx.clustering.clusters.delete(cluster.id)


def reduces_desired_capacity(data: Document) -> bool:
    """Return whether a removal lowers the cluster's desired capacity."""
    return section(data, "deletion").get("reduce_desired_capacity") is not False


def reduced(cluster: Cluster, size: int, data: Document) -> Cluster:
    """Return the cluster with that desired capacity, unless a deletion policy keeps it."""
    return replace(cluster, desired_capacity=size) if reduces_desired_capacity(data) else cluster


def _delete_node(tx: Transaction, node: Node, data: Document) -> None:
    cluster = None if node.cluster_id is None else tx.clustering.clusters.lock(node.cluster_id)
    tx.clustering.nodes.delete([node.id])
    if cluster is not None:
        tx.clustering.clusters.update(reduced(cluster, len(set(cluster.nodes) - {node.id}), data))
