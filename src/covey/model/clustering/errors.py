"""Trouble of the clustering API's own kinds; the edge knows each by its code."""

from covey.model.errors import Conflict, Invalid, NotFound


class Ambiguous(Invalid):
    """Several clusters, nodes, profiles and so on have the name, or an id that begins so."""

    code = "ambiguous"

    def __init__(self, key: str) -> None:
        super().__init__(f"Multiple results found matching the query criteria '{key}'. Please be more specific.")


class BadSpec(Invalid):
    """The specification of a profile or a policy says what its type does not allow."""

    code = "bad_spec"


class BindingNotFound(NotFound):
    """The policy is not attached to the cluster."""

    code = "binding_not_found"


class Locked(Conflict):
    """Another action works on the cluster, or on the node."""

    code = "locked"


class ActionConflict(Conflict):
    """Another action of the kind is under way."""

    code = "action_conflict"


class Cooldown(Conflict):
    """A scaling policy wants some time to pass first."""

    code = "cooldown"


class InProgress(Conflict):
    """The cluster, or the node, is in the middle of something."""

    code = "in_progress"


class Immutable(Conflict):
    """An action that is over can't be cancelled."""

    code = "immutable"


class StillInUse(Conflict):
    """A profile from which something is made, or a policy that is attached, can't be deleted."""

    code = "still_in_use"


class NotSupported(Conflict):
    """It can't be done to a cluster in this state."""

    code = "not_supported"


class NotOrphan(Conflict):
    """The node is in a cluster already."""

    code = "not_orphan"


def missing(kind: str, key: str) -> NotFound:
    """Something that a path, or a specification's type, names."""
    return NotFound(f"The {kind} '{key}' could not be found.")
