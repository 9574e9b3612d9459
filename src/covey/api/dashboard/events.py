"""/events: server-sent events of changes, upon which the page reloads its data."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus

import falcon
import msgspec

from covey.api.dashboard.responses import number
from covey.api.errors import plain_error
from covey.api.requests import Request
from covey.services.dashboard.change_poller import ChangePoller, Changes, Subscription

MAX_DURATION_S = 300
_POLL_INTERVAL_S = 1.0
_KEEPALIVE_S = 5.0  # a failed write reveals a lost client
_RETRY_AFTER_S = 5


class StreamLimit:
    """The maximum number of open streams of a process; each occupies a thread."""

    def __init__(self, number: int) -> None:
        self._free = threading.Semaphore(number)

    def take(self) -> bool:
        """Reserve a stream. Return False at the limit."""
        return self._free.acquire(blocking=False)

    def release(self) -> None:
        self._free.release()


@dataclass(slots=True)
class Stream:
    """One subscriber. It waits in its own thread, without a request slot or a transaction, for a limited time."""

    poller: ChangePoller
    subscription: Subscription
    limit: StreamLimit
    stopping: threading.Event
    seconds: float
    clock: Callable[[], float] = time.monotonic
    _number: int = -1
    _until: float = 0.0
    _sent_at: float = 0.0
    _open: bool = field(default=True)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        """Return the next event; first `hello`, upon which the page loads everything."""
        if self._number < 0:
            self._number, self._until = self.poller.position(), self.clock() + self.seconds
            return self._sent(_HELLO)
        while self._open and self.clock() < self._until and not self.stopping.wait(_POLL_INTERVAL_S):
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
            self.limit.release()

    def _sent(self, piece: bytes) -> bytes:
        self._sent_at = self.clock()
        return piece


@dataclass(frozen=True, slots=True)
class Events:
    """GET: a stream of server-sent events, or 503 at the limit."""

    poller: ChangePoller
    limit: StreamLimit
    stopping: threading.Event

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        seconds = number(req, "seconds", MAX_DURATION_S, MAX_DURATION_S)
        subscription = self.poller.subscribe(req.actor)
        resp.cache_control = ["no-store"]
        if not self.limit.take():
            resp.status = falcon.HTTP_503
            resp.retry_after = _RETRY_AFTER_S
            message = f"Too many open event streams; retry in {_RETRY_AFTER_S} seconds."
            resp.media = plain_error(HTTPStatus.SERVICE_UNAVAILABLE, message)
            return
        resp.content_type = "text/event-stream"
        resp.set_header("X-Accel-Buffering", "no")  # keeps a proxy from buffering events
        resp.stream = Stream(self.poller, subscription, self.limit, self.stopping, seconds)


def _events(changes: Changes) -> bytes:
    return b"".join(
        f"event: {subject}\ndata: ".encode() + msgspec.json.encode({"ids": ids}) + b"\n\n"
        for subject, ids in changes.items()
    )


_HELLO = b"event: hello\ndata: {}\n\n"
_KEEPALIVE = b": keepalive\n\n"
