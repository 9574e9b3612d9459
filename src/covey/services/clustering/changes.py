"""What an update would really change."""

from collections.abc import Mapping

from covey.model.access import Actor
from covey.model.clustering.clusters import Cluster, Node
from covey.model.errors import Invalid
from covey.ports import Access
from covey.services.clustering.finding import some_profile, type_of
from covey.storage.store import Transaction


def changes(
    tx: Transaction,
    access: Access,
    actor: Actor,
    thing: Cluster | Node,
    profile: str | None,
    wanted: Mapping[str, object],
) -> dict[str, object]:
    """Fields that are wanted otherwise than they are; None is not wanted. A profile is named as callers do.

    Raises Invalid for a profile of another type, and when nothing is left.
    """
    found = {field: value for field, value in wanted.items() if value not in (None, getattr(thing, field))}
    if profile is not None:
        new = some_profile(tx, access, actor, profile)
        if new.type != type_of(tx, thing.profile_id):
            kind = "cluster" if isinstance(thing, Cluster) else "node"
            raise Invalid(f"Cannot update a {kind} to a different profile type, operation aborted.")
        if new.id != thing.profile_id:
            found["profile_id"] = new.id
    if not found:
        raise Invalid("No property needs an update.")
    return found
