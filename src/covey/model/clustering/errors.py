"""Trouble of the clustering API's own kinds; the edge knows each by its code."""

from covey.model.errors import Conflict, Invalid, NotFound


class Ambiguous(Invalid):
    """A name, or the beginning of an id, that several things have."""

    code = "ambiguous"

    def __init__(self, key: str) -> None:
        super().__init__(f"Multiple results found matching the query criteria '{key}'. Please be more specific.")


class BadSpec(Invalid):
    """A specification that its type does not allow."""

    code = "bad_spec"


class BindingNotFound(NotFound):
    """A policy that is not attached to the cluster."""

    code = "binding_not_found"


class Locked(Conflict):
    """Another action holds the cluster, or the node."""

    code = "locked"


class ActionConflict(Conflict):
    """Another action of the same kind is under way."""

    code = "action_conflict"


class Cooldown(Conflict):
    """A scaling policy wants some time to pass first."""

    code = "cooldown"


class InProgress(Conflict):
    """The cluster, or the node, is in the middle of something."""

    code = "in_progress"


class Immutable(Conflict):
    """An action that is over, or is such that it can't be changed."""

    code = "immutable"


class StillInUse(Conflict):
    """Something that others refer to can't be deleted."""

    code = "still_in_use"


class NotSupported(Conflict):
    """Something that can't be done in this state."""

    code = "not_supported"


class NotOrphan(Conflict):
    """A node that is in a cluster already."""

    code = "not_orphan"


def missing(kind: str, key: str) -> NotFound:
    """Something that a path, or a specification's type, names."""
    return NotFound(f"The {kind} '{key}' could not be found.")
