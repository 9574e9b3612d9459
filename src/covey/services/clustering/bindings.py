"""Bindings: the policies that are attached to a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass

from covey.model.access import Actor
from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.errors import BindingNotFound, not_found
from covey.model.clustering.specs import Binding
from covey.model.errors import Invalid
from covey.ports import Access
from covey.services.clustering.dispatcher import Dispatcher
from covey.services.clustering.lookup import find_cluster, specified_policy, visible_project
from covey.storage.store import Store


@dataclass(frozen=True, slots=True)
class BindingFilter:
    """Filters of a list of bindings; None accepts every value."""

    enabled: bool | None = None
    names: frozenset[str] | None = None
    types: frozenset[str] | None = None

    def matches(self, binding: Binding) -> bool:
        """Return whether the binding passes the filters."""
        return (
            self.enabled in {None, binding.enabled}
            and (self.names is None or binding.policy.name in self.names)
            and (self.types is None or binding.policy.type in self.types)
        )


@dataclass(frozen=True, slots=True)
class Bindings:
    """Requests about the policies of a cluster."""

    store: Store
    access: Access
    dispatcher: Dispatcher

    def find(self, actor: Actor, key: str, query: BindingFilter) -> list[Binding]:
        """Return a cluster's bindings in the order of their checks. Raises NotFound."""
        with self.store.read() as tx:
            cluster = find_cluster(tx, self.access, actor, "cluster_policies:index", key)
            return [binding for binding in tx.clustering.bindings.of(cluster.id) if query.matches(binding)]

    def get(self, actor: Actor, key: str, policy_key: str) -> Binding:
        """Raises NotFound for a cluster or policy, BindingNotFound for a policy that is not attached."""
        with self.store.read() as tx:
            cluster = find_cluster(tx, self.access, actor, "cluster_policies:get", key)
            policy = tx.clustering.policies.one(policy_key, visible_project(self.access, actor))
            if policy is None:
                raise not_found("policy", policy_key)
            for binding in tx.clustering.bindings.of(cluster.id):
                if binding.policy.id == policy.id:
                    return binding
        raise BindingNotFound(f"The policy '{policy_key}' is not found attached to the specified cluster '{key}'.")

    def attach(self, actor: Actor, key: str, policy_key: str, *, enabled: bool) -> Action:
        """Attach a policy to a cluster. Raises Invalid, Locked."""
        with self.store.write() as tx:
            cluster = find_cluster(tx, self.access, actor, "clusters:action", key, lock=True)
            policy = specified_policy(tx, self.access, actor, policy_key)
            inputs = {"policy_id": policy.id, "enabled": enabled}
            return self.dispatcher.start_action(tx, actor, Verb.CLUSTER_ATTACH_POLICY, cluster, inputs)

    def detach(self, actor: Actor, key: str, policy_key: str) -> Action:
        """Detach a policy. Raises Invalid, Locked."""
        return self._change(actor, key, policy_key, Verb.CLUSTER_DETACH_POLICY, {})

    def update(self, actor: Actor, key: str, policy_key: str, *, enabled: bool | None) -> Action:
        """Enable or disable an attached policy. Raises Invalid, Locked."""
        change = {} if enabled is None else {"enabled": enabled}
        return self._change(actor, key, policy_key, Verb.CLUSTER_UPDATE_POLICY, change)

    def _change(self, actor: Actor, key: str, policy_key: str, verb: Verb, change: Mapping[str, object]) -> Action:
        with self.store.write() as tx:
            cluster = find_cluster(tx, self.access, actor, "clusters:action", key, lock=True)
            policy = specified_policy(tx, self.access, actor, policy_key)
            if all(binding.policy.id != policy.id for binding in tx.clustering.bindings.of(cluster.id)):
                raise Invalid(f"The policy '{policy_key}' is not attached to the specified cluster '{key}'.")
            return self.dispatcher.start_action(tx, actor, verb, cluster, {"policy_id": policy.id, **change})
