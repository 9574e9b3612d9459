"""The index at /, /healthcheck and /metrics."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import falcon

from covey.api import metrics
from covey.api.metrics import Metrics
from covey.model.errors import Unavailable

_PINGS = 2  # at once


@dataclass(frozen=True, slots=True)
class Index:
    """GET /: the mounted APIs."""

    names: Sequence[str]

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        resp.media = {"covey": {name: f"{req.prefix}/{name}/" for name in self.names}}


@dataclass(slots=True)
class SharedPing:
    """Pings the database for a few requests at once. Others get the last result: anyone can send them."""

    ping: Callable[[], None]  # raises Unavailable
    _free: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(_PINGS))
    _failed: Unavailable | None = None

    def __call__(self) -> None:
        """Raise Unavailable unless the database answers."""
        if not self._free.acquire(blocking=False):
            if self._failed is not None:
                raise self._failed
            return
        try:
            self.ping()
            self._failed = None
        except Unavailable as error:
            self._failed = error
            raise
        finally:
            self._free.release()


@dataclass(frozen=True, slots=True)
class Health:
    """GET /healthcheck is 200 while the database answers; GET /healthcheck/live always is."""

    ping: SharedPing

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
