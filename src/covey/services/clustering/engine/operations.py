"""Operations on the servers of nodes: start, stop, reboot, evacuate, lock and unlock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from covey.model import actions as instance_actions
from covey.model.access import Actor
from covey.model.actions import MoveKind
from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.clusters import Node, NodeStatus
from covey.model.clustering.health import refresh_status
from covey.model.clustering.profile_types import PROFILE_TYPES
from covey.model.clustering.spec_schema import read
from covey.model.clustering.specs import Document
from covey.model.errors import Busy, CoveyError, Invalid, Unavailable
from covey.model.ids import ServerId
from covey.model.servers import Server
from covey.ports import Clock, NewUuid
from covey.services.clustering.engine.actions import (
    ActionContext,
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
from covey.services.clustering.engine.profile_servers import servers_of
from covey.services.moves import MoveRequest, Moves
from covey.services.power import Power
from covey.storage.store import Store

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
