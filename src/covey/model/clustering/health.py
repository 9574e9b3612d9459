"""How a node fares, by its server."""

from dataclasses import replace
from datetime import datetime

from covey.model.clustering.clusters import Node, NodeStatus
from covey.model.servers import Server, Task, VmState


def examined(node: Node, server: Server | None, now: datetime) -> Node:
    """The node as its server shows it: well, at rest in another state, or lost."""
    status, reason = _health(server)
    return replace(node, status=status, status_reason=reason, updated_at=now)


def _health(server: Server | None) -> tuple[NodeStatus, str]:
    if server is None:
        return NodeStatus.ERROR, "The node has no server."
    if server.task is Task.DELETING:
        return NodeStatus.ERROR, "The node's server is being deleted."
    if server.vm_state is VmState.ERROR:
        return NodeStatus.ERROR, "The node's server is in status ERROR."
    if server.vm_state is VmState.ACTIVE:
        return NodeStatus.ACTIVE, "The node's server is ACTIVE."
    return NodeStatus.WARNING, f"The node's server is in status {server.status}."
