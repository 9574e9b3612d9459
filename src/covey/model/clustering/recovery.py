"""What a request to recover a cluster or a node may say."""

from collections.abc import Collection

from covey.model.clustering.specs import Document
from covey.model.errors import Invalid

OPERATIONS = ("REBOOT", "REBUILD", "RECREATE")
FOR_CLUSTERS = ("operation", "operation_params", "check", "check_capacity")
FOR_NODES = ("operation", "operation_params", "check", "delete_timeout", "force_recreate")


def recovery(given: Document, known: Collection[str]) -> Document:
    """The same without what says nothing, and the operation in capitals. Raises Invalid."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise Invalid(f"Action parameter {unknown} is not recognizable.")
    said = {key: value for key, value in given.items() if value is not None}
    if "operation" not in said:
        return said
    operation = str(said["operation"]).upper()
    if operation not in OPERATIONS:
        raise Invalid(f"Operation value '{said['operation']}' has to be one of the following: {', '.join(OPERATIONS)}.")
    return said | {"operation": operation}
