"""Carries notes from the outbox to whoever listens: in their order, and at least once."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from covey.model.errors import Unavailable
from covey.model.work import Notification
from covey.ports import Notifier
from covey.storage.store import Store

log = structlog.get_logger()

_MOST = 128  # notes told at once
_BUDGET_S = 1.0  # for which a worker, who has other things to do, waits for them
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 10.0


@dataclass(slots=True)
class Sender:
    """A note is forgotten after it was told, so a crash in between tells it once more, and loses nothing.

    Workers of one process may share it. When nobody takes a note, it pauses, longer each time.
    """

    store: Store
    notifier: Notifier
    monotonic: Callable[[], float] = time.monotonic
    _resume_at: float = field(default=float("-inf"), init=False)
    _pause_s: float = field(default=_FIRST_PAUSE_S, init=False)

    def __call__(self) -> int:
        """Tell the oldest notes, unless somebody else is at it; tells how many that were."""
        if self.monotonic() < self._resume_at:
            return 0
        with self.store.read() as tx:
            if tx.outbox.is_empty():
                return 0
        with self.store.read() as tx, tx.outbox.publisher_lock() as acquired:
            return self._tell_oldest() if acquired else 0

    def _tell_oldest(self) -> int:
        with self.store.read() as tx:
            notes = tx.outbox.oldest(_MOST)
        told: list[int] = []
        try:
            self._tell(notes, told)
            self._pause_s = _FIRST_PAUSE_S
        except Unavailable as nobody:
            self._pause(nobody, notes[len(told)])
        finally:
            if told:
                with self.store.write() as tx:
                    tx.outbox.published(told)
        return len(told)

    def _tell(self, notes: Sequence[Notification], told: list[int]) -> None:
        enough_at = self.monotonic() + _BUDGET_S
        for note in notes:
            self.notifier.send(note)
            told.append(note.id)
            if self.monotonic() > enough_at:
                return

    def _pause(self, why: Unavailable, oldest: Notification) -> None:
        log.warning("notifications.waiting", reason=why.message, since=str(oldest.created_at), pause_s=self._pause_s)
        self._resume_at = self.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
