"""CLUSTER_UPDATE and NODE_UPDATE: names and metadata change at once, the profile changes node by node.

A new flavor resizes the server. A new image applies to servers that are created later: a running server keeps its disk.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from covey.model.actions import MoveKind
from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.clusters import Cluster, Node
from covey.model.clustering.health import refresh_status
from covey.model.clustering.specs import Document, Profile
from covey.model.errors import Busy, CoveyError, Unavailable
from covey.model.flavors import Flavor
from covey.model.servers import Server, VmState
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
from covey.services.clustering.engine.node_creation import cluster_update, profile_by_id
from covey.services.clustering.engine.profile_servers import (
    ProfileServers,
    node_metadata,
    profile_metadata,
    server_name,
    servers_of,
)
from covey.services.moves import MoveRequest, Moves
from covey.storage.store import Store, Transaction

_MAX_CONCURRENT_RESIZES = 10  # each holds the resources of both flavors
_RESIZE_RULE = "os_compute_api:servers:resize"
_IMAGE_NOTE = "A new image applies to servers that are created later."


@dataclass(frozen=True, slots=True)
class UpdateCluster:
    """Changes a cluster. Its nodes follow to a new profile, unless `profile_only` excludes them."""

    store: Store
    clock: Clock
    new_uuid: NewUuid
    profile_updates: "ProfileUpdates"

    def start(self, context: ActionContext) -> Outcome:
        inputs, cluster = context.action.inputs, context.required_cluster
        if "profile_id" not in inputs or inputs.get("profile_only"):
            change = cluster_update(cluster, _cluster_change(inputs))
            return ActionResult(reason="The cluster was updated.", finalize=change)
        now = self.clock()
        with self.store.write() as tx:
            locked, action = lock_claimed_action(tx, context)
            nodes = tx.clustering.nodes.of(cluster.id)
            if locked is not None:
                tx.clustering.clusters.update(_cluster_change(inputs)(locked))
            tx.clustering.actions.add(new_children(action, Verb.NODE_UPDATE, nodes, self.new_uuid, now, started=False))
            wait_for_children(tx, action, f"Updated 0 of {len(nodes)} nodes.", now)
        return Retry()

    def resume(self, context: ActionContext) -> Outcome:
        return self.profile_updates.resume(context, str(context.action.inputs["profile_id"]))


@dataclass(frozen=True, slots=True)
class UpdateNode:
    """Changes a node, and its server where the node's name, metadata or profile determines it."""

    store: Store
    clock: Clock
    profile_updates: "ProfileUpdates"

    def start(self, context: ActionContext) -> Outcome:
        inputs = context.action.inputs
        with self.store.write() as tx:
            _, action = lock_claimed_action(tx, context)
            nodes = tx.clustering.nodes.by_ids([context.required_node.id], lock=True)
            tx.clustering.nodes.update([_updated_node(node, inputs) for node in nodes])
            wait_for_children(tx, action, "Update in progress.", self.clock())
        return Retry()

    def resume(self, context: ActionContext) -> Outcome:
        profile = context.action.inputs.get("profile_id") or context.required_node.profile_id
        return self.profile_updates.resume(context, str(profile))


class _Stage(Enum):
    """How far a node's server follows the new profile."""

    PENDING = auto()
    RESIZING = auto()
    RESIZED = auto()  # the resize awaits its confirmation
    DONE = auto()
    FAILED = auto()  # a resize was requested and the server has the old flavor


@dataclass(frozen=True, slots=True)
class _NodeUpdate:
    """A node on its way to another profile."""

    child: Action
    node: Node
    server: Server | None
    old_profile: Profile
    resize_requested: bool

    def needs_resize(self, profile: Profile) -> bool:
        """Whether the server has to change its flavor."""
        return self.server is not None and self.old_profile.properties.get("flavor") != profile.properties.get("flavor")

    def stage(self, profile: Profile, flavor: Flavor | None) -> _Stage:
        """The stage that the server's state shows."""
        server = self.server
        if server is None or flavor is None or not self.needs_resize(profile):
            return _Stage.DONE
        if server.task is not None:
            return _Stage.RESIZING
        if server.flavor.id == flavor.id:
            return _Stage.RESIZED if server.vm_state is VmState.RESIZED else _Stage.DONE
        return _Stage.FAILED if self.resize_requested else _Stage.PENDING


@dataclass(frozen=True, slots=True)
class ProfileUpdates:
    """Moves the nodes of an action to a profile, a few resizes at a time."""

    store: Store
    clock: Clock
    requests: ProfileServers
    moves: Moves

    def resume(self, context: ActionContext, profile_id: str) -> Outcome:
        """Start further resizes, confirm finished ones, and finish the children of nodes that follow the profile."""
        with self.store.read() as tx:
            profile = profile_by_id(tx, profile_id)
            children = children_of(tx, context.action, Verb.NODE_UPDATE)
            unfinished = [child for child in children if not child.is_finished]
            updates = _node_updates(tx, unfinished, context.request_id)
        needs_flavor = any(update.needs_resize(profile) for update in updates)
        flavor = self.requests.flavor(context.actor, profile) if needs_flavor else None
        stages = {update.child.id: update.stage(profile, flavor) for update in updates}

        def at(stage: _Stage) -> list[_NodeUpdate]:
            return [update for update in updates if stages[update.child.id] is stage]

        free = _MAX_CONCURRENT_RESIZES - len(at(_Stage.RESIZING)) - len(at(_Stage.RESIZED))
        starting = at(_Stage.PENDING)[: max(0, free)]
        problems = {child.id: "The node was deleted." for child in unfinished if child.id not in stages}
        for update in (*starting, *at(_Stage.RESIZED)):
            problems[update.child.id] = self._resize(context, update, flavor)
        for update in at(_Stage.FAILED):
            problems[update.child.id] = "Failed in resizing server: it does not have the new flavor."
        now = self.clock()
        changed = {update.child.id: started(update.child, now) for update in starting}
        changed |= {
            child.id: finished(child, now, problems[child.id]) for child in unfinished if problems.get(child.id)
        }
        changed |= {update.child.id: finished(update.child, now) for update in at(_Stage.DONE)}
        self._store_updates(context, list(changed.values()), at(_Stage.DONE), profile)
        outcome = progress([changed.get(child.id, child) for child in children], "updating", "Updated")
        if isinstance(outcome, ActionResult) and outcome.succeeded and "profile_id" in context.action.inputs:
            return replace(outcome, reason=f"{outcome.reason} {_IMAGE_NOTE}")
        return outcome

    def _resize(self, context: ActionContext, update: _NodeUpdate, flavor: Flavor | None) -> str:
        """Request or confirm a resize; return the problem, or an empty text."""
        assert update.server is not None
        server, request_id = update.server.id, context.request_id
        try:
            if update.server.vm_state is VmState.RESIZED:
                self.moves.confirm(context.actor, server, request_id)
            else:
                request = MoveRequest(MoveKind.RESIZE, request_id, flavor=flavor)
                self.moves.begin(context.actor, server, request, _RESIZE_RULE)
        except (Unavailable, Busy):
            raise
        except CoveyError as error:
            return f"Failed in resizing server: {error.message}"
        return ""

    def _store_updates(
        self, context: ActionContext, children: Sequence[Action], done: Sequence[_NodeUpdate], profile: Profile
    ) -> None:
        """Give the nodes that are done the new profile; the others keep the old one."""
        if not children:
            return
        with self.store.write() as tx:
            lock_claimed_action(tx, context)
            now = self.clock()
            nodes: list[Node] = []
            for update in done:
                node = replace(update.node, profile_id=profile.id)
                nodes.append(refresh_status(node, self._update_server(tx, node, update.old_profile, profile), now))
            tx.clustering.nodes.update(nodes)
            update_children(tx, children)

    def _update_server(self, tx: Transaction, node: Node, old: Profile, new: Profile) -> Server | None:
        """Give the server the name and metadata of the new profile."""
        server = None if node.server_id is None else tx.servers.by_id(node.server_id, lock=True)
        if server is None:
            return None
        kept = {key: value for key, value in server.details.metadata.items() if key not in profile_metadata(old)}
        details = replace(server.details, metadata={**kept, **profile_metadata(new), **node_metadata(node)})
        updated = replace(server, name=server_name(new, node), details=details, updated_at=self.clock())
        tx.servers.update(updated)
        return updated


def _node_updates(tx: Transaction, children: Sequence[Action], request_id: str) -> list[_NodeUpdate]:
    nodes = {node.id: node for node in tx.clustering.nodes.by_ids([child.target for child in children])}
    servers = servers_of(tx, nodes.values())
    requested = {entry.server_id for entry in tx.actions.of_request([s.id for s in servers.values()], request_id)}
    profiles = {profile: profile_by_id(tx, profile) for profile in {node.profile_id for node in nodes.values()}}
    updates: list[_NodeUpdate] = []
    for child in children:
        node = nodes.get(child.target)
        if node is not None:
            server = servers.get(node.id)
            resize_requested = server is not None and server.id in requested
            updates.append(_NodeUpdate(child, node, server, profiles[node.profile_id], resize_requested))
    return updates


def _cluster_change(inputs: Document) -> Callable[[Cluster], Cluster]:
    name, profile, timeout = inputs.get("name"), inputs.get("profile_id"), inputs.get("timeout")
    metadata, config = inputs.get("metadata"), inputs.get("config")

    def change(cluster: Cluster) -> Cluster:
        return replace(
            cluster,
            name=cluster.name if name is None else str(name),
            profile_id=cluster.profile_id if profile is None else str(profile),
            timeout=timeout if isinstance(timeout, int) else cluster.timeout,
            metadata=metadata if isinstance(metadata, Mapping) else cluster.metadata,
            config=config if isinstance(config, Mapping) else cluster.config,
        )

    return change


def _updated_node(node: Node, inputs: Document) -> Node:
    metadata, role = inputs.get("metadata"), inputs.get("role", node.role)
    return replace(
        node,
        name=str(inputs.get("name", node.name)),
        role=None if role is None else str(role),
        metadata=metadata if isinstance(metadata, Mapping) else node.metadata,
        tainted=bool(inputs.get("tainted", node.tainted)),
    )
