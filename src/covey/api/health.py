"""The index at /, /healthcheck and /metrics."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import falcon

from covey.api import metrics
from covey.model.errors import Busy, Unavailable

MAX_PAGE_WAITS = 4
_PINGS = 2  # at once
_PAGE_S = 1.0


@dataclass(frozen=True, slots=True)
class Index:
    """GET /: the mounted APIs."""

    names: Sequence[str]

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        resp.media = {"covey": {name: f"{req.prefix}/{name}/" for name in self.names}}


@dataclass(slots=True)
class SharedPing:
    """Pings the database for a few requests at once. Others get the last result, since anyone can request it."""

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


@dataclass(slots=True)
class SharedPage:
    """A page that one thread builds once a second, while a few others wait for it, since anyone can request it."""

    build: Callable[[], bytes]
    clock: Callable[[], float] = time.monotonic
    waiting: int = 0
    _last: tuple[bytes, float] | None = None  # with the time of its build
    _count: threading.Lock = field(default_factory=threading.Lock)
    _building: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self) -> bytes:
        """Return the page of this second, or the last one if too many wait. Raises Busy if there is none yet."""
        page = self._fresh()
        if page is not None:
            return page
        with self._count:
            if self.waiting >= MAX_PAGE_WAITS:
                if self._last is None:
                    raise Busy("Too many requests wait for this page. Retry in 1 second.")
                return self._last[0]
            self.waiting += 1
        try:
            with self._building:
                return self._fresh() or self._build()
        finally:
            with self._count:
                self.waiting -= 1

    def _fresh(self) -> bytes | None:
        last = self._last
        return last[0] if last is not None and self.clock() - last[1] < _PAGE_S else None

    def _build(self) -> bytes:
        began = self.clock()
        page = self.build()
        self._last = page, began
        return page


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

    page: SharedPage

    def on_get(self, _: falcon.Request, resp: falcon.Response) -> None:
        resp.content_type = metrics.CONTENT_TYPE
        resp.data = self.page()
