"""What becomes of nodes that an action leaves in the middle of something."""

from dataclasses import replace
from datetime import datetime

from covey.model.clustering.actions import Action, Verb
from covey.model.clustering.clusters import ORPHAN, Node, NodeStatus
from covey.model.clustering.health import examined
from covey.services.clustering.engine.child_actions import NODE_IS
from covey.services.clustering.engine.members import servers_of
from covey.storage.store import Transaction

_IN_THE_MIDDLE = frozenset({*NODE_IS.values(), NodeStatus.INIT})


def settle_nodes(tx: Transaction, action: Action, reason: str, now: datetime) -> None:
    """The nodes of an action that is over fare as their servers do, and tell why nothing more is done to them."""
    targets = [unit.target for unit in tx.clustering.actions.of_parent(action.id)]
    if not action.verb.is_for_cluster:
        targets.append(action.target)
    left = [node for node in tx.clustering.nodes.by_ids(targets) if node.status in _IN_THE_MIDDLE]
    servers = servers_of(tx, left)
    tx.clustering.nodes.update(
        [_expelled(replace(examined(node, servers.get(node.id), now), status_reason=reason), action) for node in left]
    )


def _expelled(node: Node, action: Action) -> Node:
    """A node that was to be a new member and got no server is none."""
    lost = action.verb is Verb.NODE_CREATE and node.server_id is None and node.status is NodeStatus.ERROR
    return replace(node, cluster_id=None, index=ORPHAN) if lost else node
