"""The index at /, /healthcheck and /metrics."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import falcon

from covey.api import metrics
from covey.api.metrics import Metrics
from covey.model.errors import Unavailable


@dataclass(frozen=True, slots=True)
class Index:
    """GET /: the mounted APIs."""

    names: Sequence[str]

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        resp.media = {"covey": {name: f"{req.prefix}/{name}/" for name in self.names}}


@dataclass(frozen=True, slots=True)
class Health:
    """GET /healthcheck is 200 while the database answers; GET /healthcheck/live always is."""

    ping: Callable[[], None]  # raises Unavailable

    def on_get(self, _: falcon.Request, resp: falcon.Response) -> None:
        try:
            self.ping()
        except Unavailable as error:
            resp.status = falcon.HTTP_503
            resp.media = {"status": "unavailable", "database": error.message}
        else:
            resp.media = {"status": "ok", "database": "ok"}

    def on_get_live(self, _: falcon.Request, resp: falcon.Response) -> None:
        resp.media = {"status": "ok"}


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """GET /metrics, for Prometheus."""

    metrics: Metrics

    def on_get(self, _: falcon.Request, resp: falcon.Response) -> None:
        resp.content_type = metrics.CONTENT_TYPE
        resp.data = self.metrics.text()
