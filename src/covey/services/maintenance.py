"""Periodic maintenance: removes rows that no process reads any more, and reports jobs that none can carry out."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from covey.model.errors import TooLarge, Unavailable
from covey.ports import Clock
from covey.services.images import end_lost_uploads
from covey.storage.image_files import ImageFiles
from covey.storage.store import Store, Transaction

log = structlog.get_logger()

_INTERVAL = timedelta(seconds=60)
CHANGES_KEPT = timedelta(minutes=40)  # a process that was idle for longer loads the whole fleet again
_MARK_INTERVAL = CHANGES_KEPT / 8
DELETED_KEPT = timedelta(days=30)  # the instance actions of a deleted server
KEYS_KEPT = timedelta(hours=24)  # idempotency keys, since their first use
REFUSALS_KEPT = timedelta(days=30)  # of instances that another service schedules
CALLS_KEPT_S = 600.0  # of a request, which waits for seconds only
UPLOADS_KEPT_S = 3600.0  # files of uploads without a lease: another version of the service may write them
_MAX_REFUSALS = 10_000
_BATCHES = 20  # of deletions from the history of clusters, in one run
_ENGINES_KEPT = timedelta(hours=1)  # since their last heartbeat


@dataclass(slots=True)
class Maintenance:
    """Runs at an interval in every process with workers. Several at once do no harm: they delete the same rows."""

    store: Store
    clock: Clock
    report_parked: Callable[[int], None] = lambda _: None  # receives the number of parked jobs
    report_nova_read: Callable[[datetime], None] = lambda _: None  # receives the time of the last reading of Nova
    history_kept: timedelta = timedelta(days=30)  # actions on clusters, and events
    max_history: int = 100_000  # of a project
    files: ImageFiles = field(default_factory=ImageFiles)
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
                tx.servers.forget_deleted(now - DELETED_KEPT)
                tx.keys.purge(now - KEYS_KEPT)
                tx.agent_calls.delete_lost(CALLS_KEPT_S)
                tx.instance_refusals.trim(now - REFUSALS_KEPT, _MAX_REFUSALS)
                tx.clustering.engines.delete_older(now - _ENGINES_KEPT)
                unknown, parked = tx.work.unknown_kinds(), tx.work.count_parked()
                nova = tx.nova_mirror.state()
            self._trim_history(now)
            self._delete_lost_uploads()
            self.report_parked(parked)
            if nova is not None and nova.read_at is not None:
                self.report_nova_read(nova.read_at)
            for kind, count in unknown.items():
                log.warning("work.unknown_kind", kind=kind, jobs=count)
            self._due_at = now + _INTERVAL

    def _delete_lost_uploads(self) -> None:
        """Give back the images of lost uploads. Delete files of uploads that have no lease, once they are silent.

        The files are listed before the leases: an upload has its lease before it has a file.
        """
        try:
            with self.store.write() as tx:
                end_lost_uploads(tx, self.files)
            if silent := self.files.silent_uploads(UPLOADS_KEPT_S):
                with self.store.read() as tx:
                    live = tx.images.uploads()
                for upload in silent - live:
                    self.files.discard(upload)
        except (TooLarge, Unavailable) as error:
            log.warning("images.not_swept", error=str(error))

    def _trim_history(self, now: datetime) -> None:
        for _ in range(_BATCHES):
            with self.store.write() as tx:
                if not tx.clustering.history.trim(now - self.history_kept, self.max_history):
                    return

    def _trim_change_log(self, tx: Transaction, now: datetime) -> None:
        """Delete old rows of the fleet's change log. A reader that missed some notices, and loads the fleet again."""
        while self._marks and now - self._marks[0][0] >= CHANGES_KEPT:
            tx.changes.trim(self._marks.popleft()[1])
        if not self._marks or now - self._marks[-1][0] >= _MARK_INTERVAL:
            self._marks.append((now, tx.changes.mark()))
