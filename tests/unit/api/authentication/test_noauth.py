"""auth_strategy=none trusts identity headers."""

import pytest

from covey.api.authentication import Project
from covey.api.authentication.noauth import NoAuth
from covey.model.errors import Unauthorized

NOAUTH = NoAuth()

CALLERS = {
    "a user and a project": ({"HTTP_X_AUTH_TOKEN": "alice:web"}, ("alice", "web", {"member", "reader"})),
    "a user alone has a project of that name": (
        {"HTTP_X_AUTH_TOKEN": "alice"},
        ("alice", "alice", {"member", "reader"}),
    ),
    "the user admin is an administrator": (
        {"HTTP_X_AUTH_TOKEN": "admin:ops"},
        ("admin", "ops", {"admin", "manager", "member", "reader"}),
    ),
    "a header names the project": (
        {"HTTP_X_AUTH_TOKEN": "alice:web", "HTTP_X_PROJECT_ID": "db"},
        ("alice", "db", {"member", "reader"}),
    ),
    "a header names the roles": (
        {"HTTP_X_AUTH_TOKEN": "admin:ops", "HTTP_X_ROLES": " reader , auditor,"},
        ("admin", "ops", {"reader", "auditor"}),
    ),
    "an empty header means no roles": (
        {"HTTP_X_AUTH_TOKEN": "admin:ops", "HTTP_X_ROLES": ""},
        ("admin", "ops", set()),
    ),
}


@pytest.mark.parametrize(("environ", "expected"), CALLERS.values(), ids=CALLERS)
def test_identity_headers_are_trusted(environ: dict[str, str], expected: tuple[str, str, set[str]]) -> None:
    actor = NOAUTH(environ)
    assert (str(actor.user_id), str(actor.project_id), set(actor.roles)) == expected
    assert (actor.user_name, actor.project_name) == expected[:2]


@pytest.mark.parametrize("environ", [{}, {"HTTP_X_AUTH_TOKEN": ""}], ids=["no token", "an empty token"])
def test_missing_token_is_unauthorized(environ: dict[str, str]) -> None:
    with pytest.raises(Unauthorized, match="Send a header X-Auth-Token"):
        NOAUTH(environ)


@pytest.mark.parametrize("token", ["alice:", ":"])
def test_empty_project_is_none(token: str) -> None:
    assert NOAUTH({"HTTP_X_AUTH_TOKEN": token}).project_id is None


def test_every_project_exists() -> None:
    assert NOAUTH.project("web") == Project("web", "web")
    assert NOAUTH.projects_named("web") == [Project("web", "web")]
    assert NOAUTH.projects_named(None) == []
