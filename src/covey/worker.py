"""The loop that carries out committed work. Rows say what is left to do, so a worker may die at any point."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import groupby

import structlog

from covey.model.errors import CoveyError, Unavailable
from covey.model.work import Job
from covey.ports import Clock
from covey.services.builds import Builds
from covey.services.clustering.engine.executor import Executor
from covey.services.clustering.requests import JOB
from covey.services.local_queue import LocalQueue
from covey.services.rebalance_steps import RebalanceSteps
from covey.services.server_tasks import ServerTasks
from covey.storage.store import Store

log = structlog.get_logger()

_MOST = 128  # jobs taken at once
_GATHER_S = 0.03


@dataclass(slots=True)
class Worker:
    """Takes jobs that are due; what it does not finish is due again when its lease is over."""

    store: Store
    clock: Clock
    builds: Builds
    server_tasks: ServerTasks
    rebalances: RebalanceSteps
    executor: Executor
    send: Callable[[], int]  # tells what the outbox holds; how much that was
    local_queue: LocalQueue
    lease_s: float = 30.0
    idle_s: float = 0.2
    beat: Callable[[], None] = lambda: None  # says that this process is there
    wake: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Work until told to stop."""
        while not self.stop.is_set():
            try:
                self.beat()
                done = self.once() + self.send()
            except CoveyError as error:
                log.warning("worker.paused", reason=error.message)
                done = 0
            except Exception:
                log.exception("worker.crashed")
                done = 0
            # A turn costs the same for one job as for many, so a busy worker lets a few gather.
            self.wake.wait(self.idle_s if not done else _GATHER_S if done < _MOST else 0)
            self.wake.clear()

    def once(self) -> int:
        """Do what is due now; tells how many jobs that were."""
        return self._start_own() + self._do_due()

    def _start_own(self) -> int:
        """What this process claimed; if that fails, the jobs are due for anybody when their lease is over."""
        servers = self.local_queue.take(_MOST)
        if servers:
            self.builds.start(servers)
        return len(servers)

    def _do_due(self) -> int:
        now = self.clock()
        with self.store.read() as tx:
            if not tx.work.any_due(now):
                return 0
        with self.store.write() as tx:
            jobs = tx.work.take(now, now + timedelta(seconds=self.lease_s), _MOST)
        for verb, some in groupby(sorted(jobs, key=lambda job: (job.verb, job.id)), key=lambda job: job.verb):
            if verb == "spawn":
                self._try(verb, list(some))
            else:
                for job in some:
                    self._try(verb, [job])
        return len(jobs)

    def _try(self, verb: str, jobs: list[Job]) -> None:
        """What can't be done now is due again when its lease is over, and holds up nothing else."""
        try:
            self._do(verb, jobs)
        except Unavailable:
            raise  # the others would fare no better
        except CoveyError as error:
            log.warning("work.postponed", verb=verb, servers=[job.server_id for job in jobs], reason=error.message)

    def _do(self, verb: str, jobs: list[Job]) -> None:
        match verb:
            case "spawn":
                self.builds.spawn(jobs)
            case "destroy":
                self.builds.destroy(jobs)
            case "rebalance":
                for job in jobs:
                    self.rebalances.turn(job)
            case _ if verb == JOB:
                for job in jobs:
                    self.executor.turn(job)
            case _:
                one: Callable[[Job], None] = getattr(self.server_tasks, verb)
                for job in jobs:
                    one(job)

    def start(self) -> threading.Thread:
        """Run in a thread of this process, which does not keep the process alive."""
        self.local_queue.takers += 1
        thread = threading.Thread(target=self.run, name="covey-worker", daemon=True)
        thread.start()
        return thread
