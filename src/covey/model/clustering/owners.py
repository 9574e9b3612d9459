"""Whose something is."""

from dataclasses import dataclass

from covey.model.access import Actor, Target
from covey.model.ids import ProjectId, UserId


@dataclass(frozen=True, slots=True)
class Owner:
    """The user who asked for it, and the project that it belongs to."""

    user_id: UserId
    project_id: ProjectId

    @property
    def target(self) -> Target:
        """How access rules see it."""
        return Target(project_id=self.project_id, user_id=self.user_id)

    def with_roles(self, roles: frozenset[str]) -> Actor:
        """The owner acting, with the roles of whoever asked."""
        return Actor(self.user_id, self.project_id, roles)


def owner_of(actor: Actor) -> Owner:
    """Whose the things are that an actor makes."""
    return Owner(actor.user_id, actor.project_id)
