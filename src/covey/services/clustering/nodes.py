"""Nodes: list, show, create, update, delete, check, recover, operate."""

from dataclasses import dataclass, field, replace

from covey.model.access import Actor, Target
from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.clusters import Node, NodeStatus
from covey.model.clustering.errors import InProgress
from covey.model.clustering.health import NODE_RECOVERY_PARAMS, parse_recovery
from covey.model.clustering.node_names import generate_node_name
from covey.model.clustering.owners import owner_of
from covey.model.clustering.paging import PageQuery
from covey.model.clustering.profile_types import PROFILE_TYPES
from covey.model.clustering.sizes import Limits, check_scale_count
from covey.model.clustering.specs import Document, Profile
from covey.model.errors import Invalid
from covey.model.servers import Server
from covey.ports import Access, Clock, NewUuid
from covey.services.clustering.dispatcher import Dispatcher
from covey.services.clustering.lookup import (
    changed_fields,
    find_node,
    profile_type,
    reject_over_quota,
    specified_cluster,
    specified_profile,
    visible_page,
)
from covey.storage.store import Store, Transaction

_RULE = "nodes:"
_IN_PROGRESS = frozenset({NodeStatus.CREATING, NodeStatus.UPDATING, NodeStatus.DELETING, NodeStatus.RECOVERING})


@dataclass(frozen=True, slots=True)
class NewNode:
    """A request for a node. A cluster generates the names of its members."""

    name: str
    profile: str
    cluster: str | None = None
    role: str | None = None
    metadata: Document = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeChange:
    """The fields to update; None keeps the current value."""

    name: str | None = None
    profile: str | None = None
    role: str | None = None
    metadata: Document | None = None
    tainted: bool | None = None


@dataclass(frozen=True, slots=True)
class Nodes:
    """Requests about nodes."""

    store: Store
    access: Access
    clock: Clock
    new_uuid: NewUuid
    dispatcher: Dispatcher
    limits: Limits

    def page(self, actor: Actor, query: PageQuery) -> list[Node]:
        """Return a page of those that the actor may see. Raises Forbidden, and Invalid for an unknown cluster."""
        self.access.require(actor, f"{_RULE}index", Target(project_id=actor.project_id))
        query = visible_page(self.access, actor, query)
        with self.store.read() as tx:
            if "cluster_id" in query.filters:
                key = str(query.filters["cluster_id"][-1])
                cluster = tx.clustering.clusters.one(key, query.project_id)
                if cluster is None:
                    raise Invalid(f"Cannot find the given cluster: {key}.")
                query = replace(query, filters={**query.filters, "cluster_id": (cluster.id,)})
            return tx.clustering.nodes.page(query)

    def get(self, actor: Actor, key: str) -> tuple[Node, Server | None]:
        """Return a node and its server. Raises NotFound, Ambiguous, Forbidden."""
        with self.store.read() as tx:
            node = find_node(tx, self.access, actor, f"{_RULE}get", key)
            return node, None if node.server_id is None else tx.servers.by_id(node.server_id)

    def create(self, actor: Actor, new: NewNode) -> tuple[Node, Action]:
        """Return the node without a server, and the action that creates it. Raises Invalid, Locked, OverQuota."""
        self.access.require(actor, f"{_RULE}create", Target(project_id=actor.project_id))
        with self.store.write() as tx:
            profile = specified_profile(tx, self.access, actor, new.profile)
            node = Node(
                id=self.new_uuid(),
                name=new.name,
                profile_id=profile.id,
                owner=owner_of(actor),
                init_at=self.clock(),
                role=new.role,
                metadata=new.metadata,
                profile_name=profile.name,
            )
            if new.cluster is None:
                limit = self.limits.max_orphan_nodes_per_project
                reject_over_quota(tx, actor, tx.clustering.nodes.count_orphans, "nodes outside of clusters", limit)
            else:
                node = self._as_member(tx, actor, new.cluster, node, profile)
            tx.clustering.nodes.add([node])
            return node, self.dispatcher.start_action(tx, actor, Verb.NODE_CREATE, node, {})

    def update(self, actor: Actor, key: str, change: NodeChange) -> tuple[Node, Action]:
        """Return the node before the change, and the action. Raises Invalid, Locked."""
        with self.store.write() as tx:
            node = find_node(tx, self.access, actor, f"{_RULE}update", key, lock=True)
            fields: dict[str, tuple[object, object]] = {
                "name": (node.name, change.name),
                "role": (node.role, change.role),
                "metadata": (node.metadata, change.metadata),
                "tainted": (node.tainted, change.tainted),
            }
            inputs = changed_fields(tx, self.access, actor, node, change.profile, fields)
            return node, self.dispatcher.start_action(tx, actor, Verb.NODE_UPDATE, node, inputs)

    def delete(self, actor: Actor, key: str, *, force: bool) -> Action:
        """Raises InProgress while an action changes the node, unless `force` is set."""
        with self.store.write() as tx:
            node = find_node(tx, self.access, actor, f"{_RULE}delete", key, lock=True)
            if not force and node.status in _IN_PROGRESS:
                raise InProgress(f"The node '{key}' is in status {node.status}.")
            return self.dispatcher.start_action(tx, actor, Verb.NODE_DELETE, node, {"force": True} if force else {})

    def check(self, actor: Actor, key: str) -> Action:
        """Check the health of a node. Raises Locked."""
        with self.store.write() as tx:
            node = find_node(tx, self.access, actor, f"{_RULE}action", key, lock=True)
            return self.dispatcher.start_action(tx, actor, Verb.NODE_CHECK, node, {})

    def recover(self, actor: Actor, key: str, given: Document) -> Action:
        """Recover a node that is not ACTIVE. Raises Invalid, Locked."""
        with self.store.write() as tx:
            node = find_node(tx, self.access, actor, f"{_RULE}action", key, lock=True)
            return self.dispatcher.start_action(
                tx, actor, Verb.NODE_RECOVER, node, parse_recovery(given, NODE_RECOVERY_PARAMS)
            )

    def operate(self, actor: Actor, key: str, operation: str, params: Document) -> Action:
        """Perform an operation of the node's profile type. Raises Invalid."""
        with self.store.write() as tx:
            node = find_node(tx, self.access, actor, f"{_RULE}operation", key, lock=True)
            PROFILE_TYPES.named(profile_type(tx, node.profile_id)).check_operation(operation, params)
            inputs = {"operation": operation, "params": params}
            return self.dispatcher.start_action(tx, actor, Verb.NODE_OPERATION, node, inputs)

    def _as_member(self, tx: Transaction, actor: Actor, key: str, node: Node, profile: Profile) -> Node:
        """Return the node as a member of the cluster, with the next index and a generated name."""
        cluster = specified_cluster(tx, self.access, actor, key)
        if profile.type != profile_type(tx, cluster.profile_id):
            raise Invalid("Node and cluster have different profile type, operation aborted.")
        check_scale_count(Verb.CLUSTER_SCALE_OUT, 1, len(cluster.nodes), self.limits.max_nodes_per_cluster)
        index = cluster.next_index
        tx.clustering.clusters.update(replace(cluster, next_index=index + 1))
        name = generate_node_name(cluster.config, index, node.id)
        owner = replace(node.owner, project_id=cluster.owner.project_id)
        return replace(node, cluster_id=cluster.id, index=index, name=name, owner=owner)
