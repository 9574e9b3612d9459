"""Who is asking, what is acted on, and what a rule about it looks like."""

from dataclasses import dataclass

from covey.model.ids import ProjectId, UserId

# A role brings the ones after it along, as Keystone's own roles do.
IMPLIED_ROLES = {"admin": ("manager", "member", "reader"), "manager": ("member", "reader"), "member": ("reader",)}


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody whose identity was checked, acting for a project."""

    user_id: UserId
    project_id: ProjectId
    roles: frozenset[str]
    user_name: str = ""
    project_name: str = ""
    for_system: bool = False  # with a token for the whole system, which is for no project


def with_implied(roles: frozenset[str]) -> frozenset[str]:
    """The roles and all that they bring along."""
    return roles.union(*(IMPLIED_ROLES.get(role, ()) for role in roles))


@dataclass(frozen=True, slots=True)
class Target:
    """What is acted on, as far as access rules may ask about it."""

    project_id: str | None = None
    user_id: str | None = None
    scope_name: str | None = None  # of the policy scope, where one is used


@dataclass(frozen=True, slots=True)
class AccessRule:
    """A named rule with its default check, in the language of oslo.policy, and the requests that it guards."""

    name: str
    check: str
    description: str
    requests: tuple[str, ...] = ()
    formerly: str = ""  # a check that is enough as well, unless an operator enforces the new defaults
