"""Errors of the Clustering API."""

from covey.model.errors import Conflict, Invalid, NotFound


class Ambiguous(Invalid):
    """The key matches the name or the beginning of the id of several resources."""

    code = "ambiguous"

    def __init__(self, key: str) -> None:
        super().__init__(f"Multiple results found matching the query criteria '{key}'. Please be more specific.")


class BadSpec(Invalid):
    """The spec of a profile or policy does not match the schema of its type."""

    code = "bad_spec"


class BindingNotFound(NotFound):
    """The policy is not attached to the cluster."""

    code = "binding_not_found"


class Locked(Conflict):
    """Another action holds the lock of the cluster or node."""

    code = "locked"


class ActionConflict(Conflict):
    """A conflicting action on the target is unfinished."""

    code = "action_conflict"


class Cooldown(Conflict):
    """The cooldown of a scaling policy is in progress."""

    code = "cooldown"


class InProgress(Conflict):
    """An action is changing the cluster or node."""

    code = "in_progress"


class Immutable(Conflict):
    """A finished action cannot be cancelled."""

    code = "immutable"


class StillInUse(Conflict):
    """A profile in use, or an attached policy, cannot be deleted."""

    code = "still_in_use"


class NotSupported(Conflict):
    """The cluster's status does not allow the request."""

    code = "not_supported"


def not_found(kind: str, key: str) -> NotFound:
    """Return the error for a resource or type that does not exist."""
    return NotFound(f"The {kind} '{key}' could not be found.")
