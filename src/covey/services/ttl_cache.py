"""Things that were looked up a moment ago, for requests that come by the thousand."""

import time
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_MOST = 10_000


class TtlCache(Generic[K, V]):
    """Remembers what a look-up gave, for a short while. What it raised is not remembered."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._known: dict[K, tuple[float, V]] = {}

    def get(self, key: K, look_up: Callable[[], V]) -> V:
        """The value of a moment ago, or a fresh one."""
        now = self._clock()
        known = self._known.get(key)
        if known is not None and now < known[0]:
            return known[1]
        value = look_up()
        if len(self._known) >= _MOST:
            self._known = {}
        self._known[key] = (now + self._seconds, value)
        return value
