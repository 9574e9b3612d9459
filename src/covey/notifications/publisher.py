"""Publishes notifications from the outbox: in order, and at least once."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from covey.model.errors import Unavailable
from covey.model.work import Notification
from covey.ports import Notifier
from covey.storage.store import Store

log = structlog.get_logger()

_BATCH_SIZE = 128
_BUDGET_S = 1.0  # after which a worker returns to its jobs
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 10.0


@dataclass(slots=True)
class Publisher:
    """Deletes a notification after it is sent, so a crash in between sends it again and loses nothing.

    Workers of one process may share it. While the notifier is unavailable, its pauses grow.
    """

    store: Store
    notifier: Notifier
    monotonic: Callable[[], float] = time.monotonic
    _resume_at: float = field(default=float("-inf"), init=False)
    _pause_s: float = field(default=_FIRST_PAUSE_S, init=False)

    def __call__(self) -> int:
        """Publish the oldest notifications, unless another process does. Return how many were sent."""
        if self.monotonic() < self._resume_at:
            return 0
        with self.store.read_once() as tx:
            if tx.outbox.is_empty():
                return 0
        with self.store.read() as tx, tx.outbox.publisher_lock() as acquired:
            return self._publish_oldest() if acquired else 0

    def _publish_oldest(self) -> int:
        with self.store.read() as tx:
            notifications = tx.outbox.oldest(_BATCH_SIZE)
        sent: list[int] = []
        try:
            self._send(notifications, sent)
            self._pause_s = _FIRST_PAUSE_S
        except Unavailable as error:
            self._pause(error, notifications[len(sent)])
        finally:
            if sent:
                with self.store.write() as tx:
                    tx.outbox.published(sent)
        return len(sent)

    def _send(self, notifications: Sequence[Notification], sent: list[int]) -> None:
        stop_at = self.monotonic() + _BUDGET_S
        for notification in notifications:
            self.notifier.send(notification)
            sent.append(notification.id)
            if self.monotonic() > stop_at:
                return

    def _pause(self, error: Unavailable, oldest: Notification) -> None:
        log.warning("notifications.waiting", reason=error.message, since=str(oldest.created_at), pause_s=self._pause_s)
        self._resume_at = self.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
