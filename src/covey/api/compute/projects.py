"""Paths with a project id in them, which mean the same as without."""

from collections.abc import Collection

from covey.api.compute.discovery import PREFIX
from covey.api.requests import Request
from covey.model.errors import Invalid


def without_project(req: Request, roots: Collection[str]) -> None:
    """Drops the project id of /v2.1/{project_id}/…; raises Invalid when it is not the caller's own."""
    if not req.path.startswith(f"{PREFIX}/"):
        return
    first, slash, rest = req.path[len(PREFIX) + 1 :].partition("/")
    if not slash or first in roots:
        return
    if first != req.actor.project_id:
        raise Invalid(
            f"Malformed request URL: URL's project_id '{first}' doesn't match "
            f"Context's project_id '{req.actor.project_id}'"
        )
    req.path = f"{PREFIX}/{rest}"
