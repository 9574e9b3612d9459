"""Request slots: how many requests of a process run Python at once.

A process has many threads, because most requests wait: for a commit, for a lock, for Keystone. Only one thread at a
time runs Python, and dozens of runnable threads spend more time on switching than on requests. So a request takes a
slot, and gives it up while it waits. A waiter that is ready gets a slot first and is woken then, in order.
"""

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class Waiter:
    """What one thread sleeps on until another thread wakes it, once."""

    __slots__ = ("_woken",)

    def __init__(self) -> None:
        self._woken = threading.Lock()
        self._woken.acquire()

    def sleep(self) -> None:
        self._woken.acquire()

    def wake(self) -> None:
        self._woken.release()


class RequestSlots:
    """A number of slots; by default without a limit."""

    def __init__(self, number: int = 1 << 30) -> None:
        self._free = number
        self._ready: deque[Waiter] = deque()
        self._lock = threading.Lock()

    @contextmanager
    def released(self) -> Iterator[None]:
        """Give up the slot while the block runs."""
        self._leave()
        try:
            yield
        finally:
            self._enter()

    def sleep(self, waiter: Waiter) -> None:
        """Give up the slot and sleep until the waiter is woken, with a slot again."""
        self._leave()
        waiter.sleep()

    def wake(self, waiter: Waiter) -> None:
        """Wake a waiter as soon as a slot is free for it."""
        with self._lock:
            if not self._free:
                self._ready.append(waiter)
                return
            self._free -= 1
        waiter.wake()

    def guard(self, app: "WSGIApplication") -> "WSGIApplication":
        """Return the application with a slot around every call."""

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
        waiter.wake()
