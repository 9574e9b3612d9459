"""A pool of threads for calls of the driver, which may take long."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


class CallPool:
    """Makes several calls at once; of size 1 it makes one after the other, without threads."""

    def __init__(self, size: int = 1) -> None:
        self._executor = ThreadPoolExecutor(size, "covey-call") if size > 1 else None

    def map(self, call: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return the result of each call, in the order of the items. Raises what the first failing call raises."""
        if self._executor is None or len(items) == 1:
            return [call(item) for item in items]
        return list(self._executor.map(call, items))
