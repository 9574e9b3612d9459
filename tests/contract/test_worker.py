"""The worker: a job that fails or has an unknown kind does not delay other jobs."""

from collections.abc import Sequence

import pytest
import sqlalchemy as sa
from structlog.testing import CapturingLogger

from covey.model.errors import DriverFault
from covey.model.work import Job, JobKind
from covey.services import maintenance
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

    def handlers(self) -> dict[JobKind, Handler]:
        handlers: dict[JobKind, Handler] = dict.fromkeys(JobKind, self.run)
        return handlers | {JobKind.SPAWN: Batch(self.run_all)}

    def run(self, job: Job) -> None:
        self.run_all([job])

    def run_all(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if job.subject_id == "unlucky":
                raise DriverFault("not now")
            self.done.append((job.kind, job.subject_id))
        with self._store.write() as tx:
            tx.work.done([job.id for job in jobs])


def a_worker(store: Store, recorder: Recorder) -> Worker:
    return Worker(store, lambda: LATER, recorder.handlers(), lambda _: None, lambda: 0, LocalQueue(30), lease_s=30)


def test_failed_job_is_postponed_and_other_jobs_run(store: Store) -> None:
    recorder = Recorder(store)
    worker = a_worker(store, recorder)
    with store.write() as tx:
        for kind, subject in (
            (JobKind.DESTROY, "unlucky"),
            (JobKind.DESTROY, "a"),
            (JobKind.MOVE, "b"),
            (JobKind.REVERT, "unlucky"),
            (JobKind.REVERT, "c"),
            (JobKind.SPAWN, "d"),
        ):
            tx.work.add(kind, subject, NOW)
    assert worker.run_once() == 6
    assert sorted(recorder.done) == [("destroy", "a"), ("move", "b"), ("revert", "c"), ("spawn", "d")]
    assert worker.run_once() == 0, "a failed job is due when its lease ends"


def test_job_of_an_unknown_kind_is_reported_and_kept(
    store: Store, connected: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(store)
    worker = a_worker(store, recorder)
    newer = {"verb": "bless", "server_id": "x", "arguments": "{}", "due_at": NOW}
    with connected.begin() as connection:
        connection.execute(sa.insert(tables.work), newer)
    with store.write() as tx:
        tx.work.add(JobKind.DESTROY, "a", NOW)
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
