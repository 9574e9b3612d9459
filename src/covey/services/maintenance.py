"""Periodic maintenance: removes rows that no process reads any more, and reports jobs that none can carry out."""

import threading
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from covey.ports import Clock
from covey.storage.store import Store, Transaction

log = structlog.get_logger()

_INTERVAL = timedelta(seconds=60)
CHANGES_KEPT = timedelta(minutes=40)  # a process that was idle for longer loads the whole fleet again
_MARK_INTERVAL = CHANGES_KEPT / 8
_ENGINES_KEPT = timedelta(hours=1)  # since their last heartbeat


@dataclass(slots=True)
class Maintenance:
    """Runs at an interval in every process with workers. Several at once do no harm: they delete the same rows."""

    store: Store
    clock: Clock
    _due_at: datetime | None = None
    _marks: deque[tuple[datetime, tuple[int, int]]] = field(default_factory=deque)  # in the change log, at past times
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run_if_due(self) -> None:
        """Run, unless the last run was less than the interval ago."""
        with self._lock:
            now = self.clock()
            if self._due_at is not None and now < self._due_at:
                return
            with self.store.write() as tx:
                tx.changes.delete_foreign()
                self._trim_change_log(tx, now)
                tx.clustering.engines.delete_older(now - _ENGINES_KEPT)
                unknown = tx.work.unknown_kinds()
            for kind, count in unknown.items():
                log.warning("work.unknown_kind", kind=kind, jobs=count)
            self._due_at = now + _INTERVAL

    def _trim_change_log(self, tx: Transaction, now: datetime) -> None:
        """Delete old rows of the fleet's change log. A reader that missed some notices, and loads the fleet again."""
        while self._marks and now - self._marks[0][0] >= CHANGES_KEPT:
            tx.changes.trim(self._marks.popleft()[1])
        if not self._marks or now - self._marks[-1][0] >= _MARK_INTERVAL:
            self._marks.append((now, tx.changes.mark()))
