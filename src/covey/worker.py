"""The loop that carries out committed work. Rows hold what is left to do, so a worker may die at any point."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import structlog

from covey.model.errors import CoveyError, LeaseLost, OperationInProgress, Unavailable
from covey.model.servers import Server
from covey.model.work import Job, JobKind
from covey.services.call_pool import CallPool
from covey.services.leases import Leases
from covey.services.server_creation import LocalQueue
from covey.storage.store import Store

log = structlog.get_logger()

LARGE_BATCH, SMALL_BATCH = 128, 32  # of the local queue, for a driver that is instant and for another one
_BATCH = 16  # jobs taken at once: a worker that dies delays no more than these
_GATHER_S = 0.03
_MAX_DELAY_S = 300.0
_UNEXPECTED = "An unexpected error occurred; the service's log has the details."


@dataclass(frozen=True, slots=True)
class Batch:
    """A handler that carries out all due jobs of its kind in one call."""

    run: Callable[[Sequence[Job]], None]


Handler = Callable[[Job], None] | Batch
"""Carries out jobs of one kind, one a call unless it is a Batch."""


@dataclass(slots=True)
class Worker:
    """Takes due jobs and carries them out.

    A job that fails is due again after a while, longer after each failure; after `max_attempts` it is parked. One whose
    operation is in progress is due again later, and has not failed. The jobs of a worker that dies are due again when
    their leases end.
    """

    store: Store
    leases: Leases
    handlers: Mapping[JobKind, Handler]
    start_servers: Callable[[Sequence[tuple[Job, Server]]], None]  # spawns what the local queue held
    publish: Callable[[], int]  # publishes notifications of the outbox; returns how many
    local_queue: LocalQueue
    pool: CallPool = field(default_factory=CallPool)
    local_batch: int = SMALL_BATCH  # servers of this process that are spawned at once, under leases held together
    max_attempts: int = 10
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
            self.wake.wait(self.poll_interval_s if not done else _GATHER_S if done < _BATCH else 0)
            self.wake.clear()

    def run_once(self) -> int:
        """Carry out what is due now. Return the number of jobs."""
        return self._start_local() + self._run_due()

    def _start_local(self) -> int:
        """Spawn servers that this process claimed. If that fails, their jobs are due for any worker after the lease."""
        taken = self.local_queue.take(self.local_batch)
        if taken:
            servers: dict[str, Server] = {server.id: server for _, server in taken}
            jobs = [Job(JobKind.SPAWN, server) for server in servers]
            with self.leases.held(jobs, min(since for since, _ in taken)):
                self._attempt(lambda some: self.start_servers([(job, servers[job.subject_id]) for job in some]), jobs)
        return len(taken)

    def _run_due(self) -> int:
        with self.store.read_once() as tx:
            if not tx.work.any_due():
                return 0
        since = time.monotonic()
        with self.store.write() as tx:
            jobs = tx.work.take(self.leases.lease_s, _BATCH)
        with self.leases.held(jobs, since):
            for kind, group in groupby(sorted(jobs, key=lambda job: job.kind), key=lambda job: job.kind):
                self._run_kind(self.handlers[kind], list(group))
        return len(jobs)

    def _run_kind(self, handler: Handler, jobs: list[Job]) -> None:
        if isinstance(handler, Batch):
            self._attempt(handler.run, jobs)
        else:
            self.pool.map(lambda job: self._attempt(lambda single: handler(single[0]), [job]), jobs)

    def _attempt(self, run: Callable[[Sequence[Job]], None], jobs: Sequence[Job]) -> None:
        """Carry jobs out. Those that fail delay no others."""
        try:
            run(jobs)
        except Unavailable:
            raise  # without a database, the next job fails as well
        except LeaseLost as lost:
            log.warning("work.lease_lost", kind=jobs[0].kind, reason=lost.message)
        except OperationInProgress as operation:
            with self.store.write() as tx:
                tx.work.postpone(jobs, operation.after_s)
        except CoveyError as error:
            self._fail(jobs, error.message)
        except Exception:
            log.exception("work.crashed", kind=jobs[0].kind, subjects=[job.subject_id for job in jobs])
            if len(jobs) == 1:
                self._fail(jobs, _UNEXPECTED)
            else:
                for job in jobs:  # one of them crashes; the others continue
                    self._attempt(run, [job])

    def _fail(self, jobs: Sequence[Job], error: str) -> None:
        for job in jobs:
            failure = {"kind": job.kind, "subject": job.subject_id, "attempts": job.attempts, "reason": error}
            with self.store.write() as tx:
                if job.attempts >= self.max_attempts:
                    log.error("work.parked", **failure)
                    tx.work.park(job, error)
                else:
                    log.warning("work.postponed", **failure)
                    tx.work.retry(job, error, min(2.0**job.attempts, _MAX_DELAY_S))

    def start(self) -> threading.Thread:
        """Run in a daemon thread of this process."""
        self.leases.start()
        self.local_queue.workers += 1
        thread = threading.Thread(target=self.run, name="covey-worker", daemon=True)
        thread.start()
        return thread
