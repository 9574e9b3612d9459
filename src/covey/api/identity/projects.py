"""/identity/v3: the version document and the projects."""

from dataclasses import dataclass

import falcon

from covey.api.authentication import Project, Projects
from covey.api.requests import Json, Request, query_lists
from covey.model.errors import NotFound
from covey.ports import Access


class Versions:
    """GET / and GET /v3: the only version."""

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        resp.status = falcon.HTTP_300
        resp.media = {"versions": {"values": [_version(req)]}}

    def on_get_one(self, req: Request, resp: falcon.Response) -> None:
        resp.media = {"version": _version(req)}


@dataclass(frozen=True, slots=True)
class ProjectLookup:
    """Projects by id and by name; a caller without the admin role finds its own only."""

    projects: Projects
    access: Access

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        name = query_lists(req).get("name", [None])[-1]
        found = [p for p in self.projects.projects_named(name) if self._visible(req, p)]
        shown = [_show(req, project) for project in found]
        links = {"self": req.link("/v3/projects"), "next": None, "previous": None}
        resp.media = {"projects": shown, "links": links}

    def on_get_one(self, req: Request, resp: falcon.Response, key: str) -> None:
        project = self.projects.project(key)
        if project is None or not self._visible(req, project):
            raise NotFound(f"Could not find project: {key}.")
        resp.media = {"project": _show(req, project)}

    def _visible(self, req: Request, project: Project) -> bool:
        return project.id == req.actor.project_id or self.access.allows(req.actor, "context_is_admin")


def is_open(req: Request) -> bool:
    """Return whether a path needs no authentication: version discovery."""
    return req.path.rstrip("/") in {"", "/v3"}


def _version(req: Request) -> Json:
    return {
        "id": "v3.14",
        "status": "stable",
        "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": req.link("/v3/")}],
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}],
    }


def _show(req: Request, project: Project) -> Json:
    return {
        "id": project.id,
        "name": project.name,
        "domain_id": "default",
        "parent_id": "default",
        "enabled": True,
        "is_domain": False,
        "description": "",
        "options": {},
        "tags": [],
        "links": {"self": req.link(f"/v3/projects/{project.id}")},
    }
