"""Look up what a request names by id, name or the beginning of an id, within what its actor may see."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from covey.model.access import Actor
from covey.model.clustering.clusters import Cluster, Node
from covey.model.clustering.errors import not_found
from covey.model.clustering.owners import Owner
from covey.model.clustering.paging import PageQuery
from covey.model.clustering.specs import Policy, Profile
from covey.model.errors import Forbidden, Invalid, OverQuota
from covey.model.ids import ProjectId
from covey.ports import Access
from covey.storage.store import Transaction


class Owned(Protocol):
    """A resource that belongs to a project."""

    @property
    def owner(self) -> Owner: ...


Resource = TypeVar("Resource", bound=Owned)


def reject_over_quota(tx: Transaction, actor: Actor, count: Callable[[ProjectId], int], name: str, limit: int) -> None:
    """Raise OverQuota if the actor's project can have no further one. Serializes the creations of a project."""
    tx.claims.usage(actor.own_project, lock=True)
    if count(actor.own_project) >= limit:
        raise OverQuota(f"Quota exceeded, too many {name}: the limit of a project is {limit}.")


def visible_project(access: Access, actor: Actor) -> ProjectId | None:
    """Return the project whose resources an actor sees; None is all projects. Raises Forbidden without a project."""
    return None if access.allows(actor, "context_is_admin") else actor.own_project


def visible_page(access: Access, actor: Actor, query: PageQuery) -> PageQuery:
    """Return the query within the visible project. Raises Forbidden for a tenant's query of all projects."""
    project = visible_project(access, actor)
    if project is not None and query.project_id is None:
        raise Forbidden("You are not authorized to complete this operation.")
    return replace(query, project_id=project)


def require_access(access: Access, actor: Actor, rule: str, kind: str, key: str, resource: Resource | None) -> Resource:
    """Return the resource. Raises NotFound when it is None, Forbidden when the rule denies it to the actor."""
    if resource is None:
        raise not_found(kind, key)
    access.require(actor, rule, resource.owner.target)
    return resource


def require_specified(kind: str, key: str, resource: Resource | None) -> Resource:
    """Return a resource that a request's body names. Raises Invalid when it is None."""
    if resource is None:
        raise Invalid(f"The specified {kind} '{key}' could not be found.")
    return resource


def find_cluster(tx: Transaction, access: Access, actor: Actor, rule: str, key: str, *, lock: bool = False) -> Cluster:
    """Return the cluster of a request. Raises NotFound, Ambiguous, Forbidden."""
    cluster = tx.clustering.clusters.one(key, visible_project(access, actor))
    if cluster is not None and lock:
        cluster = tx.clustering.clusters.lock(cluster.id)
    return require_access(access, actor, rule, "cluster", key, cluster)


def find_node(tx: Transaction, access: Access, actor: Actor, rule: str, key: str, *, lock: bool = False) -> Node:
    """Return the node of a request; its cluster is locked before the node. Raises NotFound, Ambiguous, Forbidden."""
    node = tx.clustering.nodes.one(key, visible_project(access, actor))
    if node is not None and lock:
        if node.cluster_id is not None:
            tx.clustering.clusters.lock(node.cluster_id)
        node = next(iter(tx.clustering.nodes.by_ids([node.id], lock=True)), None)
    return require_access(access, actor, rule, "node", key, node)


def specified_cluster(tx: Transaction, access: Access, actor: Actor, key: str) -> Cluster:
    """Return a cluster that a request's body names, locked. Raises Invalid."""
    cluster = tx.clustering.clusters.one(key, visible_project(access, actor))
    return require_specified("cluster", key, None if cluster is None else tx.clustering.clusters.lock(cluster.id))


def specified_profile(tx: Transaction, access: Access, actor: Actor, key: str) -> Profile:
    """Return a profile that a request's body names. Raises Invalid."""
    return require_specified("profile", key, tx.clustering.profiles.one(key, visible_project(access, actor)))


def specified_policy(tx: Transaction, access: Access, actor: Actor, key: str) -> Policy:
    """Return a policy that a request's body names. Raises Invalid."""
    return require_specified("policy", key, tx.clustering.policies.one(key, visible_project(access, actor)))


def specified_nodes(
    tx: Transaction, access: Access, actor: Actor, keys: Sequence[str], problem: str = "Nodes not found"
) -> list[Node]:
    """Return the nodes that a request's body names, one for each key. Raises Invalid with all missing keys."""
    project = visible_project(access, actor)
    by_id = {node.id: node for node in tx.clustering.nodes.by_ids(keys) if project in {None, node.owner.project_id}}
    nodes = [by_id.get(key) or tx.clustering.nodes.one(key, project) for key in keys]
    missing = [key for key, node in zip(keys, nodes, strict=True) if node is None]
    if missing:
        raise Invalid(f"{problem}: {missing}.")
    return [node for node in nodes if node is not None]


def profile_type(tx: Transaction, profile_id: str) -> str:
    """Return the type of a profile in use."""
    profile = tx.clustering.profiles.one(profile_id, None)
    assert profile is not None  # a profile in use cannot be deleted
    return profile.type


def changed_fields(
    tx: Transaction,
    access: Access,
    actor: Actor,
    resource: Cluster | Node,
    profile: str | None,
    fields: Mapping[str, tuple[object, object]],
) -> dict[str, object]:
    """Return the inputs of an update: each field's new value, where it is neither None nor the current one.

    `fields` maps a name to the current and the new value. Raises Invalid for a profile of another type, and when
    nothing changes.
    """
    changed = {name: new for name, (current, new) in fields.items() if new not in (None, current)}
    if profile is not None:
        new_profile = specified_profile(tx, access, actor, profile)
        if new_profile.type != profile_type(tx, resource.profile_id):
            kind = "cluster" if isinstance(resource, Cluster) else "node"
            raise Invalid(f"Cannot update a {kind} to a different profile type, operation aborted.")
        if new_profile.id != resource.profile_id:
            changed["profile_id"] = new_profile.id
    if not changed:
        raise Invalid("No property needs an update.")
    return changed
