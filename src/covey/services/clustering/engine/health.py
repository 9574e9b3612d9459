"""CHECK and RECOVER actions on clusters and nodes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from covey.model.clustering.actions import Action, ActionStatus, Verb
from covey.model.clustering.clusters import Node, NodeStatus
from covey.model.clustering.health import parse_recovery, refresh_status
from covey.model.ids import GroupId
from covey.ports import Clock, NewUuid
from covey.services.clustering.engine.actions import (
    POLL_INTERVAL_S,
    ActionContext,
    ActionResult,
    Outcome,
    Retry,
    children_of,
    finished,
    lock_claimed_action,
    new_children,
    started,
    update_children,
    wait_for_children,
)
from covey.services.clustering.engine.node_creation import NodeCreation
from covey.services.clustering.engine.node_removal import NodeRemoval
from covey.services.clustering.engine.operations import Reboots
from covey.services.clustering.engine.policy_checks import PolicyChecks
from covey.services.clustering.engine.profile_servers import placement, servers_of
from covey.services.clustering.engine.scaling import Candidates
from covey.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class Check:
    """Updates the status of nodes from their servers."""

    clock: Clock

    def check(self, context: ActionContext) -> Outcome:
        """Check all nodes of a cluster, or one node."""
        return ActionResult(reason="Check completed.", finalize=lambda tx: self._update(tx, context))

    def _update(self, tx: Transaction, context: ActionContext) -> None:
        tx.clustering.nodes.update(_refreshed(tx, _targets(tx, context), self.clock))


@dataclass(frozen=True, slots=True)
class Recover:
    """Reboots or recreates the servers of nodes that are not ACTIVE.

    REBUILD recreates the server: a server's disk does not outlive it.
    """

    store: Store
    clock: Clock
    new_uuid: NewUuid
    checks: PolicyChecks
    reboots: Reboots
    creation: NodeCreation
    removal: NodeRemoval
    candidates: Candidates

    def start(self, context: ActionContext) -> Outcome:
        """Create a child action for each unhealthy node. Raises Invalid for an unknown operation."""
        _operation(context)
        now = self.clock()
        with self.store.write() as tx:
            _, action = lock_claimed_action(tx, context)
            nodes = _targets(tx, context)
            if action.inputs.get("check"):
                nodes = _refreshed(tx, nodes, self.clock)
                tx.clustering.nodes.update(nodes)
            unhealthy = [node for node in nodes if node.status is not NodeStatus.ACTIVE]
            if action.verb.is_for_cluster:
                children = new_children(action, Verb.NODE_RECOVER, unhealthy, self.new_uuid, now, started=False)
                tx.clustering.actions.add(children)
            tx.clustering.nodes.update([replace(node, status=NodeStatus.RECOVERING) for node in unhealthy])
            wait_for_children(tx, action, f"Recovered 0 of {len(unhealthy)} nodes.", now)
        return Retry()

    def resume(self, context: ActionContext) -> Outcome:
        capacity_children: list[Action] = []
        if context.action.verb.is_for_cluster:
            with self.store.read() as tx:
                capacity_children = children_of(tx, context.action, Verb.NODE_CREATE, Verb.NODE_DELETE)
        if capacity_children:
            is_creation = capacity_children[0].verb is Verb.NODE_CREATE
            return self.creation.poll(context) if is_creation else self.removal.poll(context)
        outcome = self.reboots.resume(context) if _operation(context) == "REBOOT" else self._recreate(context)
        if isinstance(outcome, ActionResult) and outcome.succeeded and context.action.inputs.get("check_capacity"):
            return self._restore_capacity(context) or outcome
        return outcome

    def _restore_capacity(self, context: ActionContext) -> Outcome | None:
        """Add or remove members until the cluster has its desired capacity; None when it has."""
        cluster = context.required_cluster
        missing = cluster.desired_capacity - len(cluster.nodes)
        if missing > 0:
            return self.creation.add_members(context, self.checks.placements(context, missing))
        if missing < 0:
            return self.removal.remove_members(context, self.candidates.select(cluster, {}, -missing))
        return None

    def _recreate(self, context: ActionContext) -> Outcome:
        """Delete the old servers first, then create all new ones by one scheduling decision."""
        with self.store.read() as tx:
            children = [c for c in children_of(tx, context.action, Verb.NODE_RECOVER) if not c.is_finished]
            found = tx.clustering.nodes.by_ids([child.target for child in children])
            nodes = {node.id: node for node in found if node.status is NodeStatus.RECOVERING}
            with_server = servers_of(tx, nodes.values())
            without_server = _with_existing_groups(tx, [node for node in nodes.values() if node.id not in with_server])
        if not nodes:
            return self.creation.poll(context, Verb.NODE_RECOVER)
        if len(without_server) == len(nodes):
            return self.creation.create_servers(context, without_server)
        self._delete_servers(context, [child for child in children if child.target in with_server], nodes)
        return Retry(POLL_INTERVAL_S)

    def _delete_servers(self, context: ActionContext, children: Sequence[Action], nodes: dict[str, Node]) -> None:
        """Request the deletion of the old servers. A node whose server cannot be deleted keeps it."""
        ready = [child for child in children if child.status is not ActionStatus.RUNNING]
        if not ready:
            return
        now = self.clock()
        problems = {child.id: self.removal.delete_server(context, nodes[child.target]) for child in ready}
        changed = [finished(c, now, problems[c.id]) if problems[c.id] else started(c, now) for c in ready]
        failed = [
            replace(nodes[child.target], status=NodeStatus.ERROR, status_reason=problems[child.id], updated_at=now)
            for child in ready
            if problems[child.id]
        ]
        with self.store.write() as tx:
            lock_claimed_action(tx, context)
            tx.clustering.nodes.update(failed)
            update_children(tx, changed)


def _refreshed(tx: Transaction, nodes: Sequence[Node], clock: Clock) -> list[Node]:
    servers = servers_of(tx, nodes)
    return [refresh_status(node, servers.get(node.id), clock()) for node in nodes]


def _operation(context: ActionContext) -> object:
    """Return the recovery operation. Raises Invalid: a webhook's inputs are validated here only."""
    return parse_recovery(context.action.inputs, context.action.inputs).get("operation")


def _targets(tx: Transaction, context: ActionContext) -> list[Node]:
    if context.action.verb.is_for_cluster:
        return tx.clustering.nodes.of(context.required_cluster.id)
    return tx.clustering.nodes.by_ids([context.required_node.id])


def _with_existing_groups(tx: Transaction, nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes, without the server groups that have been deleted."""
    named = {GroupId(place["servergroup"]) for place in map(placement, nodes) if "servergroup" in place}
    deleted = named - {group.id for group in tx.groups.by_ids(sorted(named))}
    return [
        replace(node, data={**node.data, "placement": _without_group(node)})
        if placement(node).get("servergroup") in deleted
        else node
        for node in nodes
    ]


def _without_group(node: Node) -> dict[str, str]:
    return {key: value for key, value in placement(node).items() if key != "servergroup"}
