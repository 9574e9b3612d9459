"""Other servers for nodes: the old ones go first, all of them, and then one decision is made for the new ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from covey.model.clustering.actions import Action, ActionStatus, Verb
from covey.model.clustering.clusters import Node, NodeStatus
from covey.model.ids import GroupId
from covey.ports import Clock
from covey.services.clustering.engine.child_actions import LOOK_AGAIN_S, begun, keep, over, units_of
from covey.services.clustering.engine.growth import Growth
from covey.services.clustering.engine.members import servers_of
from covey.services.clustering.engine.profile_servers import placement
from covey.services.clustering.engine.removal import Removal
from covey.services.clustering.engine.run import Later, Run, Step, still
from covey.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class Recreation:
    """Recreates the nodes that an action recovers, where policies wanted them."""

    store: Store
    clock: Clock
    growth: Growth
    removal: Removal

    def go_on(self, run: Run) -> Step:
        with self.store.read() as tx:
            left = [unit for unit in units_of(tx, run.action, Verb.NODE_RECOVER) if not unit.is_over]
            found = tx.clustering.nodes.by_ids([unit.target for unit in left])
            ill = {node.id: node for node in found if node.status is NodeStatus.RECOVERING}
            here = servers_of(tx, ill.values())
            gone = _where_they_can_be(tx, [node for node in ill.values() if node.id not in here])
        if not ill:
            return self.growth.settle(run, Verb.NODE_RECOVER)
        if len(gone) == len(ill):
            return self.growth.build(run, gone)
        self._let_go(run, [unit for unit in left if unit.target in here], ill)
        return Later(LOOK_AGAIN_S)

    def _let_go(self, run: Run, child_actions: Sequence[Action], nodes: dict[str, Node]) -> None:
        """Have the old servers deleted. A node whose server can't be keeps it."""
        waiting = [unit for unit in child_actions if unit.status is not ActionStatus.RUNNING]
        if not waiting:
            return
        now = self.clock()
        problems = {unit.id: self.removal.ask(run, nodes[unit.target]) for unit in waiting}
        moved = [over(unit, now, problems[unit.id]) if problems[unit.id] else begun(unit, now) for unit in waiting]
        kept = [
            replace(nodes[unit.target], status=NodeStatus.ERROR, status_reason=problems[unit.id], updated_at=now)
            for unit in waiting
            if problems[unit.id]
        ]
        with self.store.write() as tx:
            still(tx, run)
            tx.clustering.nodes.update(kept)
            keep(tx, moved)


def _where_they_can_be(tx: Transaction, nodes: Sequence[Node]) -> list[Node]:
    """The nodes, without server groups that do not exist any more."""
    wanted = {GroupId(place["servergroup"]) for place in map(placement, nodes) if "servergroup" in place}
    lost = wanted - {group.id for group in tx.groups.by_ids(sorted(wanted))}
    return [
        replace(node, data={**node.data, "placement": _without_group(node)})
        if placement(node).get("servergroup") in lost
        else node
        for node in nodes
    ]


def _without_group(node: Node) -> dict[str, str]:
    return {key: value for key, value in placement(node).items() if key != "servergroup"}
