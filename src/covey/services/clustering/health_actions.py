"""Health of a cluster: check, recover, and operations on its nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from covey.model.access import Actor
from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.clusters import Node
from covey.model.clustering.errors import not_found
from covey.model.clustering.health import CLUSTER_RECOVERY_PARAMS, parse_recovery
from covey.model.clustering.profile_types import PROFILE_TYPES
from covey.model.clustering.specs import Document
from covey.model.errors import Invalid
from covey.ports import Access
from covey.services.clustering.dispatcher import Dispatcher
from covey.services.clustering.lookup import find_cluster, profile_type, specified_profile
from covey.storage.store import Store

_ACTION = "clusters:action"


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation on the nodes of a cluster that pass all filters."""

    name: str
    params: Document
    filters: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HealthActions:
    """Requests that check, recover or operate on a cluster."""

    store: Store
    access: Access
    dispatcher: Dispatcher

    def check(self, actor: Actor, key: str, given: Document) -> Action:
        """Check the health of all nodes. Raises Locked."""
        with self.store.write() as tx:
            cluster = find_cluster(tx, self.access, actor, _ACTION, key, lock=True)
            return self.dispatcher.start_action(tx, actor, Verb.CLUSTER_CHECK, cluster, given)

    def recover(self, actor: Actor, key: str, given: Document) -> Action:
        """Recover the nodes that are not ACTIVE. Raises Invalid, Locked."""
        with self.store.write() as tx:
            cluster = find_cluster(tx, self.access, actor, _ACTION, key, lock=True)
            return self.dispatcher.start_action(
                tx, actor, Verb.CLUSTER_RECOVER, cluster, parse_recovery(given, CLUSTER_RECOVERY_PARAMS)
            )

    def operate(self, actor: Actor, key: str, operation: Operation) -> Action:
        """Perform an operation on the nodes that pass its filters. Raises Invalid."""
        with self.store.write() as tx:
            cluster = find_cluster(tx, self.access, actor, "clusters:operation", key, lock=True)
            PROFILE_TYPES.named(profile_type(tx, cluster.profile_id)).check_operation(operation.name, operation.params)
            filters = dict(operation.filters)
            if "profile_id" in filters:
                profiles = [specified_profile(tx, self.access, actor, key) for key in filters["profile_id"]]
                filters["profile_id"] = [profile.id for profile in profiles]
            nodes = [node.id for node in tx.clustering.nodes.of(cluster.id) if _matches(node, filters)]
            if not nodes:
                raise Invalid(f"The cluster '{key}' has no nodes{' that match the filters' if filters else ''}.")
            inputs = {"operation": operation.name, "params": operation.params, "nodes": nodes}
            return self.dispatcher.start_action(tx, actor, Verb.CLUSTER_OPERATION, cluster, inputs)

    def complete_lifecycle(self, actor: Actor, key: str, token: str) -> Action:
        """Return the action that a token names; no action waits for a lifecycle completion. Raises NotFound."""
        with self.store.read() as tx:
            cluster = find_cluster(tx, self.access, actor, _ACTION, key)
            action = tx.clustering.actions.one(token, cluster.owner.project_id)
            if action is None or action.cluster_id != cluster.id:
                raise not_found("action", token)
            return action


def _matches(node: Node, filters: Mapping[str, Sequence[str]]) -> bool:
    fields = {"name": node.name, "profile_id": node.profile_id, "status": node.status, "role": node.role}
    return all(fields[name] in values for name, values in filters.items())
