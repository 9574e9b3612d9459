"""/v1/services: the processes that carry actions out."""

from dataclasses import dataclass

import falcon

from covey.api.clustering import views
from covey.api.requests import Json, Request
from covey.model.clustering.actions import Engine
from covey.services.clustering.engines import Engines


@dataclass(frozen=True, slots=True)
class Services:
    """Only looked at: a process is there while it runs."""

    engines: Engines

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        resp.media = {"services": [_show(engine, up=up) for engine, up in self.engines.all(req.actor)]}


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
