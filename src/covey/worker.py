"""The loop that carries out committed work. Rows hold what is left to do, so a worker may die at any point."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import groupby

import structlog

from covey.model.errors import CoveyError, Unavailable
from covey.model.servers import Server
from covey.model.work import Job, JobKind
from covey.ports import Clock
from covey.services.server_creation import LocalQueue
from covey.storage.store import Store

log = structlog.get_logger()

_BATCH_SIZE = 128  # jobs taken at once
_GATHER_S = 0.03


@dataclass(frozen=True, slots=True)
class Batch:
    """A handler that carries out all due jobs of its kind in one call."""

    run: Callable[[Sequence[Job]], None]


Handler = Callable[[Job], None] | Batch
"""Carries out jobs of one kind, one a call unless it is a Batch."""


@dataclass(slots=True)
class Worker:
    """Takes due jobs and carries them out. A job that it does not finish is due again when its lease ends."""

    store: Store
    clock: Clock
    handlers: Mapping[JobKind, Handler]
    start_servers: Callable[[Sequence[Server]], None]  # spawns what the local queue holds
    publish: Callable[[], int]  # publishes notifications of the outbox; returns how many
    local_queue: LocalQueue
    lease_s: float = 30.0
    poll_interval_s: float = 0.2
    periodic: Sequence[Callable[[], None]] = ()  # each keeps its own schedule
    wake: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Work until `stop` is set."""
        while not self.stop.is_set():
            try:
                for task in self.periodic:
                    task()
                done = self.run_once() + self.publish()
            except CoveyError as error:
                log.warning("worker.paused", reason=error.message)
                done = 0
            except Exception:
                log.exception("worker.crashed")
                done = 0
            # An iteration costs the same for one job as for many, so a busy worker lets a few gather.
            self.wake.wait(self.poll_interval_s if not done else _GATHER_S if done < _BATCH_SIZE else 0)
            self.wake.clear()

    def run_once(self) -> int:
        """Carry out what is due now. Return the number of jobs."""
        return self._start_local() + self._run_due()

    def _start_local(self) -> int:
        """Spawn servers that this process claimed. If that fails, their jobs are due for any worker after the lease."""
        servers = self.local_queue.take(_BATCH_SIZE)
        if servers:
            self.start_servers(servers)
        return len(servers)

    def _run_due(self) -> int:
        now = self.clock()
        with self.store.read() as tx:
            if not tx.work.any_due(now):
                return 0
        with self.store.write() as tx:
            jobs = tx.work.take(now, now + timedelta(seconds=self.lease_s), _BATCH_SIZE)
        for kind, group in groupby(sorted(jobs, key=lambda job: (job.kind, job.id)), key=lambda job: job.kind):
            self._run_kind(kind, list(group))
        return len(jobs)

    def _run_kind(self, kind: JobKind, jobs: list[Job]) -> None:
        handler = self.handlers[kind]
        if isinstance(handler, Batch):
            _attempt(handler.run, jobs)
        else:
            for job in jobs:
                _attempt(lambda single: handler(single[0]), [job])

    def start(self) -> threading.Thread:
        """Run in a daemon thread of this process."""
        self.local_queue.workers += 1
        thread = threading.Thread(target=self.run, name="covey-worker", daemon=True)
        thread.start()
        return thread


def _attempt(run: Callable[[Sequence[Job]], None], jobs: Sequence[Job]) -> None:
    """Carry jobs out. Those that fail are due again when their lease ends, and delay no others."""
    try:
        run(jobs)
    except Unavailable:
        raise  # without a database, the next job fails as well
    except CoveyError as error:
        subjects = [job.subject_id for job in jobs]
        log.warning("work.postponed", kind=jobs[0].kind, subjects=subjects, reason=error.message)
