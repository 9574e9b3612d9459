"""Calls of Keystone by requests: a few at once, each within the deadline of its request."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from keystoneauth1.exceptions import ConnectTimeout
from requests import Response

from covey.model.errors import Busy
from covey.request_slots import ProjectLimit, RequestSlots, time_left
from covey.timed_session import TimedSession

CALL_S = 3.0  # to connect, and then to each part of an answer
_LEAST_S = 0.1
_LONG_S = 60.0


class DeadlineSession(TimedSession):
    """A session whose parts of a response take no more than half of the remaining time: a call may be repeated once."""

    def request(self, url: str, method: str, **options: Any) -> Response:  # type: ignore[override]  # noqa: ANN401 -- its own
        most_s = CALL_S if self.timeout is None else self.timeout
        options.setdefault("timeout", max(min(most_s, time_left() / 2), _LEAST_S))
        return super().request(url, method, **options)


class DeadlineLock:
    """A lock for which a request waits up to its deadline: one thread renews Covey's own token, for all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(timeout=max(min(time_left(), _LONG_S), 0)):
            raise ConnectTimeout("no answer while another request asked")

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class KeystoneCalls:
    """How many requests call Keystone at once."""

    def __init__(self, request_slots: RequestSlots, most: int) -> None:
        self._slots = request_slots
        self._limit = ProjectLimit(most)

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Give up the request slot while the block calls Keystone. Raises Busy at the limit."""
        if not self._limit.take(None):
            raise Busy("Too many requests wait for the identity service. Retry in 1 second.")
        try:
            with self._slots.released():
                yield
        finally:
            self._limit.release(None)
