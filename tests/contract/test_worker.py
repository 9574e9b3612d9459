"""The worker: a job that fails or has an unknown kind does not delay other jobs."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa
from structlog.testing import CapturingLogger

from covey.model.errors import DriverFault, OperationInProgress
from covey.model.work import Job, JobKind, ParkedJob
from covey.services import maintenance
from covey.services.leases import Leases
from covey.services.server_creation import LocalQueue
from covey.storage import tables
from covey.storage.store import Store
from covey.worker import Batch, Handler, Worker
from tests.build import LATER, NOW


class Recorder:
    """Runs every job, but fails for one subject."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.done: list[tuple[str, str]] = []
        self.fails = True

    def handlers(self) -> dict[JobKind, Handler]:
        handlers: dict[JobKind, Handler] = dict.fromkeys(JobKind, self.run)
        return handlers | {JobKind.SPAWN: Batch(self.run_all)}

    def run(self, job: Job) -> None:
        self.run_all([job])

    def run_all(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if job.subject_id == "unlucky" and self.fails:
                raise DriverFault("not now")
            if job.subject_id.startswith("poison"):
                raise ZeroDivisionError
        self.done += [(job.kind, job.subject_id) for job in jobs]
        with self._store.write() as tx:
            tx.work.done(jobs)


class Time:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def a_worker(store: Store, recorder: Recorder) -> Worker:
    return Worker(store, Leases(store, 30), recorder.handlers(), lambda _: None, lambda: 0, LocalQueue(30))


def test_failed_job_is_postponed_and_other_jobs_run(store: Store) -> None:
    recorder = Recorder(store)
    worker = a_worker(store, recorder)
    with store.write() as tx:
        for kind, subject in (
            (JobKind.DESTROY, "unlucky"),
            (JobKind.DESTROY, "a"),
            (JobKind.MOVE, "b"),
            (JobKind.REVERT, "c"),
            (JobKind.SPAWN, "d"),
        ):
            tx.work.add(kind, subject)
    assert worker.run_once() == 5
    assert sorted(recorder.done) == [("destroy", "a"), ("move", "b"), ("revert", "c"), ("spawn", "d")]
    assert worker.run_once() == 0, "a failed job is due after a while"


def test_crash_of_one_job_delays_no_other(store: Store) -> None:
    recorder = Recorder(store)
    worker = a_worker(store, recorder)
    with store.write() as tx:
        for kind, subject in (
            (JobKind.SPAWN, "a"),
            (JobKind.SPAWN, "poison"),
            (JobKind.SPAWN, "b"),
            (JobKind.MOVE, "poison 2"),
            (JobKind.MOVE, "c"),
        ):
            tx.work.add(kind, subject)
    assert worker.run_once() == 5
    assert sorted(recorder.done) == [("move", "c"), ("spawn", "a"), ("spawn", "b")]


def test_job_that_fails_too_often_is_parked_and_can_be_retried(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time()
    monkeypatch.setattr(store, "clock", time)
    recorder = Recorder(store)
    worker = a_worker(store, recorder)
    with store.write() as tx:
        tx.work.add(JobKind.DESTROY, "unlucky")
    delays = []
    for _ in range(worker.max_attempts):
        waited = 0
        while worker.run_once() == 0:
            time.advance(1)
            waited += 1
        delays.append(waited)
    assert delays == [0, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    time.advance(10**6)
    assert worker.run_once() == 0
    with store.write() as tx:
        assert tx.work.parked(10) == [ParkedJob("destroy", "unlucky", 10, "not now")]
        tx.work.add(JobKind.MOVE, "unlucky")
    assert worker.run_once() == 1, "a parked job holds up no other job of its subject"
    recorder.fails = False
    with store.write() as tx:
        assert tx.work.unpark() == 1
    assert worker.run_once() == 1
    assert recorder.done == [("destroy", "unlucky")]


def test_job_whose_operation_is_in_progress_has_not_failed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    time, runs = Time(), []
    monkeypatch.setattr(store, "clock", time)

    def run(job: Job) -> None:
        runs.append(job)
        raise OperationInProgress(60)

    worker = Worker(store, Leases(store, 30), dict.fromkeys(JobKind, run), lambda _: None, lambda: 0, LocalQueue(30))
    with store.write() as tx:
        tx.work.add(JobKind.MOVE, "a")
        tx.work.add(JobKind.DESTROY, "a")
    for _ in range(2 * worker.max_attempts):
        assert worker.run_once() == 1
        assert worker.run_once() == 0
        time.advance(60)
    assert {(job.kind, job.attempts) for job in runs} == {(JobKind.MOVE, 1)}, "the next job of the server waits"
    assert len({job.epoch for job in runs}) == len(runs)


@pytest.mark.parametrize("leased", [False, True])
def test_woken_job_is_due_at_once(store: Store, monkeypatch: pytest.MonkeyPatch, leased: bool) -> None:
    """Also if the worker that postpones it has not done so yet."""
    monkeypatch.setattr(store, "clock", Time())
    with store.write() as tx:
        tx.work.add(JobKind.MOVE, "a")
        jobs = tx.work.take(30, 16)
    with store.write() as tx:
        for step in (tx.work.wake_subject, lambda _: tx.work.postpone(jobs, 60))[:: 1 if leased else -1]:
            step("a")
    with store.write() as tx:
        (job,) = tx.work.take(30, 16)
        tx.work.postpone([job], 60)
    with store.write() as tx:
        assert tx.work.take(30, 16) == [], "a job is woken once"


def test_jobs_of_one_subject_run_in_their_order(store: Store) -> None:
    with store.write() as tx:
        for kind, subject in ((JobKind.MOVE, "a"), (JobKind.DESTROY, "a"), (JobKind.SHELVE, "b")):
            tx.work.add(kind, subject)
    with store.write() as tx:
        move, shelve = tx.work.take(30, 16)
    assert [(move.kind, move.subject_id), (shelve.kind, shelve.subject_id)] == [("move", "a"), ("shelve", "b")]
    with store.write() as tx:
        assert tx.work.take(30, 16) == []
        assert tx.work.complete(move)
        assert [job.kind for job in tx.work.take(30, 16)] == ["destroy"]


def test_lease_that_another_worker_took_over_counts_no_more(store: Store) -> None:
    with store.write() as tx:
        tx.work.add(JobKind.MOVE, "a")
    with store.write() as tx:
        (first,) = tx.work.take(0, 16)
    with store.write() as tx:
        (second,) = tx.work.take(30, 16)
        assert second.epoch > first.epoch
        assert (tx.work.lock_lease(first), tx.work.lock_lease(second)) == (False, True)
        assert not tx.work.complete(first)
        tx.work.done([first])
        tx.work.retry(first, "late", 0)
        tx.work.park(first, "late")
        assert tx.work.renew([first, second], 30) == {("a", second.epoch)}
        assert tx.work.parked(1) == []
        assert tx.work.complete(second)


def test_delete_drops_the_jobs_that_no_worker_carries_out(store: Store) -> None:
    with store.write() as tx:
        tx.work.add(JobKind.MOVE, "a")
        tx.work.add(JobKind.MOVE, "b")
    with store.write() as tx:
        (first, _) = tx.work.take(30, 16)
        tx.work.add(JobKind.POWER, "a")
        tx.work.drop_waiting("a")
        assert tx.work.complete(first)
        assert tx.work.take(30, 16) == []


def test_job_of_an_unknown_kind_is_reported_and_kept(
    store: Store, connected: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(store)
    worker = a_worker(store, recorder)
    newer = {"verb": "bless", "server_id": "x", "arguments": "{}", "due_at": NOW}
    with connected.begin() as connection:
        connection.execute(sa.insert(tables.work), newer)
    with store.write() as tx:
        tx.work.add(JobKind.DESTROY, "a")
    assert worker.run_once() == 1
    assert recorder.done == [("destroy", "a")]
    assert worker.run_once() == 0
    with connected.connect() as connection:
        rows = connection.execute(sa.select(tables.work.c.verb, tables.work.c.attempts, tables.work.c.due_at)).all()
    assert [tuple(row) for row in rows] == [("bless", 0, NOW)]
    log = CapturingLogger()
    monkeypatch.setattr(maintenance, "log", log)
    maintenance.Maintenance(store, lambda: LATER).run_if_due()
    assert log.calls == [("warning", ("work.unknown_kind",), {"kind": "bless", "jobs": 1})]
