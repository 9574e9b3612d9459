"""Finding what a request names: by id, name or the beginning of an id, and only what its actor may know of."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from covey.model.access import Actor
from covey.model.clustering.clusters import Cluster, Node
from covey.model.clustering.errors import missing
from covey.model.clustering.owners import Owner
from covey.model.clustering.specs import Policy, Profile
from covey.model.errors import Invalid
from covey.ports import Access
from covey.services.clustering.visibility import project_seen
from covey.storage.store import Transaction


class Owned(Protocol):
    """Something that belongs to a project."""

    @property
    def owner(self) -> Owner: ...


Thing = TypeVar("Thing", bound=Owned)


def allowed(access: Access, actor: Actor, rule: str, kind: str, key: str, thing: Thing | None) -> Thing:
    """What was found, for an actor whom the rule lets have it. Raises NotFound, Forbidden."""
    if thing is None:
        raise missing(kind, key)
    access.require(actor, rule, thing.owner.target)
    return thing


def specified(kind: str, key: str, thing: Thing | None) -> Thing:
    """Something that a request mentions besides what it is about. Raises Invalid."""
    if thing is None:
        raise Invalid(f"The specified {kind} '{key}' could not be found.")
    return thing


def own_cluster(tx: Transaction, access: Access, actor: Actor, rule: str, key: str, *, hold: bool = False) -> Cluster:
    """A cluster that a request is about, and which nobody else changes meanwhile if it is held."""
    found = tx.clustering.clusters.one(key, project_seen(access, actor))
    if found is not None and hold:
        found = tx.clustering.clusters.lock(found.id)
    return allowed(access, actor, rule, "cluster", key, found)


def own_node(tx: Transaction, access: Access, actor: Actor, rule: str, key: str, *, hold: bool = False) -> Node:
    """A node that a request is about. Its cluster is held before it is."""
    found = tx.clustering.nodes.one(key, project_seen(access, actor))
    if found is not None and hold:
        if found.cluster_id is not None:
            tx.clustering.clusters.lock(found.cluster_id)
        found = next(iter(tx.clustering.nodes.by_ids([found.id], lock=True)), None)
    return allowed(access, actor, rule, "node", key, found)


def some_profile(tx: Transaction, access: Access, actor: Actor, key: str) -> Profile:
    """A profile that a request mentions. Raises Invalid."""
    return specified("profile", key, tx.clustering.profiles.one(key, project_seen(access, actor)))


def some_policy(tx: Transaction, access: Access, actor: Actor, key: str) -> Policy:
    """A policy that a request mentions. Raises Invalid."""
    return specified("policy", key, tx.clustering.policies.one(key, project_seen(access, actor)))


def some_nodes(
    tx: Transaction, access: Access, actor: Actor, keys: Sequence[str], missing: str = "Nodes not found"
) -> list[Node]:
    """Nodes that a request mentions, one for each key. Raises Invalid, with all that are missing."""
    project = project_seen(access, actor)
    by_id = {node.id: node for node in tx.clustering.nodes.by_ids(keys) if project in {None, node.owner.project_id}}
    found = [by_id.get(key) or tx.clustering.nodes.one(key, project) for key in keys]
    lost = [key for key, node in zip(keys, found, strict=True) if node is None]
    if lost:
        raise Invalid(f"{missing}: {lost}.")
    return [node for node in found if node is not None]


def type_of(tx: Transaction, profile: str) -> str:
    """The type of a profile that something is made from."""
    found = tx.clustering.profiles.one(profile, None)
    assert found is not None  # who is made from it keeps it
    return found.type
