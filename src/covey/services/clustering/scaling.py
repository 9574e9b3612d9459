"""Changing how many nodes a cluster has."""

from dataclasses import dataclass

from covey.model.access import Actor
from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.checks.scaling import is_cooling
from covey.model.clustering.clusters import Cluster
from covey.model.clustering.errors import Cooldown
from covey.model.clustering.limits import Limits
from covey.model.clustering.policy_types import SCALING
from covey.model.clustering.sizes import check_resize, check_scaling, read_resize
from covey.model.clustering.specs import Document
from covey.ports import Access, Clock
from covey.services.clustering.finding import own_cluster
from covey.services.clustering.requests import Requests
from covey.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class Scaling:
    """What a cluster's own bounds do not allow, the action will find out; here is what can be said at once."""

    store: Store
    access: Access
    clock: Clock
    requests: Requests
    limits: Limits

    def scale(self, actor: Actor, key: str, verb: Verb, count: int | None) -> Action:
        """Some nodes more, or fewer; policies say how many when nobody else does. Raises Invalid, Locked, Cooldown."""
        with self.store.write() as tx:
            cluster = own_cluster(tx, self.access, actor, "clusters:action", key, hold=True)
            check_scaling(verb, count, len(cluster.nodes), self.limits.nodes)
            action = self.requests.accept(tx, actor, verb, cluster, {} if count is None else {"count": count})
            self.refuse_haste(tx, cluster, verb)
            return action

    def resize(self, actor: Actor, key: str, given: Document) -> Action:
        """Another size, or other bounds. Raises Invalid, Locked."""
        wanted = read_resize(given, self.limits.nodes)
        with self.store.write() as tx:
            cluster = own_cluster(tx, self.access, actor, "clusters:action", key, hold=True)
            check_resize(wanted, cluster, len(cluster.nodes), self.limits.nodes)
            return self.requests.accept(tx, actor, Verb.CLUSTER_RESIZE, cluster, wanted.inputs)

    def refuse_haste(self, tx: Transaction, cluster: Cluster, verb: Verb) -> None:
        """Raises Cooldown while a policy for such a scaling wants some time to pass after the last one."""
        now = self.clock()
        for binding in tx.clustering.bindings.of(cluster.id):
            if binding.enabled and binding.policy.kind == SCALING and is_cooling(binding, verb, now):
                raise Cooldown(
                    f"The {verb} action for cluster {cluster.id} cannot be processed due to Policy "
                    f"{binding.policy.id} cooldown still in progress"
                )
