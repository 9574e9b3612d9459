"""Node health as the server's state shows it, and the parameters of a recovery."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from covey.model.clustering.clusters import Node, NodeStatus
from covey.model.clustering.specs import Document
from covey.model.errors import Invalid
from covey.model.servers import Server, Task, VmState

RECOVERY_OPERATIONS = ("REBOOT", "REBUILD", "RECREATE")
CLUSTER_RECOVERY_PARAMS = ("operation", "operation_params", "check", "check_capacity")
NODE_RECOVERY_PARAMS = ("operation", "operation_params", "check", "delete_timeout", "force_recreate")


def refresh_status(node: Node, server: Server | None, now: datetime) -> Node:
    """Return the node with the status that its server implies."""
    status, reason = _health(server)
    return replace(node, status=status, status_reason=reason, updated_at=now)


def parse_recovery(given: Document, known: Collection[str]) -> Document:
    """Return the parameters without nulls, with the operation in capitals.

    Raises Invalid for a parameter that is not in `known` and for an unknown operation.
    """
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise Invalid(f"Action parameter {unknown} is not recognizable.")
    params = {key: value for key, value in given.items() if value is not None}
    if "operation" not in params:
        return params
    operation = str(params["operation"]).upper()
    if operation not in RECOVERY_OPERATIONS:
        allowed = ", ".join(RECOVERY_OPERATIONS)
        raise Invalid(f"Operation value '{params['operation']}' has to be one of the following: {allowed}.")
    return params | {"operation": operation}


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
