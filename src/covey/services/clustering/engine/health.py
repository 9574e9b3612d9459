"""Actions that look after nodes: CHECK sees how they fare, RECOVER makes those well that do not fare well."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from covey.model.clustering.actions import Verb
from covey.model.clustering.clusters import Node, NodeStatus
from covey.model.clustering.health import examined
from covey.model.clustering.recovery import recovery
from covey.ports import Clock, NewUuid
from covey.services.clustering.engine.child_actions import derived, units_of, wait
from covey.services.clustering.engine.growth import Growth
from covey.services.clustering.engine.members import servers_of
from covey.services.clustering.engine.policy_checks import PolicyChecks
from covey.services.clustering.engine.reboots import Reboots
from covey.services.clustering.engine.recreation import Recreation
from covey.services.clustering.engine.removal import Removal
from covey.services.clustering.engine.run import Ended, Later, Run, Step, still
from covey.services.clustering.engine.shrinking import Choice
from covey.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class Check:
    """Nodes fare as their servers do."""

    clock: Clock

    def check(self, run: Run) -> Step:
        """All nodes of a cluster, or the one."""
        return Ended(reason="Check completed.", finally_=lambda tx: self._look(tx, run))

    def _look(self, tx: Transaction, run: Run) -> None:
        tx.clustering.nodes.update(seen(tx, _targets(tx, run), self.clock))


@dataclass(frozen=True, slots=True)
class Recover:
    """Nodes that do not fare well get another server, or theirs is rebooted.

    To rebuild is to recreate here: a server has no disk apart from itself.
    """

    store: Store
    clock: Clock
    new_uuid: NewUuid
    checks: PolicyChecks
    reboots: Reboots
    recreation: Recreation
    growth: Growth
    removal: Removal
    choice: Choice

    def begin(self, run: Run) -> Step:
        """Write down which nodes are to be recovered. Raises Invalid when nobody knows how."""
        _operation(run)
        now = self.clock()
        with self.store.write() as tx:
            _, action = still(tx, run)
            nodes = _targets(tx, run)
            if action.inputs.get("check"):
                nodes = seen(tx, nodes, self.clock)
                tx.clustering.nodes.update(nodes)
            ill = [node for node in nodes if node.status is not NodeStatus.ACTIVE]
            if action.verb.is_for_cluster:
                tx.clustering.actions.add(derived(action, Verb.NODE_RECOVER, ill, self.new_uuid, now, begun=False))
            tx.clustering.nodes.update([replace(node, status=NodeStatus.RECOVERING) for node in ill])
            wait(tx, action, f"Recovered 0 of {len(ill)} nodes.", now)
        return Later()

    def go_on(self, run: Run) -> Step:
        with self.store.read() as tx:
            others = run.action.verb.is_for_cluster and units_of(tx, run.action, Verb.NODE_CREATE, Verb.NODE_DELETE)
        if others:
            return self.growth.settle(run) if others[0].verb is Verb.NODE_CREATE else self.removal.go_on(run)
        one_way = self.reboots if _operation(run) == "REBOOT" else self.recreation
        step = one_way.go_on(run)
        if isinstance(step, Ended) and step.worked and run.action.inputs.get("check_capacity"):
            return self._to_capacity(run) or step
        return step

    def _to_capacity(self, run: Run) -> Step | None:
        """As many members as the cluster wants, where its policies want them."""
        cluster = run.the_cluster
        missing = cluster.desired_capacity - len(cluster.nodes)
        if missing > 0:
            return self.growth.grow(run, self.checks.places(run, missing))
        if missing < 0:
            return self.removal.begin(run, self.choice.of(cluster, {}, -missing))
        return None


def seen(tx: Transaction, nodes: Sequence[Node], clock: Clock) -> list[Node]:
    """Nodes as their servers show them."""
    servers = servers_of(tx, nodes)
    return [examined(node, servers.get(node.id), clock()) for node in nodes]


def _operation(run: Run) -> object:
    """How nodes are to be recovered; a webhook may say anything. Raises Invalid."""
    return recovery(run.action.inputs, run.action.inputs).get("operation")


def _targets(tx: Transaction, run: Run) -> list[Node]:
    if run.action.verb.is_for_cluster:
        return tx.clustering.nodes.of(run.the_cluster.id)
    return tx.clustering.nodes.by_ids([run.the_node.id])
