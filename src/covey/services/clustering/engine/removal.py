"""Shrinking: nodes go with their servers, or leave and keep them; in sets, since there may be many."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from covey.model.clustering.actions import Action, ActionStatus, Verb
from covey.model.clustering.checks.situation import section
from covey.model.clustering.clusters import Cluster, Node, NodeStatus
from covey.model.clustering.specs import Document
from covey.model.errors import CoveyError, NotFound, Unavailable
from covey.ports import Clock, NewUuid
from covey.services.clustering.engine.child_actions import begun, derived, keep, over, progress, units_of, wait
from covey.services.clustering.engine.growth import Change, changes, same
from covey.services.clustering.engine.members import leave, servers_of
from covey.services.clustering.engine.run import Ended, Later, Run, Step, still
from covey.services.servers import Servers
from covey.storage.store import Store, Transaction

_AT_ONCE = 100  # servers that are on their way out
_VERBS = (Verb.NODE_DELETE, Verb.NODE_LEAVE)


@dataclass(frozen=True, slots=True)
class Removal:
    """Takes nodes out of their cluster."""

    store: Store
    clock: Clock
    new_uuid: NewUuid
    servers: Servers

    def begin(self, run: Run, nodes: Sequence[Node], change: Change = same, *, destroy: bool = True) -> Step:
        """These members go, and the cluster is what `change` makes of it."""
        cluster = run.the_cluster
        if not nodes:
            return Ended(reason="No nodes had to be removed.", finally_=changes(cluster, change))
        verb = Verb.NODE_DELETE if destroy else Verb.NODE_LEAVE
        now = self.clock()
        with self.store.write() as tx:
            found, action = still(tx, run)
            if found is not None and not units_of(tx, action, *_VERBS):
                tx.clustering.actions.add(derived(action, verb, nodes, self.new_uuid, now, begun=False))
                tx.clustering.clusters.update(change(found))
            wait(tx, action, f"Deleted 0 of {len(nodes)} nodes.", now)
        return Later()

    def go_on(self, run: Run, *, force: bool = False) -> Step:
        """Have some more servers deleted, and forget the nodes whose servers are gone."""
        rest_s = self._grace_s(run)
        if rest_s > 0:
            return Later(min(rest_s, 60.0))
        with self.store.read() as tx:
            child_actions = units_of(tx, run.action, *_VERBS)
            left = [unit for unit in child_actions if not unit.is_over]
            nodes = {node.id: node for node in tx.clustering.nodes.by_ids([unit.target for unit in left])}
            has_server = set(servers_of(tx, nodes.values()))
        asked, refused = self._ask_some(run, left, nodes, has_server)
        gone = [unit for unit in left if unit.target not in has_server or unit.verb is Verb.NODE_LEAVE]
        if force:  # whatever keeps a server keeps it without a node
            gone += [unit for unit in left if unit.id in refused]
            refused = {}
        moved = asked | refused | self._take_out(run, gone, nodes)
        self._keep(run, [*asked.values(), *refused.values()], nodes)
        return progress([moved.get(unit.id, unit) for unit in child_actions], "deleting", "Deleted")

    def _ask_some(
        self, run: Run, left: Sequence[Action], nodes: Mapping[str, Node], has_server: set[str]
    ) -> tuple[dict[str, Action], dict[str, Action]]:
        """Have servers deleted, as many as may be on their way at once: the units begun, and those that failed."""
        going = [unit for unit in left if unit.target in has_server and unit.verb is Verb.NODE_DELETE]
        waiting = [unit for unit in going if unit.status is not ActionStatus.RUNNING]
        now = self.clock()
        asked: dict[str, Action] = {}
        refused: dict[str, Action] = {}
        for unit in waiting[: max(0, _AT_ONCE - len(going) + len(waiting))]:
            problem = self.ask(run, nodes[unit.target])
            if problem:
                refused[unit.id] = over(unit, now, problem)
            else:
                asked[unit.id] = begun(unit, now)
        return asked, refused

    def ask(self, run: Run, node: Node) -> str:
        """Have the node's server deleted; says what is the matter if that can't be."""
        assert node.server_id is not None
        try:
            self.servers.delete(run.actor, node.server_id, run.request_id)
        except NotFound:
            return ""
        except Unavailable:
            raise
        except CoveyError as error:
            return f"Failed in deleting server: {error.message}"
        return ""

    def _keep(self, run: Run, child_actions: Sequence[Action], nodes: Mapping[str, Node]) -> None:
        """Write down which servers were asked to go."""
        if not child_actions:
            return
        going = [nodes[unit.target] for unit in child_actions if unit.status is ActionStatus.RUNNING]
        with self.store.write() as tx:
            still(tx, run)
            tx.clustering.nodes.update([replace(node, status=NodeStatus.DELETING) for node in going])
            keep(tx, child_actions)

    def _take_out(self, run: Run, gone: Sequence[Action], nodes: Mapping[str, Node]) -> dict[str, Action]:
        """Nodes whose servers are gone go, and those that leave leave; the node of its own action goes at its end."""
        now = self.clock()
        done = [over(unit, now) for unit in gone]
        derived_ones = [unit for unit in done if unit.parent_id is not None]
        if derived_ones:
            with self.store.write() as tx:
                still(tx, run)
                tx.clustering.nodes.delete([unit.target for unit in derived_ones if unit.verb is Verb.NODE_DELETE])
                leaving = [unit.target for unit in derived_ones if unit.verb is Verb.NODE_LEAVE]
                leave(tx, [nodes[node] for node in leaving if node in nodes], now)
                keep(tx, derived_ones)
        return {unit.id: unit for unit in done}

    def _grace_s(self, run: Run) -> float:
        """How long a policy wants nodes to go on before they are deleted."""
        period = section(run.action.data, "deletion").get("grace_period")
        if not isinstance(period, int) or run.action.started_at is None or run.action.to_be_cancelled:
            return 0.0
        return (run.action.started_at + timedelta(seconds=period) - self.clock()).total_seconds()


def may_reduce(data: Document) -> bool:
    """Whether a cluster wants fewer nodes once some have gone."""
    return section(data, "deletion").get("reduce_desired_capacity") is not False


def reduced(cluster: Cluster, size: int, data: Document) -> Cluster:
    """The cluster, which is content with so many nodes unless a policy says that it is not."""
    return replace(cluster, desired_capacity=size) if may_reduce(data) else cluster


def forget(tx: Transaction, node: Node, data: Document) -> None:
    """A node of its own action goes, and its cluster wants one less."""
    cluster = None if node.cluster_id is None else tx.clustering.clusters.lock(node.cluster_id)
    tx.clustering.nodes.delete([node.id])
    if cluster is not None:
        tx.clustering.clusters.update(reduced(cluster, len(set(cluster.nodes) - {node.id}), data))
