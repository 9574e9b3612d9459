"""/events: server-sent events of changes, upon which the page reloads its data."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

import falcon
import msgspec

from covey.api.authentication import Authenticator
from covey.api.dashboard.responses import number
from covey.api.errors import plain_error
from covey.api.requests import Request
from covey.model.errors import CoveyError
from covey.request_slots import ProjectLimit
from covey.services.dashboard.change_poller import ChangePoller, Changes, Subscription

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

MAX_DURATION_S = 300
_POLL_INTERVAL_S = 1.0
_KEEPALIVE_S = 5.0  # a failed write reveals a lost client
_CHECK_INTERVAL_S = 2.0  # between checks that the subscriber is not revoked
_RETRY_AFTER_S = 5


@dataclass(slots=True)
class Stream:
    """One subscriber. It waits in its own thread, without a request slot or a transaction, for a limited time."""

    poller: ChangePoller
    subscription: Subscription
    limit: ProjectLimit
    project: str | None
    stopping: threading.Event
    seconds: float
    is_current: Callable[[], bool]  # whether the subscriber still has the rights of the subscription
    clock: Callable[[], float] = time.monotonic
    _number: int = -1
    _until: float = 0.0
    _sent_at: float = 0.0
    _checked_at: float = 0.0
    _open: bool = field(default=True)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        """Return the next event; first `hello`, upon which the page loads everything."""
        if self._number < 0:
            self._number, self._until = self.poller.position(), self.clock() + self.seconds
            self._checked_at = self.clock()
            return self._sent(_HELLO)
        while self._open and self.clock() < self._until and not self.stopping.wait(_POLL_INTERVAL_S):
            if not self._is_authorized():
                break
            self._number, changes = self.poller.since(self._number, self.subscription)
            if changes is None:
                return self._sent(_HELLO)
            if changes:
                return self._sent(_events(changes))
            if self.clock() - self._sent_at >= _KEEPALIVE_S:
                return self._sent(_KEEPALIVE)
        self.close()
        raise StopIteration

    def close(self) -> None:
        """End the stream. The server calls this as well when the client disconnects."""
        if self._open:
            self._open = False
            self.limit.release(self.project)

    def _is_authorized(self) -> bool:
        if self.clock() - self._checked_at < _CHECK_INTERVAL_S:
            return True
        self._checked_at = self.clock()
        return self.is_current()

    def _sent(self, piece: bytes) -> bytes:
        self._sent_at = self.clock()
        return piece


@dataclass(frozen=True, slots=True)
class Events:
    """GET: a stream of server-sent events, or 503 at the limit."""

    poller: ChangePoller
    limit: ProjectLimit
    stopping: threading.Event
    authenticate: Authenticator

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        seconds = number(req, "seconds", MAX_DURATION_S, MAX_DURATION_S)
        subscription = self.poller.subscribe(req.actor)
        resp.cache_control = ["no-store"]
        project = req.actor.project_id
        if not self.limit.take(project):
            resp.status = falcon.HTTP_503
            resp.retry_after = _RETRY_AFTER_S
            message = f"Too many open event streams; retry in {_RETRY_AFTER_S} seconds."
            resp.media = plain_error(HTTPStatus.SERVICE_UNAVAILABLE, message)
            return
        resp.content_type = "text/event-stream"
        resp.set_header("X-Accel-Buffering", "no")  # keeps a proxy from buffering events
        is_current = partial(self._is_current, req.env, subscription)
        resp.stream = Stream(self.poller, subscription, self.limit, project, self.stopping, seconds, is_current)

    def _is_current(self, environ: "WSGIEnvironment", subscription: Subscription) -> bool:
        """Return whether the credentials of a request still give the subscription; False if that is unknown."""
        try:
            return self.poller.subscribe(self.authenticate(environ)) == subscription
        except CoveyError:
            return False


def _events(changes: Changes) -> bytes:
    return b"".join(
        f"event: {subject}\ndata: ".encode() + msgspec.json.encode({"ids": ids}) + b"\n\n"
        for subject, ids in changes.items()
    )


_HELLO = b"event: hello\ndata: {}\n\n"
_KEEPALIVE = b": keepalive\n\n"
