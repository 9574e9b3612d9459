"""Waits between two attempts: longer each time, and not at the same moment on every host."""

import random
import threading
from dataclasses import dataclass, field


@dataclass(slots=True)
class Backoff:
    """Doubles from `first_s` to `longest_s`; a third of each wait is random."""

    stopping: threading.Event
    first_s: float = 0.5
    longest_s: float = 15.0
    _next_s: float = field(default=0.0, init=False)

    def wait(self) -> bool:
        """Wait. Return False if the agent is to stop."""
        self._next_s = min(self.longest_s, 2 * self._next_s or self.first_s)
        return not self.stopping.wait(self._next_s * random.uniform(2 / 3, 1))  # noqa: S311 -- not for secrets

    def reset(self) -> None:
        """Begin with the shortest wait again."""
        self._next_s = 0.0
