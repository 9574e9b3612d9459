"""Workers that die during an execution, and workers that execute one action concurrently: nothing is done twice."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

import pytest

from covey.model.work import Job
from covey.services.clustering.engine.executor import Executor
from covey.services.leases import Leases
from covey.storage import tables
from covey.storage.store import Store, Transaction
from covey.worker import Worker
from tests.functional.client import Answer
from tests.functional.cluster_tenants import Tenant, a_tenant
from tests.functional.fleets import Cloud

LEASE_S = 31.0  # until another worker claims the job of a dead one


@pytest.fixture
def alice(cloud: Cloud) -> Tenant:
    return a_tenant(cloud, cloud.alice)


class WorkerDied(BaseException):
    """A worker died during an execution."""


@dataclass
class CrashPlan:
    """Kills the worker at the start of the n-th transaction of an execution."""

    transactions_left: int = 0
    armed: bool = False

    def count(self) -> None:
        if self.armed:
            self.transactions_left -= 1
            if self.transactions_left == 0:
                raise WorkerDied


@pytest.fixture
def crash(monkeypatch: pytest.MonkeyPatch) -> CrashPlan:
    plan, write, execute = CrashPlan(), Store.write, Executor.execute

    @contextmanager
    def counted_write(store: Store) -> Iterator[Transaction]:
        plan.count()
        with write(store) as tx:
            yield tx

    def counted_execute(executor: Executor, job: Job) -> None:
        plan.armed = True
        try:
            execute(executor, job)
        finally:
            plan.armed = False

    monkeypatch.setattr(Store, "write", counted_write)
    monkeypatch.setattr(Executor, "execute", counted_execute)
    return plan


def test_crash_between_any_two_transactions_leaves_no_extra_server(alice: Tenant, crash: CrashPlan) -> None:
    def finish(answer: Answer) -> None:
        try:
            alice.cloud.settle()
        except WorkerDied:
            alice.cloud.time.advance(LEASE_S)
        assert alice.done(answer)["status"] == "SUCCEEDED"
        alice.check()

    steps, stride = 0, 4 if alice.cloud.connection.dialect.name == "postgresql" else 1  # PostgreSQL is slower
    while crash.transactions_left <= 0:
        steps += stride
        crash.transactions_left = steps
        finish(alice.api.post("/clusters", {"cluster": {"name": "web", "profile_id": "p", "desired_capacity": 3}}))
        finish(alice.ask("scale_in"))
        alice.cloud.delete(alice.nodes[0]["physical_id"])
        finish(alice.ask("recover", check=True))
        assert alice.sizes == (2, 2)
        finish(alice.api.delete("/clusters/web"))
        assert alice.cloud.is_empty()
        assert not any(map(alice.cloud.rows, (tables.nodes, tables.clusters, tables.cluster_locks)))
    assert steps > 20


def test_crash_during_an_operation_does_not_repeat_it(alice: Tenant, crash: CrashPlan) -> None:
    alice.create(2)
    times = 0
    while crash.transactions_left <= 0:
        times += 1
        crash.transactions_left = times
        answer = alice.api.post("/clusters/web/ops", {"reboot": {}})
        try:
            alice.cloud.settle()
        except WorkerDied:
            alice.cloud.time.advance(LEASE_S)
        assert alice.done(answer)["status"] == "SUCCEEDED"
        for node in alice.nodes:
            assert [action for action, _ in alice.cloud.log(node["physical_id"])].count("reboot") == times
    assert times > 5


def test_concurrent_workers_execute_each_action_once(alice: Tenant) -> None:
    stopped = threading.Event()

    def work(worker: Worker, rng: Random) -> None:
        while not stopped.is_set():
            lease_s = rng.choice((0.0, LEASE_S))  # without a lease, all workers claim the same job
            worker.leases = Leases(worker.store, lease_s)
            if not worker.run_once():
                stopped.wait(0.01)

    def wait(answer: Answer) -> None:
        while alice.action(answer)["status"] not in {"SUCCEEDED", "FAILED"}:
            stopped.wait(0.05)
        assert alice.action(answer)["status"] == "SUCCEEDED"

    with ThreadPoolExecutor(3) as threads:
        running = [threads.submit(work, alice.cloud.assembled.worker(), Random(seed)) for seed in range(3)]  # noqa: S311 -- no secret
        try:
            for _ in range(3):
                body = {"name": "web", "profile_id": "p", "desired_capacity": 3}
                wait(alice.api.post("/clusters", {"cluster": body}))
                alice.check()
                lost = alice.nodes[0]["physical_id"]
                assert alice.cloud.admin.delete(f"/servers/{lost}").status == 204
                wait(alice.ask("recover", check=True))
                alice.check()
                wait(alice.ask("resize", adjustment_type="EXACT_CAPACITY", number=5))
                assert (alice.sizes, len({node["index"] for node in alice.nodes})) == ((5, 5), 5)
                wait(alice.api.delete("/clusters/web"))
                assert alice.nodes == []
        finally:
            stopped.set()
    for future in running:
        future.result()
    alice.cloud.settle()
    assert alice.cloud.is_empty()
