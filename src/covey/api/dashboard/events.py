"""/events: a stream that tells what changed, so that the page asks for what it shows anew."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus

import falcon
import msgspec

from covey.api.dashboard.answers import number
from covey.api.errors import plain_error
from covey.api.requests import Request
from covey.services.dashboard.change_poller import ChangePoller, Changes, Subscription

LONGEST_S = 300
_EVERY_S = 1.0
_ALIVE_S = 5.0  # after so long without news something is sent all the same: that is how a lost client is noticed
_COME_BACK_S = 5


class StreamLimit:
    """How many streams a process has; each keeps a thread."""

    def __init__(self, number: int) -> None:
        self._free = threading.Semaphore(number)

    def take(self) -> bool:
        """Whether there was one."""
        return self._free.acquire(blocking=False)

    def leave(self) -> None:
        self._free.release()


@dataclass(slots=True)
class Stream:
    """One reader. It waits in its own thread, with no lane and no transaction, and ends by itself."""

    poller: ChangePoller
    ears: Subscription
    seats: StreamLimit
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
        """The next piece; first a greeting, upon which the page asks for everything."""
        if self._number < 0:
            self._number, self._until = self.poller.position(), self.clock() + self.seconds
            return self._sent(_HELLO)
        while self._open and self.clock() < self._until and not self.stopping.wait(_EVERY_S):
            self._number, told = self.poller.since(self._number, self.ears)
            if told is None:
                return self._sent(_HELLO)
            if told:
                return self._sent(_events(told))
            if self.clock() - self._sent_at >= _ALIVE_S:
                return self._sent(_ALIVE)
        self.close()
        raise StopIteration

    def close(self) -> None:
        """Leave the seat, once; the server calls this when the client is gone, too."""
        if self._open:
            self._open = False
            self.seats.leave()

    def _sent(self, piece: bytes) -> bytes:
        self._sent_at = self.clock()
        return piece


@dataclass(frozen=True, slots=True)
class Events:
    """GET: a stream of server-sent events, or 503 when there are enough of them."""

    poller: ChangePoller
    seats: StreamLimit
    stopping: threading.Event

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        seconds = number(req, "seconds", LONGEST_S, LONGEST_S)
        ears = self.poller.subscribe(req.actor)
        resp.cache_control = ["no-store"]
        if not self.seats.take():
            resp.status = falcon.HTTP_503
            resp.retry_after = _COME_BACK_S
            message = "As many pages listen as may. Ask for what you show every few seconds, or come back later."
            resp.media = plain_error(HTTPStatus.SERVICE_UNAVAILABLE, message)
            return
        resp.content_type = "text/event-stream"
        resp.set_header("X-Accel-Buffering", "no")  # a proxy that gathers answers would hold news back
        resp.stream = Stream(self.poller, ears, self.seats, self.stopping, seconds)


def _events(told: Changes) -> bytes:
    return b"".join(
        f"event: {subject}\ndata: ".encode() + msgspec.json.encode({"ids": ids}) + b"\n\n"
        for subject, ids in told.items()
    )


_HELLO = b"event: hello\ndata: {}\n\n"
_ALIVE = b": still here\n\n"
