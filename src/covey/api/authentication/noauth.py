"""auth_strategy=none disables authentication. For tests and closed labs, on loopback only."""

import ipaddress
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from covey.api.authentication import Project
from covey.model.access import Actor, with_implied_roles
from covey.model.errors import Unauthorized
from covey.model.ids import ProjectId, UserId

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_WRONG_HOST = b"auth_strategy=none answers to loopback names only: use localhost, 127.0.0.1 or [::1].\n"


class NoAuth:
    """Trusts `X-Auth-Token: user[:project]`, `X-Roles`, `X-Project-Id` and `OpenStack-System-Scope`.

    Without `:project` the project has the user's name; `user:` has none. Without `X-Roles`, the user `admin` has the
    role admin, and other users the role member.
    """

    challenge = 'Token realm="covey"'

    def __call__(self, environ: "WSGIEnvironment") -> Actor:
        token = environ.get("HTTP_X_AUTH_TOKEN", "")
        if not token:
            raise Unauthorized("Send a header X-Auth-Token: USER[:PROJECT].")
        return _actor(
            token,
            environ.get("HTTP_X_ROLES"),
            environ.get("HTTP_X_PROJECT_ID"),
            system_scoped="HTTP_OPENSTACK_SYSTEM_SCOPE" in environ,
        )

    def remaining_roles(self, user: UserId, project: ProjectId, roles: frozenset[str]) -> frozenset[str]:
        """Return all the roles: every user exists."""
        return roles

    def project(self, project_id: str) -> Project | None:
        """Return a project of this id: every project exists."""
        return Project(project_id, project_id)

    def projects_named(self, name: str | None) -> Sequence[Project]:
        return [] if name is None else [Project(name, name)]


@lru_cache(maxsize=256)
def _actor(token: str, roles: str | None, project: str | None, *, system_scoped: bool) -> Actor:
    user, colon, own_project = token.partition(":")
    if roles is None:
        roles = "admin" if user == "admin" else "member"
    project = project or (own_project if colon else user)
    given = frozenset(role.strip() for role in roles.split(",") if role.strip())
    project_id = ProjectId(project) if project else None
    return Actor(UserId(user), project_id, with_implied_roles(given), user, project, system_scoped)


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is of this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def loopback_only(app: "WSGIApplication") -> "WSGIApplication":
    """Wrap an application: requests to a name that is not loopback are 403.

    A web page can resolve its own name to 127.0.0.1 (DNS rebinding), and would have all rights here.
    """

    def wrapped(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        host = environ.get("HTTP_HOST")
        if host is None or _names_loopback(host):
            return app(environ, start_response)
        headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(_WRONG_HOST)))]
        start_response("403 Forbidden", headers)
        return [_WRONG_HOST]

    return wrapped


@lru_cache(maxsize=64)
def _names_loopback(host: str) -> bool:
    """Return whether a Host header, which may have a port, names this machine only."""
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False
