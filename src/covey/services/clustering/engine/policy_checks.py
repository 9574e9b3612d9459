"""Asking a cluster's policies, before an action is done and after it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from covey.model.access import Actor
from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.checks import Moment, check
from covey.model.clustering.checks.outcomes import placements
from covey.model.clustering.checks.situation import Member, Situation
from covey.model.clustering.clusters import Cluster, Node
from covey.model.clustering.limits import Limits
from covey.model.clustering.policy_types import SCALING
from covey.model.errors import Conflict, Forbidden
from covey.ports import Access, Clock
from covey.services.clustering.engine.members import servers_of
from covey.services.clustering.engine.run import Run, still
from covey.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class PolicyChecks:
    """What policies say is kept in the action's data, so nobody is asked twice."""

    store: Store
    access: Access
    clock: Clock
    limits: Limits
    default_zone: str

    def before(self, run: Run) -> Run:
        """The run with what its cluster's policies made of it, which is stored."""
        cluster = run.the_cluster
        with self.store.read() as tx:
            bindings = tx.clustering.bindings.of(cluster.id)
            if not bindings:
                return run
            situation = self._situation(tx, run, cluster)
            checked = check(Moment.BEFORE, bindings, situation)
        with self.store.write() as tx:
            _, action = still(tx, run)
            reason = checked.failure or action.status_reason
            action = replace(action, data=checked.data, status_reason=reason, updated_at=self.clock())
            tx.clustering.actions.update([action])
        return replace(run, action=action)

    def after(self, tx: Transaction, action: Action, cluster: Cluster, now: datetime) -> None:
        """Have the cluster's policies take note of an action that is done."""
        bindings = tx.clustering.bindings.of(cluster.id)
        for binding in check(Moment.AFTER, bindings, Situation(action, cluster, (), now)).noted:
            tx.clustering.bindings.update(binding)

    def places(self, run: Run, count: int) -> list[dict[str, str]]:
        """Where as many new nodes would go if somebody asked for them now. Raises Conflict."""
        with self.store.read() as tx:
            bindings = [b for b in tx.clustering.bindings.of(run.the_cluster.id) if b.policy.kind != SCALING]
            as_if = replace(run.action, verb=Verb.CLUSTER_SCALE_OUT, inputs={"count": count}, data={})
            situation = self._situation(tx, replace(run, action=as_if), run.the_cluster)
            checked = check(Moment.BEFORE, bindings, situation)
        if checked.failure is not None:
            raise Conflict(checked.failure)
        return placements(checked.data, count)

    def members(self, tx: Transaction, cluster: Cluster) -> tuple[Member, ...]:
        """A cluster's nodes, as policies see them."""
        nodes = tx.clustering.nodes.of(cluster.id)
        placed = {node: server for node, server in servers_of(tx, nodes).items() if server.host_id is not None}
        zones = {node: server.zone or self.default_zone for node, server in placed.items()}
        made = _made(tx, nodes)
        return tuple(Member(node, made.get(node.profile_id), zones.get(node.id)) for node in nodes)

    def _situation(self, tx: Transaction, run: Run, cluster: Cluster) -> Situation:
        return Situation(
            action=run.action,
            cluster=cluster,
            members=self.members(tx, cluster),
            now=self.clock(),
            zones=frozenset(name or self.default_zone for name, disabled in tx.hosts.zones() if not disabled),
            hypervisors=lambda: self._hypervisors(tx, run.actor, cluster),
            most=self.limits.nodes,
        )

    def _hypervisors(self, tx: Transaction, actor: Actor, cluster: Cluster) -> Sequence[str]:
        """Names of hosts, which are for operators only: a tenant would see them in its cluster. Raises Forbidden."""
        self.access.require(actor, "os_compute_api:os-hypervisors:list")
        if actor.user_id != cluster.owner.user_id:
            raise Forbidden("Hosts are chosen by name only for the administrator who owns the cluster.")
        return [host.name for host in tx.hosts.find() if host.up and not host.disabled]


def _made(tx: Transaction, nodes: Sequence[Node]) -> dict[str, datetime]:
    """When the profiles of nodes were made."""
    profiles = (tx.clustering.profiles.one(profile, None) for profile in {node.profile_id for node in nodes})
    return {profile.id: profile.created_at for profile in profiles if profile is not None}
