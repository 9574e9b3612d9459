"""Clusters: asking for them, looking at them, changing and deleting them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from covey.model.access import Actor, Target
from covey.model.clustering import names
from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.clusters import NO_MAXIMUM, Cluster, ClusterStatus, Node
from covey.model.clustering.errors import InProgress, NotSupported
from covey.model.clustering.limits import Limits
from covey.model.clustering.listing import Listing
from covey.model.clustering.owners import owner_of
from covey.model.clustering.sizes import check_new
from covey.model.clustering.specs import Document
from covey.model.errors import Invalid, OverQuota
from covey.model.servers import Server
from covey.ports import Access, Clock, NewUuid
from covey.services.clustering.changes import changes
from covey.services.clustering.finding import own_cluster, some_profile
from covey.services.clustering.requests import Requests
from covey.services.clustering.visibility import listing_seen
from covey.storage.store import Store, Transaction

_RULE = "clusters:"
_CHANGING = frozenset(
    {ClusterStatus.CREATING, ClusterStatus.UPDATING, ClusterStatus.DELETING, ClusterStatus.RECOVERING}
)


@dataclass(frozen=True, slots=True)
class NewCluster:
    """A cluster as a tenant asks for it; None where it leaves the choice to us."""

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
    """What a tenant wants to be otherwise; None leaves it."""

    name: str | None = None
    profile: str | None = None
    metadata: Document | None = None
    timeout: int | None = None
    config: Document | None = None
    profile_only: bool = False  # leave the nodes that there are as they are


@dataclass(frozen=True, slots=True)
class Clusters:
    """What can be done with clusters, as a whole."""

    store: Store
    access: Access
    clock: Clock
    new_uuid: NewUuid
    requests: Requests
    limits: Limits

    def page(self, actor: Actor, wanted: Listing) -> list[Cluster]:
        """Some of those that the actor may see. Raises Forbidden."""
        self.access.require(actor, f"{_RULE}index", Target(project_id=actor.project_id))
        with self.store.read() as tx:
            return tx.clustering.clusters.page(listing_seen(self.access, actor, wanted))

    def get(self, actor: Actor, key: str) -> Cluster:
        """Raises NotFound, Ambiguous."""
        with self.store.read() as tx:
            return own_cluster(tx, self.access, actor, f"{_RULE}get", key)

    def members(self, actor: Actor, key: str) -> tuple[Sequence[Node], Sequence[Server]]:
        """A cluster's nodes, and the servers that they are."""
        with self.store.read() as tx:
            cluster = own_cluster(tx, self.access, actor, f"{_RULE}collect", key)
            nodes = tx.clustering.nodes.of(cluster.id)
            return nodes, tx.servers.by_ids([node.server_id for node in nodes if node.server_id is not None])

    def create(self, actor: Actor, new: NewCluster) -> tuple[Cluster, Action]:
        """The cluster without its nodes, and the action that will make them. Raises Invalid, OverQuota."""
        self.access.require(actor, f"{_RULE}create", Target(project_id=actor.project_id))
        _refuse_config(new.config)
        least, most = new.min_size or 0, NO_MAXIMUM if new.max_size is None else new.max_size
        desired = least if new.desired_capacity is None else new.desired_capacity
        with self.store.write() as tx:
            profile = some_profile(tx, self.access, actor, new.profile)
            check_new(desired, least, most, self.limits.nodes)
            self._refuse_over_quota(tx, actor)
            cluster = Cluster(
                id=self.new_uuid(),
                name=new.name,
                profile_id=profile.id,
                owner=owner_of(actor),
                init_at=self.clock(),
                min_size=least,
                max_size=most,
                desired_capacity=desired,
                timeout=self.limits.timeout_s if new.timeout is None else new.timeout,
                metadata=new.metadata,
                config=new.config,
                profile_name=profile.name,
            )
            tx.clustering.clusters.add(cluster)
            return cluster, self.requests.accept(tx, actor, Verb.CLUSTER_CREATE, cluster, {})

    def update(self, actor: Actor, key: str, change: ClusterChange) -> tuple[Cluster, Action]:
        """The cluster as it is before the change, and the action. Raises Invalid, NotSupported, Locked."""
        _refuse_config(change.config or {})
        with self.store.write() as tx:
            cluster = own_cluster(tx, self.access, actor, f"{_RULE}update", key, hold=True)
            if cluster.status is ClusterStatus.ERROR:
                raise NotSupported(f"The cluster '{key}' is in status {cluster.status}: updating it is not supported.")
            wanted: dict[str, object] = {
                "name": change.name,
                "metadata": change.metadata,
                "timeout": change.timeout,
                "config": change.config,
            }
            inputs = changes(tx, self.access, actor, cluster, change.profile, wanted)
            if change.profile_only and "profile_id" in inputs:
                inputs["profile_only"] = True
            return cluster, self.requests.accept(tx, actor, Verb.CLUSTER_UPDATE, cluster, inputs)

    def delete(self, actor: Actor, key: str, *, force: bool) -> Action:
        """Raises InProgress when it is in the middle of something, unless it is forced."""
        with self.store.write() as tx:
            cluster = own_cluster(tx, self.access, actor, f"{_RULE}delete", key, hold=True)
            if not force and cluster.status in _CHANGING:
                raise InProgress(f"The cluster '{key}' is in status {cluster.status}.")
            return self.requests.accept(tx, actor, Verb.CLUSTER_DELETE, cluster, {"force": force})

    def _refuse_over_quota(self, tx: Transaction, actor: Actor) -> None:
        tx.claims.usage(actor.project_id, lock=True)  # one at a time
        if tx.clustering.clusters.count(actor.project_id) >= self.limits.clusters:
            raise OverQuota(f"Quota exceeded, too many clusters: a project may have {self.limits.clusters}.")


def _refuse_config(config: Document) -> None:
    """Raises Invalid when nodes could not be named by it."""
    text = config.get(names.FORMAT)
    if text is not None and not names.is_format(text):
        raise Invalid(
            f"The value for {names.FORMAT} must be letters, digits, '.', '_', '~', '-', and $nR, $nr or $nI with a "
            f"number n below 100, for names of 255 characters at the most: '{str(text)[:255]}'."
        )
