"""Nodes: asking for them, looking at them, changing and deleting them, and looking after one."""

from dataclasses import dataclass, field, replace

from covey.model.access import Actor, Target
from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.clusters import Node, NodeStatus
from covey.model.clustering.errors import InProgress
from covey.model.clustering.limits import Limits
from covey.model.clustering.listing import Listing
from covey.model.clustering.names import node_name
from covey.model.clustering.owners import owner_of
from covey.model.clustering.profile_types import PROFILE_TYPES
from covey.model.clustering.recovery import FOR_NODES, recovery
from covey.model.clustering.sizes import check_scaling
from covey.model.clustering.specs import Document, Profile
from covey.model.errors import Invalid
from covey.model.servers import Server
from covey.ports import Access, Clock, NewUuid
from covey.services.clustering.changes import changes
from covey.services.clustering.finding import own_node, some_profile, specified, type_of
from covey.services.clustering.requests import Requests
from covey.services.clustering.visibility import listing_seen, project_seen
from covey.storage.store import Store, Transaction

_RULE = "nodes:"
_CHANGING = frozenset({NodeStatus.CREATING, NodeStatus.UPDATING, NodeStatus.DELETING, NodeStatus.RECOVERING})


@dataclass(frozen=True, slots=True)
class NewNode:
    """A node as a tenant asks for it. A member of a cluster is named by the cluster."""

    name: str
    profile: str
    cluster: str | None = None
    role: str | None = None
    metadata: Document = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeChange:
    """What a tenant wants to be otherwise; None leaves it."""

    name: str | None = None
    profile: str | None = None
    role: str | None = None
    metadata: Document | None = None
    tainted: bool | None = None


@dataclass(frozen=True, slots=True)
class Nodes:
    """What can be done with nodes."""

    store: Store
    access: Access
    clock: Clock
    new_uuid: NewUuid
    requests: Requests
    limits: Limits

    def page(self, actor: Actor, wanted: Listing) -> list[Node]:
        """Some of those that the actor may see, of one cluster or wherever. Raises Forbidden, Invalid."""
        self.access.require(actor, f"{_RULE}index", Target(project_id=actor.project_id))
        wanted = listing_seen(self.access, actor, wanted)
        with self.store.read() as tx:
            if "cluster_id" in wanted.filters:
                key = str(wanted.filters["cluster_id"][-1])
                cluster = tx.clustering.clusters.one(key, wanted.project_id)
                if cluster is None:
                    raise Invalid(f"Cannot find the given cluster: {key}.")
                wanted = replace(wanted, filters={**wanted.filters, "cluster_id": (cluster.id,)})
            return tx.clustering.nodes.page(wanted)

    def get(self, actor: Actor, key: str) -> tuple[Node, Server | None]:
        """A node, and the server that it is. Raises NotFound, Ambiguous."""
        with self.store.read() as tx:
            node = own_node(tx, self.access, actor, f"{_RULE}get", key)
            return node, None if node.server_id is None else tx.servers.by_id(node.server_id)

    def create(self, actor: Actor, new: NewNode) -> tuple[Node, Action]:
        """The node without its server, and the action that will make that. Raises Invalid, Locked."""
        self.access.require(actor, f"{_RULE}create", Target(project_id=actor.project_id))
        with self.store.write() as tx:
            profile = some_profile(tx, self.access, actor, new.profile)
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
            if new.cluster is not None:
                node = self._joining(tx, actor, new.cluster, node, profile)
            tx.clustering.nodes.add([node])
            return node, self.requests.accept(tx, actor, Verb.NODE_CREATE, node, {})

    def update(self, actor: Actor, key: str, change: NodeChange) -> tuple[Node, Action]:
        """The node as it is before the change, and the action. Raises Invalid, Locked."""
        with self.store.write() as tx:
            node = own_node(tx, self.access, actor, f"{_RULE}update", key, hold=True)
            wanted: dict[str, object] = {
                "name": change.name,
                "role": change.role,
                "metadata": change.metadata,
                "tainted": change.tainted,
            }
            inputs = changes(tx, self.access, actor, node, change.profile, wanted)
            return node, self.requests.accept(tx, actor, Verb.NODE_UPDATE, node, inputs)

    def delete(self, actor: Actor, key: str, *, force: bool) -> Action:
        """Raises InProgress when it is in the middle of something, unless it is forced."""
        with self.store.write() as tx:
            node = own_node(tx, self.access, actor, f"{_RULE}delete", key, hold=True)
            if not force and node.status in _CHANGING:
                raise InProgress(f"The node '{key}' is in status {node.status}.")
            return self.requests.accept(tx, actor, Verb.NODE_DELETE, node, {"force": True} if force else {})

    def check(self, actor: Actor, key: str) -> Action:
        """Look whether it is as it should be. Raises Locked."""
        with self.store.write() as tx:
            node = own_node(tx, self.access, actor, f"{_RULE}action", key, hold=True)
            return self.requests.accept(tx, actor, Verb.NODE_CHECK, node, {})

    def recover(self, actor: Actor, key: str, given: Document) -> Action:
        """Bring it back if it is not as it should be. Raises Invalid, Locked."""
        with self.store.write() as tx:
            node = own_node(tx, self.access, actor, f"{_RULE}action", key, hold=True)
            return self.requests.accept(tx, actor, Verb.NODE_RECOVER, node, recovery(given, FOR_NODES))

    def operate(self, actor: Actor, key: str, operation: str, params: Document) -> Action:
        """Do something to it that its profile's type knows. Raises Invalid."""
        with self.store.write() as tx:
            node = own_node(tx, self.access, actor, f"{_RULE}operation", key, hold=True)
            PROFILE_TYPES.named(type_of(tx, node.profile_id)).check_operation(operation, params)
            inputs = {"operation": operation, "params": params}
            return self.requests.accept(tx, actor, Verb.NODE_OPERATION, node, inputs)

    def _joining(self, tx: Transaction, actor: Actor, key: str, node: Node, profile: Profile) -> Node:
        """The node as a member of a cluster, under the next index and the name that goes with it."""
        found = tx.clustering.clusters.one(key, project_seen(self.access, actor))
        cluster = specified("cluster", key, None if found is None else tx.clustering.clusters.lock(found.id))
        if profile.type != type_of(tx, cluster.profile_id):
            raise Invalid("Node and cluster have different profile type, operation aborted.")
        check_scaling(Verb.CLUSTER_SCALE_OUT, 1, len(cluster.nodes), self.limits.nodes)
        index = cluster.next_index
        tx.clustering.clusters.update(replace(cluster, next_index=index + 1))
        name = node_name(cluster.config, index, node.id)
        owner = replace(node.owner, project_id=cluster.owner.project_id)
        return replace(node, cluster_id=cluster.id, index=index, name=name, owner=owner)
