"""CLUSTER_OPERATION, CHECK and RECOVER actions, and those of nodes: what is done to the servers of nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from covey.model import actions as instance_actions
from covey.model.access import Actor
from covey.model.actions import MoveKind
from covey.model.clustering.actions import Action, ActionStatus, Verb
from covey.model.clustering.clusters import Node, NodeStatus
from covey.model.clustering.health import parse_recovery, refresh_status
from covey.model.clustering.profile_types import PROFILE_TYPES
from covey.model.clustering.spec_schema import read
from covey.model.clustering.specs import Document
from covey.model.errors import Busy, CoveyError, Invalid, Unavailable
from covey.model.ids import GroupId, ServerId
from covey.model.servers import Server
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
    progress,
    started,
    update_children,
    wait_for_children,
)
from covey.services.clustering.engine.node_creation import NodeCreation
from covey.services.clustering.engine.node_removal import NodeRemoval
from covey.services.clustering.engine.policy_checks import PolicyChecks
from covey.services.clustering.engine.profile_servers import placement, servers_of
from covey.services.clustering.engine.scaling import Candidates
from covey.services.moves import MoveRequest, Moves
from covey.services.power import Power
from covey.storage.store import Store, Transaction

_MAX_REQUESTS = 100  # servers in one execution
_SERVER_OPERATIONS = PROFILE_TYPES.named("os.nova.server-1.0").operations


@dataclass(frozen=True, slots=True)
class Operations:
    """Performs one operation on the server of a node, or on the servers of a cluster's nodes."""

    store: Store
    clock: Clock
    new_uuid: NewUuid
    power: Power
    moves: Moves

    def start(self, context: ActionContext) -> Outcome:
        """Create a child action for each node that the request selected."""
        now = self.clock()
        with self.store.write() as tx:
            _, action = lock_claimed_action(tx, context)
            if context.cluster is not None and action.verb is Verb.CLUSTER_OPERATION:
                selected = _ids(action.inputs.get("nodes"))
                nodes = [node for node in tx.clustering.nodes.of(context.cluster.id) if node.id in selected]
                children = new_children(action, Verb.NODE_OPERATION, nodes, self.new_uuid, now, started=False)
                inputs = {key: action.inputs.get(key) for key in ("operation", "params")}
                tx.clustering.actions.add([replace(child, inputs=inputs) for child in children])
                tx.clustering.nodes.update([replace(node, status=NodeStatus.OPERATING) for node in nodes])
            wait_for_children(tx, action, "Waiting for servers.", now)
        return Retry()

    def resume(self, context: ActionContext) -> Outcome:
        """Send the operation to servers that have not got it yet, and finish the children of those that are done."""
        now = self.clock()
        with self.store.read() as tx:
            children = children_of(tx, context.action, Verb.NODE_OPERATION)
            targets = [child.target for child in children if not child.is_finished]
            servers = servers_of(tx, tx.clustering.nodes.by_ids(targets))
            ids = [server.id for server in servers.values()]
            requested = {entry.server_id: entry for entry in tx.actions.of_request(ids, context.request_id)}
        changed: dict[str, Action] = {}
        requests = 0
        for child in children:
            server = servers.get(child.target)
            if child.is_finished:
                continue
            if server is None:
                changed[child.id] = finished(child, now, "The node has no server.")
            elif server.id in requested:
                if server.task is None:
                    changed[child.id] = finished(child, now, _failure(requested[server.id]))
            elif requests < _MAX_REQUESTS:
                requests += 1
                changed[child.id] = self._request(context, child, server)
        with self.store.write() as tx:
            lock_claimed_action(tx, context)
            update_children(tx, list(changed.values()))
        return progress([changed.get(child.id, child) for child in children], "operating on", "Operated on")

    def _request(self, context: ActionContext, child: Action, server: Server) -> Action:
        """Return the child after its request: FAILED when rejected, SUCCEEDED when the operation takes no time."""
        now = self.clock()
        try:
            takes_time = self._operate(context.actor, server.id, child.inputs, context.request_id)
        except (Busy, Unavailable):
            raise
        except CoveyError as error:
            return finished(child, now, error.message)
        return started(child, now) if takes_time else finished(child, now)

    def _operate(self, actor: Actor, server: ServerId, inputs: Document, request_id: str) -> bool:
        """Return whether the operation continues after the request. Raises Invalid for an unsupported one."""
        name = str(inputs.get("operation"))
        params = _params(name, inputs.get("params"))
        match name:
            case "start" | "stop":
                self.power.switch(actor, server, name, request_id)
            case "reboot":
                self.power.reboot(actor, server, request_id, hard=params.get("type") == "HARD")
            case "evacuate":
                host = params.get("host")
                forced = params.get("force") is True
                request = MoveRequest(
                    MoveKind.EVACUATION, request_id, None if host is None else str(host), forced=forced
                )
                self.moves.begin(actor, server, request, "os_compute_api:os-evacuate")
            case "lock":
                self.power.lock(actor, server, None)
            case "unlock":
                self.power.unlock(actor, server)
            case _:
                raise Invalid(f"The operation '{name}' is not offered by this cloud.")
        return name not in {"lock", "unlock"}


@dataclass(frozen=True, slots=True)
class Reboots:
    """Recovers nodes by a reboot. The server's instance actions show whether it was requested already."""

    store: Store
    clock: Clock
    power: Power

    def resume(self, context: ActionContext) -> Outcome:
        now = self.clock()
        with self.store.read() as tx:
            children = children_of(tx, context.action, Verb.NODE_RECOVER)
            unfinished = [child for child in children if not child.is_finished]
            nodes = {node.id: node for node in tx.clustering.nodes.by_ids([child.target for child in unfinished])}
            servers = servers_of(tx, nodes.values())
            ids = [server.id for server in servers.values()]
            requested = {entry.server_id for entry in tx.actions.of_request(ids, context.request_id)}
        ended: dict[str, Action] = {}
        changed: list[Node] = []
        for child in unfinished:
            node, server = nodes.get(child.target), servers.get(child.target)
            problem = ""
            if node is not None and node.status is NodeStatus.RECOVERING and server is not None:
                if server.id not in requested:
                    problem = self._reboot(context, server)
                if not problem and (server.id not in requested or server.task is not None):
                    continue
            if node is not None:
                node = refresh_status(node, server, now)
                changed.append(node)
            ended[child.id] = finished(child, now, problem or _problem(node))
        if ended:
            with self.store.write() as tx:
                lock_claimed_action(tx, context)
                tx.clustering.nodes.update(changed)
                update_children(tx, list(ended.values()))
        return progress([ended.get(child.id, child) for child in children], "recovering", "Recovered")

    def _reboot(self, context: ActionContext, server: Server) -> str:
        """Request a reboot, which also starts a stopped server; return the problem, or an empty text."""
        params = context.action.inputs.get("operation_params")
        soft = isinstance(params, Mapping) and str(params.get("type")).upper() == "SOFT"
        try:
            self.power.reboot(context.actor, server.id, context.request_id, hard=not soft)
        except Unavailable:
            raise
        except CoveyError as error:
            return f"Failed in rebooting server: {error.message}"
        return ""


def _params(name: str, given: object) -> Document:
    """Return the parameters of an operation, with defaults."""
    operation = _SERVER_OPERATIONS.get(name)
    return {} if operation is None else read(operation.parameters, given if isinstance(given, dict) else {})


def _failure(entry: instance_actions.Action) -> str:
    """Return the error of an instance action; empty when it succeeded."""
    failed = [event for event in entry.events if event.result == "Error"]
    return (failed[-1].details or "The operation failed on the host.") if failed else ""


def _problem(node: Node | None) -> str:
    if node is None:
        return "The node was deleted."
    return "" if node.status is NodeStatus.ACTIVE else node.status_reason


def _ids(given: object) -> frozenset[str]:
    return frozenset(map(str, given)) if isinstance(given, Sequence) else frozenset()


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
            return self.creation.create_servers(context, self._placed_now(context, without_server))
        self._delete_servers(context, [child for child in children if child.target in with_server], nodes)
        return Retry(POLL_INTERVAL_S)

    def _placed_now(self, context: ActionContext, nodes: Sequence[Node]) -> list[Node]:
        """Return the nodes placed by the cluster's present policies. Raises Conflict if a policy refuses.

        A zone that was chosen for a node stays, unless it names a host that takes no servers now.
        """
        members = [node.id for node in nodes if context.cluster is not None and node.cluster_id == context.cluster.id]
        places = self.checks.placements(context, len(members), recreated=True) if members else []
        chosen: dict[str, dict[str, str]] = dict(zip(members, places, strict=True))
        with self.store.read() as tx:
            stored = {node.id: _without_lost_host(tx, placement(node)) for node in nodes}
        placed = [_merge(chosen.get(node.id, {}), stored[node.id]) for node in nodes]
        return [
            replace(node, data={**node.data, "placement": place}) if place != placement(node) else node
            for node, place in zip(nodes, placed, strict=True)
        ]

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


def _merge(chosen: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    """Return a placement by present policies, in the zone that was chosen before, if one was."""
    return {**stored, **chosen, **{key: zone for key, zone in stored.items() if key == "zone"}}


def _without_lost_host(tx: Transaction, place: Mapping[str, str]) -> dict[str, str]:
    """Return the placement, without a zone that names a host which is down or disabled, or does not exist."""
    _, _, name = place.get("zone", "").partition(":")
    host = tx.hosts.by_name(name) if name else None
    is_lost = bool(name) and (host is None or host.disabled or not host.up)
    return {key: value for key, value in place.items() if key != "zone" or not is_lost}


def _without_group(node: Node) -> dict[str, str]:
    return {key: value for key, value in placement(node).items() if key != "servergroup"}
