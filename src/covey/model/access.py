"""Actors, the targets that they act on, and access rules."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from covey.model.errors import Forbidden
from covey.model.ids import ProjectId, UserId

V = TypeVar("V")

# Each role implies the roles after it, as in Keystone.
IMPLIED_ROLES = {"admin": ("manager", "member", "reader"), "manager": ("member", "reader"), "member": ("reader",)}
OPERATORS = ProjectId("")  # owns what belongs to no project; no actor has this project


@dataclass(frozen=True, slots=True)
class Actor:
    """An authenticated user, acting for a project."""

    user_id: UserId
    project_id: ProjectId | None  # None: the token is for a domain or for the system
    roles: frozenset[str]
    user_name: str = ""
    project_name: str = ""
    system_scoped: bool = False  # the token is for the whole system, not for a project

    def __post_init__(self) -> None:
        if self.project_id == OPERATORS:
            raise ValueError("an actor without a project has the project None")

    @property
    def own_project(self) -> ProjectId:
        """The project that owns what the actor creates. Raises Forbidden for an actor without one."""
        if self.project_id is None:
            raise Forbidden("The token is not for a project. Send a project-scoped one.")
        return self.project_id


def with_implied_roles(roles: frozenset[str]) -> frozenset[str]:
    """Return the roles together with the roles that they imply."""
    return roles.union(*(IMPLIED_ROLES.get(role, ()) for role in roles))


@dataclass(frozen=True, slots=True)
class Target:
    """The attributes of a resource that access rules can test."""

    project_id: str | None = None
    user_id: str | None = None
    scope_name: str | None = None  # of a policy scope


@dataclass(frozen=True, slots=True)
class Restricted(Generic[V]):
    """A record of the catalogue, and the projects that may use it; None means all."""

    record: V
    projects: frozenset[ProjectId] | None = None


@dataclass(frozen=True, slots=True)
class AccessRule:
    """A named rule: its default check in oslo.policy's language, and the requests that it guards."""

    name: str
    check: str
    description: str
    requests: tuple[str, ...] = ()
    deprecated_check: str = ""  # also sufficient, unless [oslo_policy] enforce_new_defaults
