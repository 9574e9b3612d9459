"""Looking after a cluster: checking and recovering its nodes, and operating on them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from covey.model.access import Actor
from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.clusters import Node
from covey.model.clustering.errors import missing
from covey.model.clustering.profile_types import PROFILE_TYPES
from covey.model.clustering.recovery import FOR_CLUSTERS, recovery
from covey.model.clustering.specs import Document
from covey.model.errors import Invalid
from covey.ports import Access
from covey.services.clustering.finding import own_cluster, some_profile, type_of
from covey.services.clustering.requests import Requests
from covey.storage.store import Store

_ACTION = "clusters:action"


@dataclass(frozen=True, slots=True)
class Operation:
    """Something to be done to nodes of a cluster: those that have one of the values in each field."""

    name: str
    params: Document
    filters: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HealthActions:
    """What can be done for a cluster."""

    store: Store
    access: Access
    requests: Requests

    def check(self, actor: Actor, key: str, given: Document) -> Action:
        """Look whether its nodes are as they should be. Raises Locked."""
        with self.store.write() as tx:
            cluster = own_cluster(tx, self.access, actor, _ACTION, key, hold=True)
            return self.requests.accept(tx, actor, Verb.CLUSTER_CHECK, cluster, given)

    def recover(self, actor: Actor, key: str, given: Document) -> Action:
        """Bring nodes back that are not as they should be. Raises Invalid, Locked."""
        with self.store.write() as tx:
            cluster = own_cluster(tx, self.access, actor, _ACTION, key, hold=True)
            return self.requests.accept(tx, actor, Verb.CLUSTER_RECOVER, cluster, recovery(given, FOR_CLUSTERS))

    def operate(self, actor: Actor, key: str, wanted: Operation) -> Action:
        """Do something to its nodes, or some of them. Raises Invalid."""
        with self.store.write() as tx:
            cluster = own_cluster(tx, self.access, actor, "clusters:operation", key, hold=True)
            PROFILE_TYPES.named(type_of(tx, cluster.profile_id)).check_operation(wanted.name, wanted.params)
            filters = dict(wanted.filters)
            if "profile_id" in filters:
                named = [some_profile(tx, self.access, actor, profile) for profile in filters["profile_id"]]
                filters["profile_id"] = [profile.id for profile in named]
            nodes = [node.id for node in tx.clustering.nodes.of(cluster.id) if _matches(node, filters)]
            if not nodes:
                raise Invalid(f"The cluster '{key}' has no nodes{' that match the filters' if filters else ''}.")
            inputs = {"operation": wanted.name, "params": wanted.params, "nodes": nodes}
            return self.requests.accept(tx, actor, Verb.CLUSTER_OPERATION, cluster, inputs)

    def complete_lifecycle(self, actor: Actor, key: str, token: str) -> Action:
        """The action of a cluster that a token names: nothing here waits for one. Raises NotFound."""
        with self.store.read() as tx:
            cluster = own_cluster(tx, self.access, actor, _ACTION, key)
            action = tx.clustering.actions.one(token, cluster.owner.project_id)
            if action is None or action.cluster_id != cluster.id:
                raise missing("action", token)
            return action


def _matches(node: Node, filters: Mapping[str, Sequence[str]]) -> bool:
    return all(getattr(node, field) in values for field, values in filters.items())
