"""Node creation: node rows, child actions and the claims of all servers are one transaction."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby

from covey.model.claims import ServerRequest
from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.clusters import Cluster, Node, NodeStatus
from covey.model.clustering.node_names import generate_node_name
from covey.model.clustering.policies.decisions import placements
from covey.model.clustering.sizes import Limits, check_max_size
from covey.model.clustering.specs import Profile
from covey.model.errors import Invalid, NotFound, TransactionConflict
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
    update_children,
    wait_for_children,
)
from covey.services.clustering.engine.profile_servers import ProfileServers, placement, servers_of
from covey.services.servers import Servers
from covey.storage.store import Store, Transaction

_NOT_CREATED = frozenset({NodeStatus.INIT, NodeStatus.CREATING})
_CREATED_OR_CREATING = frozenset({NodeStatus.CREATING, NodeStatus.ACTIVE, NodeStatus.ERROR})

ClusterChange = Callable[[Cluster], Cluster]


def unchanged(cluster: Cluster) -> Cluster:
    """Return the cluster as it is."""
    return cluster


@dataclass(frozen=True, slots=True)
class NodeCreation:
    """Creates nodes and waits until their servers are built."""

    store: Store
    clock: Clock
    new_uuid: NewUuid
    servers: Servers
    requests: ProfileServers

    def add_members(
        self, context: ActionContext, places: Sequence[Mapping[str, str]], change: ClusterChange = unchanged
    ) -> Outcome:
        """Create one member for each placement, and apply `change` to the cluster.

        Raises NoValidHost, OverQuota, Invalid; nothing has changed then.
        """
        cluster = context.required_cluster
        if not places:
            return ActionResult(reason="No node was created.", finalize=cluster_update(cluster, change))
        nodes = self._new_members(cluster, places)
        with self.servers.creating(context.actor, self._requests(context, nodes)) as (tx, servers):
            locked, action = lock_claimed_action(tx, context)
            if locked is None or children_of(tx, action, Verb.NODE_CREATE):
                raise TransactionConflict(f"The nodes of the action {action.id} exist already.")
            created = _with_servers(nodes, servers)
            now = self.clock()
            tx.clustering.nodes.add(created)
            children = new_children(action, Verb.NODE_CREATE, created, self.new_uuid, now, started=True)
            tx.clustering.actions.add(children)
            next_index = max(node.index for node in created) + 1
            tx.clustering.clusters.update(change(replace(locked, next_index=max(locked.next_index, next_index))))
            wait_for_children(tx, action, f"Created 0 of {len(created)} nodes.", now)
        return Retry()

    def create_servers(
        self, context: ActionContext, nodes: Sequence[Node], change: ClusterChange = unchanged
    ) -> Outcome:
        """Create servers for nodes without one, all or none. Raises NoValidHost, OverQuota, Invalid."""
        ordered = _by_placement(nodes)
        with self.servers.creating(context.actor, self._requests(context, ordered)) as (tx, servers):
            cluster, action = lock_claimed_action(tx, context)
            locked = {node.id: node.server_id for node in tx.clustering.nodes.by_ids([n.id for n in nodes], lock=True)}
            if locked != {node.id: node.server_id for node in nodes}:
                raise TransactionConflict(f"The nodes of the action {action.id} have changed or were deleted.")
            tx.clustering.nodes.update(_with_servers(ordered, servers))
            if cluster is not None and change is not unchanged:
                tx.clustering.clusters.update(change(cluster))
            wait_for_children(tx, action, f"Created 0 of {len(nodes)} nodes.", self.clock())
        return Retry()

    def poll(self, context: ActionContext, verb: Verb = Verb.NODE_CREATE) -> Outcome:
        """Finish the children whose servers are built or have failed, and return the progress."""
        now = self.clock()
        with self.store.read() as tx:
            children = children_of(tx, context.action, verb)
            targets = [child.target for child in children if not child.is_finished]
            nodes = {node.id: node for node in tx.clustering.nodes.by_ids(targets)}
            servers = servers_of(tx, nodes.values())
        ended: dict[str, Action] = {}
        changed: list[Node] = []
        for child in children:
            node = nodes.get(child.target)
            if child.is_finished or (node is not None and node.status not in _CREATED_OR_CREATING):
                continue
            server = servers.get(child.target)
            built = None if node is None else _node_after_build(node, server, now)
            if built is not None:
                changed.append(built)
                if server is not None and built.server_id is None:
                    self._delete_failed(context, server)
            if node is None or built is not None:
                ended[child.id] = finished(child, now, _problem(built))
        if ended:
            with self.store.write() as tx:
                lock_claimed_action(tx, context)
                tx.clustering.nodes.update(changed)
                update_children(tx, list(ended.values()))
        words = ("creating", "Created") if verb is Verb.NODE_CREATE else ("recovering", "Recovered")
        return progress([ended.get(child.id, child) for child in children], *words)

    def _delete_failed(self, context: ActionContext, server: Server) -> None:
        with suppress(NotFound):
            self.servers.delete(context.actor, server.id, context.request_id)

    def _new_members(self, cluster: Cluster, places: Sequence[Mapping[str, str]]) -> list[Node]:
        now = self.clock()
        members = []
        for index, place in enumerate(places, cluster.next_index):
            node_id = self.new_uuid()
            members.append(
                Node(
                    id=node_id,
                    name=generate_node_name(cluster.config, index, node_id),
                    profile_id=cluster.profile_id,
                    owner=cluster.owner,
                    init_at=now,
                    cluster_id=cluster.id,
                    index=index,
                    data={"placement": dict(place)} if place else {},
                )
            )
        return _by_placement(members)

    def _requests(self, context: ActionContext, nodes: Sequence[Node]) -> list[ServerRequest]:
        """Return the server requests of nodes that are sorted by profile and placement."""
        requests: list[ServerRequest] = []
        for profile_id, group in groupby(nodes, lambda node: node.profile_id):
            with self.store.read() as tx:
                profile = profile_by_id(tx, profile_id)
            requests += self.requests.requests(context.actor, profile, list(group), context.request_id, self.clock())
        return requests


@dataclass(frozen=True, slots=True)
class CreateCluster:
    """Creates the first nodes of a cluster."""

    clock: Clock
    creation: NodeCreation

    def start(self, context: ActionContext) -> Outcome:
        places = placements(context.action.data, context.required_cluster.desired_capacity)
        return self._with_created_at(context, self.creation.add_members(context, places))

    def resume(self, context: ActionContext) -> Outcome:
        return self._with_created_at(context, self.creation.poll(context))

    def _with_created_at(self, context: ActionContext, outcome: Outcome) -> Outcome:
        if not isinstance(outcome, ActionResult) or not outcome.succeeded:
            return outcome
        now = self.clock()
        stamp = cluster_update(context.required_cluster, lambda cluster: replace(cluster, created_at=now))
        return replace(outcome, finalize=stamp)


@dataclass(frozen=True, slots=True)
class CreateNode:
    """Creates an orphan node, or a member where the cluster's policies place it."""

    creation: NodeCreation
    limits: Limits

    def start(self, context: ActionContext) -> Outcome:
        node = context.required_node
        if context.cluster is not None:
            self._check_size(context.cluster)
        place = placements(context.action.data, 1)[0]
        placed = replace(node, data={**node.data, "placement": place}) if place else node
        return self.creation.create_servers(context, [placed], self._check_size)

    def resume(self, context: ActionContext) -> Outcome:
        outcome = self.creation.poll(context)
        if isinstance(outcome, ActionResult) and outcome.succeeded and context.cluster is not None:
            return replace(outcome, finalize=lambda tx: _set_desired_capacity(tx, context.required_cluster.id))
        return outcome

    def _check_size(self, cluster: Cluster) -> Cluster:
        """Return the cluster, which has the node's row already. Raises Invalid when that is one too many."""
        check_max_size(cluster, len(cluster.nodes), self.limits.max_nodes_per_cluster)
        return cluster


def cluster_update(cluster: Cluster, change: ClusterChange) -> Callable[[Transaction], None]:
    """Return a `finalize` that changes the cluster when the action ends."""

    def finalize(tx: Transaction) -> None:
        locked = tx.clustering.clusters.lock(cluster.id)
        if locked is not None:
            tx.clustering.clusters.update(change(locked))

    return finalize


def profile_by_id(tx: Transaction, profile_id: str) -> Profile:
    """Return a profile. Raises Invalid."""
    profile = tx.clustering.profiles.one(profile_id, None)
    if profile is None:
        raise Invalid(f"The profile '{profile_id}' could not be found.")
    return profile


def _set_desired_capacity(tx: Transaction, cluster_id: str) -> None:
    """Set the desired capacity to the number of created nodes; nodes in creation count when they succeed."""
    cluster = tx.clustering.clusters.lock(cluster_id)
    if cluster is not None:
        created = [node for node in tx.clustering.nodes.of(cluster_id) if node.status not in _NOT_CREATED]
        tx.clustering.clusters.update(replace(cluster, desired_capacity=len(created)))


def _by_placement(nodes: Sequence[Node]) -> list[Node]:
    return sorted(nodes, key=lambda node: (node.profile_id, sorted(placement(node).items()), node.index, node.id))


def _with_servers(nodes: Sequence[Node], servers: Sequence[Server]) -> list[Node]:
    return [
        replace(node, server_id=server.id, status=NodeStatus.CREATING, status_reason="Creation in progress.")
        for node, server in zip(nodes, servers, strict=True)
    ]


def _node_after_build(node: Node, server: Server | None, now: datetime) -> Node | None:
    """Return the node after its server's build has succeeded or failed; None while it is in progress."""
    if node.status is not NodeStatus.CREATING:
        return node
    if server is not None and server.vm_state is VmState.BUILDING:
        return None
    if server is None or server.vm_state is VmState.ERROR:
        problem = "it was deleted during its build." if server is None else "it failed."
        if server is not None and server.fault is not None:
            problem = server.fault.message
        reason = f"Failed in creating server: {problem}"
        return replace(node, status=NodeStatus.ERROR, status_reason=reason, server_id=None, updated_at=now)
    place = {"zone": server.zone, **placement(node)} if server.zone else placement(node)
    return replace(
        node,
        status=NodeStatus.ACTIVE,
        status_reason="Creation succeeded.",
        created_at=node.created_at or now,
        updated_at=now,
        data={**node.data, "placement": place} if place else node.data,
        tainted=False,
    )


def _problem(node: Node | None) -> str:
    if node is None:
        return "The node was deleted."
    return "" if node.status is NodeStatus.ACTIVE else node.status_reason
