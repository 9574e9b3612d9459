"""The fleet's change log is cleared of what everybody has read, or will not read any more."""

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from covey.services.live_fleet import IDLE_S
from covey.storage.store import Transaction

KEPT = timedelta(seconds=2 * IDLE_S)  # whoever did not look for half as long reads the whole fleet anew
_MARKED_EVERY = KEPT / 8


@dataclass(slots=True)
class LogClearing:
    """Remembers how far the log went at some times; what was there long ago can go."""

    _marks: deque[tuple[datetime, int]] = field(default_factory=deque)

    def clear(self, tx: Transaction, now: datetime) -> None:
        """To be called now and then."""
        while self._marks and now - self._marks[0][0] >= KEPT:
            tx.changes.clear(self._marks.popleft()[1])
        if not self._marks or now - self._marks[-1][0] >= _MARKED_EVERY:
            self._marks.append((now, tx.changes.newest()))
