"""Which policies a cluster heeds."""

from collections.abc import Mapping
from dataclasses import dataclass

from covey.model.access import Actor
from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.errors import BindingNotFound, missing
from covey.model.clustering.specs import Binding
from covey.model.errors import Invalid
from covey.ports import Access
from covey.services.clustering.finding import own_cluster, some_policy
from covey.services.clustering.requests import Requests
from covey.services.clustering.visibility import project_seen
from covey.storage.store import Store


@dataclass(frozen=True, slots=True)
class BindingFilter:
    """Which of them are wanted; None means no matter."""

    enabled: bool | None = None
    names: frozenset[str] | None = None
    types: frozenset[str] | None = None

    def lets_through(self, binding: Binding) -> bool:
        """Whether it is wanted."""
        return (
            self.enabled in {None, binding.enabled}
            and (self.names is None or binding.policy.name in self.names)
            and (self.types is None or binding.policy.type in self.types)
        )


@dataclass(frozen=True, slots=True)
class Bindings:
    """What can be done with the policies of a cluster."""

    store: Store
    access: Access
    requests: Requests

    def find(self, actor: Actor, key: str, wanted: BindingFilter) -> list[Binding]:
        """Those of a cluster that are wanted, in the order in which they are asked. Raises NotFound."""
        with self.store.read() as tx:
            cluster = own_cluster(tx, self.access, actor, "cluster_policies:index", key)
            return [binding for binding in tx.clustering.bindings.of(cluster.id) if wanted.lets_through(binding)]

    def get(self, actor: Actor, key: str, policy_key: str) -> Binding:
        """Raises NotFound for a cluster or a policy, BindingNotFound for a policy that it does not heed."""
        with self.store.read() as tx:
            cluster = own_cluster(tx, self.access, actor, "cluster_policies:get", key)
            policy = tx.clustering.policies.one(policy_key, project_seen(self.access, actor))
            if policy is None:
                raise missing("policy", policy_key)
            for binding in tx.clustering.bindings.of(cluster.id):
                if binding.policy.id == policy.id:
                    return binding
        raise BindingNotFound(f"The policy '{policy_key}' is not found attached to the specified cluster '{key}'.")

    def attach(self, actor: Actor, key: str, policy_key: str, *, enabled: bool) -> Action:
        """Have a cluster heed a policy. Raises Invalid, Locked."""
        with self.store.write() as tx:
            cluster = own_cluster(tx, self.access, actor, "clusters:action", key, hold=True)
            policy = some_policy(tx, self.access, actor, policy_key)
            inputs = {"policy_id": policy.id, "enabled": enabled}
            return self.requests.accept(tx, actor, Verb.CLUSTER_ATTACH_POLICY, cluster, inputs)

    def detach(self, actor: Actor, key: str, policy_key: str) -> Action:
        """Have it heed the policy no longer. Raises Invalid, Locked."""
        return self._change(actor, key, policy_key, Verb.CLUSTER_DETACH_POLICY, {})

    def update(self, actor: Actor, key: str, policy_key: str, *, enabled: bool | None) -> Action:
        """Have it heed the policy again, or not for now. Raises Invalid, Locked."""
        change = {} if enabled is None else {"enabled": enabled}
        return self._change(actor, key, policy_key, Verb.CLUSTER_UPDATE_POLICY, change)

    def _change(self, actor: Actor, key: str, policy_key: str, verb: Verb, change: Mapping[str, object]) -> Action:
        with self.store.write() as tx:
            cluster = own_cluster(tx, self.access, actor, "clusters:action", key, hold=True)
            policy = some_policy(tx, self.access, actor, policy_key)
            if all(binding.policy.id != policy.id for binding in tx.clustering.bindings.of(cluster.id)):
                raise Invalid(f"The policy '{policy_key}' is not attached to the specified cluster '{key}'.")
            return self.requests.accept(tx, actor, verb, cluster, {"policy_id": policy.id, **change})
