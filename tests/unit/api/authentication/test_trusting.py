"""auth_strategy=none: everybody is who they say they are."""

import pytest

from covey.api.authentication import Project
from covey.api.authentication.noauth import NoAuth
from covey.model.errors import Unauthorized

TRUSTING = NoAuth()

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


@pytest.mark.parametrize(("environ", "who"), CALLERS.values(), ids=CALLERS)
def test_a_caller_is_believed(environ: dict[str, str], who: tuple[str, str, set[str]]) -> None:
    actor = TRUSTING(environ)
    assert (str(actor.user_id), str(actor.project_id), set(actor.roles)) == who
    assert (actor.user_name, actor.project_name) == who[:2]


@pytest.mark.parametrize("environ", [{}, {"HTTP_X_AUTH_TOKEN": ""}], ids=["no token", "an empty token"])
def test_somebody_has_to_be_named(environ: dict[str, str]) -> None:
    with pytest.raises(Unauthorized, match="Send a header X-Auth-Token"):
        TRUSTING(environ)


def test_any_project_exists_once_it_is_named() -> None:
    assert TRUSTING.project("web") == Project("web", "web")
    assert TRUSTING.projects_named("web") == [Project("web", "web")]
    assert TRUSTING.projects_named(None) == []
