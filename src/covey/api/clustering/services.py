"""/v1/services and /v1/build-info."""

from dataclasses import dataclass
from importlib.metadata import version

import falcon

from covey.api.clustering import views
from covey.api.requests import Json, Request
from covey.model.access import Target
from covey.model.clustering.actions import Engine
from covey.ports import Access
from covey.services.clustering.engines import Engines


@dataclass(frozen=True, slots=True)
class Services:
    """The engines that execute actions."""

    engines: Engines

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        resp.media = {"services": [_show(engine, up=up) for engine, up in self.engines.all(req.actor)]}


@dataclass(frozen=True, slots=True)
class BuildInfo:
    """The version of Covey, which is that of the API and of the engine."""

    access: Access

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        self.access.require(req.actor, "build_info:build_info", Target(project_id=req.actor.project_id))
        revision = {"revision": version("covey")}
        resp.media = {"build_info": {"api": revision, "engine": revision}}


def _show(engine: Engine, *, up: bool) -> Json:
    return {
        "id": engine.id,
        "host": engine.host,
        "binary": "covey-worker",
        "topic": "covey-engine",
        "status": "enabled",
        "state": "up" if up else "down",
        "disabled_reason": None,
        "updated_at": views.time_of(engine.updated_at),
    }
