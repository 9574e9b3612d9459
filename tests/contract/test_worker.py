"""The worker: one job that can't be done does not hold up the others that were taken with it."""

from typing import Any

from covey.model.errors import DriverFault
from covey.model.work import Job
from covey.services.local_queue import LocalQueue
from covey.storage.store import Store
from covey.worker import Worker
from tests.build import LATER, NOW


class Trying:
    """Does every job but those of one server, which its backend refuses."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.done: list[str] = []

    def __getattr__(self, verb: str) -> Any:
        def do(asked: Job | list[Job]) -> None:
            jobs = asked if isinstance(asked, list) else [asked]
            for job in jobs:
                if job.server_id == "unlucky":
                    raise DriverFault("not now")
                self.done.append(f"{verb} {job.server_id}")
            with self._store.write() as tx:
                tx.work.done([job.id for job in jobs])

        return do


def test_a_job_that_fails_is_left_for_later_and_the_others_are_done_at_once(store: Store) -> None:
    trying: Any = Trying(store)
    worker = Worker(store, lambda: LATER, trying, trying, trying, trying, lambda: 0, LocalQueue(30), lease_s=30)
    with store.write() as tx:
        for verb, server in (
            ("destroy", "unlucky"),
            ("destroy", "a"),
            ("move", "b"),
            ("revert", "unlucky"),
            ("revert", "c"),
            ("spawn", "d"),
        ):
            tx.work.add(verb, server, NOW)
    assert worker.once() == 6
    assert sorted(trying.done) == ["destroy a", "move b", "revert c", "spawn d"]
    assert worker.once() == 0, "what failed is due when its lease is over"
