"""Attaching policies to clusters, changing them there, and detaching them: each in one transaction."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from covey.model.access import Actor
from covey.model.clustering.actions import Verb
from covey.model.clustering.checks import KINDS
from covey.model.clustering.checks.affinity import binding_data
from covey.model.clustering.clusters import Cluster, Node
from covey.model.clustering.policy_types import AFFINITY
from covey.model.clustering.specs import Binding, Policy, Profile
from covey.model.errors import Conflict, NotFound
from covey.ports import NewUuid
from covey.services.clustering.engine.policy_groups import PolicyGroups
from covey.services.clustering.engine.run import Ended, Handler, Run, Step, still
from covey.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class Immediate:
    """Does an action that takes no time. What was done before the worker died is found done."""

    do: Callable[[Run], Step]

    def begin(self, run: Run) -> Step:
        return self.do(run)

    def go_on(self, run: Run) -> Step:
        return self.do(run)


@dataclass(frozen=True, slots=True)
class Attachments:
    """What policies a cluster has."""

    store: Store
    new_uuid: NewUuid
    groups: PolicyGroups

    def handlers(self) -> Mapping[Verb, Handler]:
        """Who does which action."""
        return {
            Verb.CLUSTER_ATTACH_POLICY: Immediate(self.attach),
            Verb.CLUSTER_DETACH_POLICY: Immediate(self.detach),
            Verb.CLUSTER_UPDATE_POLICY: Immediate(self.update),
        }

    def attach(self, run: Run) -> Step:
        """The policy is attached, and has its server group if it needs one. Raises CoveyError."""
        with self.store.write() as tx:
            cluster = _cluster(tx, run)
            bindings = tx.clustering.bindings.of(cluster.id)
            if _bound(bindings, run) is not None:
                return Ended(reason="Policy already attached.")
            policy = _policy(tx, run)
            profile = _profile(tx, cluster)
            _refuse_second(policy, bindings, cluster)
            _refuse_other_profiles(policy, profile)
            enabled = run.action.inputs.get("enabled", True) is True
            new = Binding(self.new_uuid(), cluster.id, policy, KINDS[policy.kind].priority, enabled, data={})
            if policy.kind == AFFINITY:
                found = self.groups.take(tx, run.actor, policy, profile)
                data = binding_data(policy, found.group, inherited=found.inherited)
                new = replace(new, data=data, group_id=found.group)
            tx.clustering.bindings.add(new)
        return Ended(reason="Policy attached.")

    def detach(self, run: Run) -> Step:
        """The policy is not attached any more, and its server group is gone if it came with it. Raises CoveyError."""
        with self.store.write() as tx:
            cluster = _cluster(tx, run)
            binding = _bound(tx.clustering.bindings.of(cluster.id), run)
            if binding is None:
                return Ended(reason="Policy not attached.")
            gone = self._detach(tx, run.actor, binding)
            if gone is not None:
                members = tx.clustering.nodes.of(cluster.id)
                tx.clustering.nodes.update([_without(node, gone) for node in members if _is_in(node, gone)])
        return Ended(reason="Policy detached.")

    def update(self, run: Run) -> Step:
        """The policy is heeded from now on, or is not. Raises NotFound when it is not attached."""
        with self.store.write() as tx:
            cluster = _cluster(tx, run)
            binding = _bound(tx.clustering.bindings.of(cluster.id), run)
            if binding is None:
                raise NotFound(f"The policy '{_asked(run)}' is not attached to the cluster '{cluster.id}'.")
            enabled = run.action.inputs.get("enabled")
            if isinstance(enabled, bool):
                tx.clustering.bindings.update(replace(binding, enabled=enabled))
        return Ended(reason="Policy updated.")

    def detach_all(self, tx: Transaction, actor: Actor, cluster: str) -> None:
        """All policies of a cluster that is about to be deleted; its servers are gone. Raises CoveyError."""
        for binding in tx.clustering.bindings.of(cluster):
            self._detach(tx, actor, binding)

    def _detach(self, tx: Transaction, actor: Actor, binding: Binding) -> str | None:
        """Tells which server group was deleted."""
        gone = self.groups.let_go(tx, actor, binding) if binding.policy.kind == AFFINITY else None
        tx.clustering.bindings.delete(binding.id)
        return gone


def _cluster(tx: Transaction, run: Run) -> Cluster:
    """The cluster, which nobody else changes meanwhile. Raises NotFound."""
    cluster, _ = still(tx, run)
    return replace(run, cluster=cluster).the_cluster


def _asked(run: Run) -> str:
    return str(run.action.inputs.get("policy_id"))


def _bound(bindings: list[Binding], run: Run) -> Binding | None:
    return next((binding for binding in bindings if binding.policy.id == _asked(run)), None)


def _policy(tx: Transaction, run: Run) -> Policy:
    found = tx.clustering.policies.one(_asked(run), None)
    if found is None:
        raise NotFound(f"The specified policy '{_asked(run)}' could not be found.")
    return found


def _profile(tx: Transaction, cluster: Cluster) -> Profile:
    found = tx.clustering.profiles.one(cluster.profile_id, None)
    assert found is not None  # a profile in use can't be deleted
    return found


def _refuse_second(policy: Policy, bindings: list[Binding], cluster: Cluster) -> None:
    """Versions of a type are one type: two of them would fight over the same nodes."""
    other = next((binding.policy for binding in bindings if binding.policy.kind == policy.kind), None)
    if other is not None and not KINDS[policy.kind].repeatable:
        raise Conflict(
            f"Only one instance of policy type ({policy.type}) can be attached to a cluster, but another instance "
            f"({other.id}) is found attached to the cluster ({cluster.id}) already."
        )


def _refuse_other_profiles(policy: Policy, profile: Profile) -> None:
    suitable = KINDS[policy.kind].profiles
    if suitable is not None and profile.type not in suitable:
        raise Conflict(f"Policy not applicable on profile type: {profile.type}")


def _is_in(node: Node, group: str) -> bool:
    placement = node.data.get("placement")
    return isinstance(placement, Mapping) and placement.get("servergroup") == group


def _without(node: Node, group: str) -> Node:
    """A node that is to be made again where it was, but not in a group that is gone."""
    placement = node.data.get("placement")
    left = {key: value for key, value in placement.items() if value != group} if isinstance(placement, Mapping) else {}
    return replace(node, data={**node.data, "placement": left})
