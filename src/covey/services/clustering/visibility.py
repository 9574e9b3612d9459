"""Whose things an actor gets to see: those of its project, and administrators everybody's."""

from dataclasses import replace

from covey.model.access import Actor
from covey.model.clustering.listing import Listing
from covey.model.errors import Forbidden
from covey.model.ids import ProjectId
from covey.ports import Access


def project_seen(access: Access, actor: Actor) -> ProjectId | None:
    """The project in which an actor looks for something; None is all of them."""
    return None if access.allows(actor, "context_is_admin") else actor.project_id


def listing_seen(access: Access, actor: Actor, wanted: Listing) -> Listing:
    """What an actor gets of a list. Raises Forbidden when it wants to see every project's things and may not."""
    project = project_seen(access, actor)
    if project is not None and wanted.project_id is None:
        raise Forbidden("You are not authorized to complete this operation.")
    return replace(wanted, project_id=project)
