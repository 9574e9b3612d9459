"""Policy checks before an action runs, and bookkeeping after it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from covey.model.access import Actor
from covey.model.clustering import policies
from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.clusters import Cluster, Node
from covey.model.clustering.policies.context import Member, PolicyContext
from covey.model.clustering.policies.decisions import placements
from covey.model.clustering.policy_types import SCALING
from covey.model.clustering.sizes import Limits
from covey.model.errors import Conflict, Forbidden
from covey.ports import Access, Clock
from covey.services.clustering.engine.actions import ActionContext, lock_claimed_action
from covey.services.clustering.engine.profile_servers import servers_of
from covey.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class PolicyChecks:
    """Runs a cluster's policies. Their results are stored in the action's data, so each is checked once."""

    store: Store
    access: Access
    clock: Clock
    limits: Limits
    default_zone: str

    def pre_op(self, context: ActionContext) -> ActionContext:
        """Return the context with the results of the policy checks, which are stored."""
        cluster = context.required_cluster
        with self.store.read() as tx:
            bindings = tx.clustering.bindings.of(cluster.id)
            if not bindings:
                return context
            result = policies.pre_op(bindings, self._policy_context(tx, context, cluster))
        with self.store.write() as tx:
            _, action = lock_claimed_action(tx, context)
            reason = result.failure or action.status_reason
            action = replace(action, data=result.data, status_reason=reason, updated_at=self.clock())
            tx.clustering.actions.update([action])
        return replace(context, action=action)

    def post_op(self, tx: Transaction, action: Action, cluster: Cluster, now: datetime) -> None:
        """Store the bindings that a succeeded action changes."""
        for binding in policies.post_op(tx.clustering.bindings.of(cluster.id), action.verb, now):
            tx.clustering.bindings.update(binding)

    def placements(self, context: ActionContext, count: int, *, recreated: bool = False) -> list[dict[str, str]]:
        """Return the placements that a scale-out by `count` nodes would get now. Raises Conflict.

        Recreated nodes are members already: no limit of the cluster's size applies to them.
        """
        cluster = context.required_cluster
        with self.store.read() as tx:
            bindings = [b for b in tx.clustering.bindings.of(cluster.id) if b.policy.type_name != SCALING]
            data = {"creation": {"count": count}} if recreated else {}
            scale_out = replace(context.action, verb=Verb.CLUSTER_SCALE_OUT, inputs={"count": count}, data=data)
            policy_context = self._policy_context(tx, replace(context, action=scale_out), cluster)
            result = policies.pre_op(bindings, policy_context)
        if result.failure is not None:
            raise Conflict(result.failure)
        return placements(result.data, count)

    def members(self, tx: Transaction, cluster: Cluster) -> tuple[Member, ...]:
        """Return a cluster's nodes as policies see them."""
        nodes = tx.clustering.nodes.of(cluster.id)
        placed = {node: server for node, server in servers_of(tx, nodes).items() if server.host_id is not None}
        zones = {node: server.zone or self.default_zone for node, server in placed.items()}
        profile_times = _profile_times(tx, nodes)
        return tuple(Member(node, profile_times.get(node.profile_id), zones.get(node.id)) for node in nodes)

    def _policy_context(self, tx: Transaction, context: ActionContext, cluster: Cluster) -> PolicyContext:
        return PolicyContext(
            action=context.action,
            cluster=cluster,
            members=self.members(tx, cluster),
            now=self.clock(),
            zones=frozenset(name or self.default_zone for name, disabled in tx.hosts.zones() if not disabled),
            hypervisors=lambda: self._hypervisors(tx, context.actor, cluster),
            max_nodes=self.limits.max_nodes_per_cluster,
        )

    def _hypervisors(self, tx: Transaction, actor: Actor, cluster: Cluster) -> Sequence[str]:
        """Return host names. Raises Forbidden for a tenant, who would see them in the cluster's data."""
        self.access.require(actor, "os_compute_api:os-hypervisors:list")
        if actor.user_id != cluster.owner.user_id:
            raise Forbidden("Hosts are chosen by name only for the administrator who owns the cluster.")
        return [host.name for host in tx.hosts.find() if host.up and not host.disabled]


def _profile_times(tx: Transaction, nodes: Sequence[Node]) -> dict[str, datetime]:
    """Return the creation times of the nodes' profiles."""
    profiles = (tx.clustering.profiles.one(profile, None) for profile in {node.profile_id for node in nodes})
    return {profile.id: profile.created_at for profile in profiles if profile is not None}
