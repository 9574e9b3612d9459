"""Scaling: change the number of a cluster's nodes."""

from dataclasses import dataclass

from covey.model.access import Actor
from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.clusters import Cluster
from covey.model.clustering.errors import Cooldown
from covey.model.clustering.policies.scaling import is_cooling_down
from covey.model.clustering.policy_types import SCALING
from covey.model.clustering.sizes import Limits, check_scale_count, check_size_params, parse_resize
from covey.model.clustering.specs import Document
from covey.ports import Access, Clock
from covey.services.clustering.dispatcher import Dispatcher
from covey.services.clustering.lookup import find_cluster
from covey.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class Scaling:
    """Scaling requests. The action checks the cluster's bounds; this service rejects what no cluster allows."""

    store: Store
    access: Access
    clock: Clock
    dispatcher: Dispatcher
    limits: Limits

    def scale(self, actor: Actor, key: str, verb: Verb, count: int | None) -> Action:
        """Add or remove nodes; without a count, policies decide the number. Raises Invalid, Locked, Cooldown."""
        with self.store.write() as tx:
            cluster = find_cluster(tx, self.access, actor, "clusters:action", key, lock=True)
            check_scale_count(verb, count, len(cluster.nodes), self.limits.max_nodes_per_cluster)
            action = self.dispatcher.start_action(tx, actor, verb, cluster, {} if count is None else {"count": count})
            self.reject_cooldown(tx, cluster, verb)
            return action

    def resize(self, actor: Actor, key: str, given: Document) -> Action:
        """Change the size or the bounds. Raises Invalid, Locked."""
        request = parse_resize(given, self.limits.max_nodes_per_cluster)
        with self.store.write() as tx:
            cluster = find_cluster(tx, self.access, actor, "clusters:action", key, lock=True)
            check_size_params(request, cluster, len(cluster.nodes), self.limits.max_nodes_per_cluster)
            return self.dispatcher.start_action(tx, actor, Verb.CLUSTER_RESIZE, cluster, request.inputs)

    def reject_cooldown(self, tx: Transaction, cluster: Cluster, verb: Verb) -> None:
        """Raises Cooldown while the cooldown of a scaling policy for the verb is in progress."""
        now = self.clock()
        for binding in tx.clustering.bindings.of(cluster.id):
            if binding.enabled and binding.policy.type_name == SCALING and is_cooling_down(binding, verb, now):
                raise Cooldown(
                    f"The {verb} action for cluster {cluster.id} cannot be processed due to Policy "
                    f"{binding.policy.id} cooldown still in progress"
                )
