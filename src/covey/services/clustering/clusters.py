"""Clusters: list, show, create, update, delete."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from covey.model.access import Actor, Target
from covey.model.clustering import node_names
from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.clusters import NO_MAXIMUM, Cluster, ClusterStatus, Node
from covey.model.clustering.errors import InProgress, NotSupported
from covey.model.clustering.owners import owner_of
from covey.model.clustering.paging import PageQuery
from covey.model.clustering.sizes import Limits, check_new_cluster
from covey.model.clustering.specs import Document
from covey.model.errors import Invalid
from covey.model.servers import Server
from covey.ports import Access, Clock, NewUuid
from covey.services.clustering.dispatcher import Dispatcher
from covey.services.clustering.lookup import (
    changed_fields,
    find_cluster,
    reject_over_quota,
    specified_profile,
    visible_page,
)
from covey.storage.store import Store

_RULE = "clusters:"
_IN_PROGRESS = frozenset(
    {ClusterStatus.CREATING, ClusterStatus.UPDATING, ClusterStatus.DELETING, ClusterStatus.RECOVERING}
)


@dataclass(frozen=True, slots=True)
class NewCluster:
    """A request for a cluster; None takes the default."""

    name: str
    profile: str
    desired_capacity: int | None = None
    min_size: int | None = None
    max_size: int | None = None
    timeout: int | None = None
    metadata: Document = field(default_factory=dict)
    config: Document = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """The fields to update; None keeps the current value."""

    name: str | None = None
    profile: str | None = None
    metadata: Document | None = None
    timeout: int | None = None
    config: Document | None = None
    profile_only: bool = False  # existing nodes keep their profile


@dataclass(frozen=True, slots=True)
class Clusters:
    """Requests about clusters as a whole."""

    store: Store
    access: Access
    clock: Clock
    new_uuid: NewUuid
    dispatcher: Dispatcher
    limits: Limits

    def page(self, actor: Actor, query: PageQuery) -> list[Cluster]:
        """Return a page of those that the actor may see. Raises Forbidden."""
        self.access.require(actor, f"{_RULE}index", Target(project_id=actor.project_id))
        with self.store.read() as tx:
            return tx.clustering.clusters.page(visible_page(self.access, actor, query))

    def get(self, actor: Actor, key: str) -> Cluster:
        """Raises NotFound, Ambiguous, Forbidden."""
        with self.store.read() as tx:
            return find_cluster(tx, self.access, actor, f"{_RULE}get", key)

    def members(self, actor: Actor, key: str) -> tuple[Sequence[Node], Sequence[Server]]:
        """Return a cluster's nodes and their servers."""
        with self.store.read() as tx:
            cluster = find_cluster(tx, self.access, actor, f"{_RULE}collect", key)
            nodes = tx.clustering.nodes.of(cluster.id)
            return nodes, tx.servers.by_ids([node.server_id for node in nodes if node.server_id is not None])

    def create(self, actor: Actor, new: NewCluster) -> tuple[Cluster, Action]:
        """Return the cluster without nodes, and the action that creates them. Raises Invalid, OverQuota."""
        self.access.require(actor, f"{_RULE}create", Target(project_id=actor.project_id))
        _reject_config(new.config)
        min_size, max_size = new.min_size or 0, NO_MAXIMUM if new.max_size is None else new.max_size
        desired = min_size if new.desired_capacity is None else new.desired_capacity
        with self.store.write() as tx:
            profile = specified_profile(tx, self.access, actor, new.profile)
            check_new_cluster(desired, min_size, max_size, self.limits.max_nodes_per_cluster)
            reject_over_quota(tx, actor, tx.clustering.clusters.count, "clusters", self.limits.max_clusters_per_project)
            cluster = Cluster(
                id=self.new_uuid(),
                name=new.name,
                profile_id=profile.id,
                owner=owner_of(actor),
                init_at=self.clock(),
                min_size=min_size,
                max_size=max_size,
                desired_capacity=desired,
                timeout=self.limits.action_timeout_s if new.timeout is None else new.timeout,
                metadata=new.metadata,
                config=new.config,
                profile_name=profile.name,
            )
            tx.clustering.clusters.add(cluster)
            return cluster, self.dispatcher.start_action(tx, actor, Verb.CLUSTER_CREATE, cluster, {})

    def update(self, actor: Actor, key: str, change: ClusterChange) -> tuple[Cluster, Action]:
        """Return the cluster before the change, and the action. Raises Invalid, NotSupported, Locked."""
        _reject_config(change.config or {})
        with self.store.write() as tx:
            cluster = find_cluster(tx, self.access, actor, f"{_RULE}update", key, lock=True)
            if cluster.status is ClusterStatus.ERROR:
                raise NotSupported(f"The cluster '{key}' is in status {cluster.status}: updating it is not supported.")
            fields: dict[str, tuple[object, object]] = {
                "name": (cluster.name, change.name),
                "metadata": (cluster.metadata, change.metadata),
                "timeout": (cluster.timeout, change.timeout),
                "config": (cluster.config, change.config),
            }
            inputs = changed_fields(tx, self.access, actor, cluster, change.profile, fields)
            if change.profile_only and "profile_id" in inputs:
                inputs["profile_only"] = True
            return cluster, self.dispatcher.start_action(tx, actor, Verb.CLUSTER_UPDATE, cluster, inputs)

    def delete(self, actor: Actor, key: str, *, force: bool) -> Action:
        """Raises InProgress while an action changes the cluster, unless `force` is set."""
        with self.store.write() as tx:
            cluster = find_cluster(tx, self.access, actor, f"{_RULE}delete", key, lock=True)
            if not force and cluster.status in _IN_PROGRESS:
                raise InProgress(f"The cluster '{key}' is in status {cluster.status}.")
            return self.dispatcher.start_action(tx, actor, Verb.CLUSTER_DELETE, cluster, {"force": force})


def _reject_config(config: Document) -> None:
    """Raises Invalid for a node name format that is not valid."""
    text = config.get(node_names.FORMAT_KEY)
    if text is not None and not node_names.is_valid_format(text):
        raise Invalid(
            f"The value for {node_names.FORMAT_KEY} must be letters, digits, '.', '_', '~', '-', and $nR, $nr or $nI "
            f"with a number n below 100, for names of 255 characters or less: '{str(text)[:255]}'."
        )
