"""The user and project that own a clustering resource."""

from dataclasses import dataclass

from covey.model.access import Actor, Target
from covey.model.ids import ProjectId, UserId


@dataclass(frozen=True, slots=True)
class Owner:
    """The user who requested a resource, and the project that it belongs to."""

    user_id: UserId
    project_id: ProjectId

    @property
    def target(self) -> Target:
        """The resource as access rules see it."""
        return Target(project_id=self.project_id, user_id=self.user_id)

    def with_roles(self, roles: frozenset[str]) -> Actor:
        """Return the owner as an actor with the roles of the original request."""
        return Actor(self.user_id, self.project_id or None, roles)


def owner_of(actor: Actor) -> Owner:
    """Return the owner of what an actor creates. Raises Forbidden for an actor without a project."""
    return Owner(actor.user_id, actor.own_project)
