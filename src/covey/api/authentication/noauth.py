"""auth_strategy=none disables authentication. For tests and closed labs, on loopback only."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from covey.api.authentication import Project
from covey.model.access import Actor, with_implied_roles
from covey.model.errors import Unauthorized
from covey.model.ids import ProjectId, UserId

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment


class NoAuth:
    """Trusts `X-Auth-Token: user[:project]`, `X-Roles`, `X-Project-Id` and `OpenStack-System-Scope`.

    Without `X-Roles`, the user `admin` has the role admin, and other users the role member.
    """

    challenge = 'Token realm="covey"'

    def __call__(self, environ: "WSGIEnvironment") -> Actor:
        token = environ.get("HTTP_X_AUTH_TOKEN", "")
        if not token:
            raise Unauthorized("Send a header X-Auth-Token: USER[:PROJECT].")
        user, _, project = token.partition(":")
        roles = environ.get("HTTP_X_ROLES")
        if roles is None:
            roles = "admin" if user == "admin" else "member"
        project = environ.get("HTTP_X_PROJECT_ID") or project or user
        given = frozenset(role.strip() for role in roles.split(",") if role.strip())
        system_scoped = "HTTP_OPENSTACK_SYSTEM_SCOPE" in environ
        return Actor(UserId(user), ProjectId(project), with_implied_roles(given), user, project, system_scoped)

    def project(self, project_id: str) -> Project | None:
        """Return a project of this id: every project exists."""
        return Project(project_id, project_id)

    def projects_named(self, name: str | None) -> Sequence[Project]:
        return [] if name is None else [Project(name, name)]
