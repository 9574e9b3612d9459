"""Password checks, a few at once: bcrypt takes a fifth of a second of a CPU, and anyone can send wrong passwords."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from covey import cpu_affinity
from covey.model.errors import Busy
from covey.request_slots import RequestSlots

T = TypeVar("T")

_AT_ONCE = 2
_MAX_QUEUED = 8  # different passwords, with those that are checked


class PasswordChecks(Generic[T]):
    """Runs checks outside the request slots. Equal passwords share a check."""

    def __init__(self, request_slots: RequestSlots, max_threads: int) -> None:
        self._slots = request_slots
        self._free_threads = max_threads
        self._lock = threading.Lock()
        self._at_once = threading.Semaphore(_AT_ONCE)
        self._queued: dict[bytes, Future[T]] = {}

    @property
    def idle(self) -> bool:
        """Whether a check would start at once."""
        return len(self._queued) < _AT_ONCE

    def run(self, key: bytes, check: Callable[[], T]) -> T:
        """Return the result of the check, or of one that runs for the same key. Raises Busy beyond the limits."""
        with self._lock:
            result = self._queued.get(key)
            if not self._free_threads or (result is None and len(self._queued) >= _MAX_QUEUED):
                raise Busy("Too many passwords are being checked. Retry in 1 second.")
            self._free_threads -= 1
            is_first = result is None
            if result is None:
                result = self._queued[key] = Future()
        try:
            with self._slots.released(), cpu_affinity.unpinned():
                if is_first:
                    self._complete(result, check)
                return result.result()
        finally:
            with self._lock:
                self._free_threads += 1
                if is_first:
                    del self._queued[key]

    def _complete(self, result: Future[T], check: Callable[[], T]) -> None:
        try:
            with self._at_once:
                result.set_result(check())
        except BaseException as error:  # noqa: BLE001 -- raised by result(), in all threads that wait
            result.set_exception(error)
