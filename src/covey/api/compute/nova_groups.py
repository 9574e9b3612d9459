"""Server groups that Covey does not know, but Nova shows to the caller."""

from collections.abc import Callable
from typing import TypeVar

from covey.api.requests import Request
from covey.model.errors import NotFound
from covey.services.nova_groups import NovaGroups

T = TypeVar("T")


def token_of(req: Request) -> str | None:
    """Return the token of the caller, with which Covey asks Nova on the caller's behalf."""
    return req.get_header("X-Auth-Token")


def asking_nova(nova: NovaGroups, req: Request, group: str, attempt: Callable[[], T]) -> T:
    """Return the result of a request for a group, with a second attempt after Covey has read the group from Nova.

    Covey asks Nova about every group that is not found, also about other projects', whose existence stays unknown.
    """
    try:
        return attempt()
    except NotFound:
        if not nova.mirror(req.actor, token_of(req), group):
            raise
    return attempt()
