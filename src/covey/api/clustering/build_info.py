"""/build-info: which Covey this is."""

from dataclasses import dataclass
from importlib.metadata import version

import falcon

from covey.api.requests import Request
from covey.model.access import Target
from covey.ports import Access


@dataclass(frozen=True, slots=True)
class BuildInfo:
    """The API and what does the work are of one version."""

    access: Access

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        self.access.require(req.actor, "build_info:build_info", Target(project_id=req.actor.project_id))
        revision = {"revision": version("covey")}
        resp.media = {"build_info": {"api": revision, "engine": revision}}
