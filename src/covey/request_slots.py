"""Lanes: how many requests of a process run Python at once.

A process has many threads, since most requests wait: for a commit, for a lock, for Keystone. But only one thread
at a time runs Python, and dozens that want to spend more time on taking turns than on their requests. So a request
takes a lane, and steps aside whenever it waits for something long. Who is ready to go on is given a lane first and
woken then, in the order in which they became ready.
"""

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class Waiter:
    """What a thread sleeps on until somebody wakes it, once."""

    __slots__ = ("_woken",)

    def __init__(self) -> None:
        self._woken = threading.Lock()
        self._woken.acquire()

    def sleep(self) -> None:
        self._woken.acquire()

    def end(self) -> None:
        self._woken.release()


class RequestSlots:
    """A number of lanes; by default there is room for everybody."""

    def __init__(self, number: int = 1 << 30) -> None:
        self._free = number
        self._ready: deque[Waiter] = deque()
        self._lock = threading.Lock()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Leave one's lane to others while the block runs."""
        self._leave()
        try:
            yield
        finally:
            self._enter()

    def sleep(self, waiter: Waiter) -> None:
        """Leave one's lane until somebody wakes this nap; then one has a lane again."""
        self._leave()
        waiter.sleep()

    def wake(self, waiter: Waiter) -> None:
        """End a nap as soon as there is a lane for who sleeps."""
        with self._lock:
            if not self._free:
                self._ready.append(waiter)
                return
            self._free -= 1
        waiter.end()

    def guard(self, app: "WSGIApplication") -> "WSGIApplication":
        """The same application, whose every call takes a lane."""

        def guarded(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
            self._enter()
            try:
                return app(environ, start_response)
            finally:
                self._leave()

        return guarded

    def _enter(self) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            waiter = Waiter()
            self._ready.append(waiter)
        waiter.sleep()

    def _leave(self) -> None:
        with self._lock:
            if not self._ready:
                self._free += 1
                return
            waiter = self._ready.popleft()
        waiter.end()
