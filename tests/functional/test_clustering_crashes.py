"""Workers that die in the middle of a turn, and workers that take the same turn: everything is done once."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

import pytest

from covey.model.work import Job
from covey.services.clustering.engine.executor import Executor
from covey.storage import tables
from covey.storage.store import Store, Transaction
from covey.worker import Worker
from tests.functional.client import Answer
from tests.functional.cluster_tenants import Tenant, a_tenant
from tests.functional.fleets import Cloud

LEASE_S = 31.0  # until somebody else takes up what a worker died over


@pytest.fixture
def alice(cloud: Cloud) -> Tenant:
    return a_tenant(cloud, cloud.alice)


class Died(BaseException):
    """A worker is gone, in the middle of a turn."""


@dataclass
class Mortal:
    """Lets the worker die where a turn of an action begins its next transaction, once so many were begun."""

    lives: int = 0
    armed: bool = False

    def spend(self) -> None:
        if self.armed:
            self.lives -= 1
            if self.lives == 0:
                raise Died


@pytest.fixture
def mortal(monkeypatch: pytest.MonkeyPatch) -> Mortal:
    fate, write, turn = Mortal(), Store.write, Executor.turn

    @contextmanager
    def mortal_write(store: Store) -> Iterator[Transaction]:
        fate.spend()
        with write(store) as tx:
            yield tx

    def mortal_turn(executor: Executor, job: Job) -> None:
        fate.armed = True
        try:
            turn(executor, job)
        finally:
            fate.armed = False

    monkeypatch.setattr(Store, "write", mortal_write)
    monkeypatch.setattr(Executor, "turn", mortal_turn)
    return fate


def test_whoever_dies_between_any_two_steps_leaves_no_server_too_many(alice: Tenant, mortal: Mortal) -> None:
    def outlive(answer: Answer) -> None:
        try:
            alice.cloud.settle()
        except Died:
            alice.cloud.time.pass_(LEASE_S)
        assert alice.done(answer)["status"] == "SUCCEEDED"
        alice.check()

    steps, stride = 0, 4 if alice.cloud.connection.dialect.name == "postgresql" else 1  # which takes longer
    while mortal.lives <= 0:
        steps += stride
        mortal.lives = steps
        outlive(alice.api.post("/clusters", {"cluster": {"name": "web", "profile_id": "p", "desired_capacity": 3}}))
        outlive(alice.ask("scale_in"))
        alice.cloud.delete(alice.nodes[0]["physical_id"])
        outlive(alice.ask("recover", check=True))
        assert alice.sizes == (2, 2)
        outlive(alice.api.delete("/clusters/web"))
        assert alice.cloud.is_empty()
        assert not any(map(alice.cloud.rows, (tables.nodes, tables.clusters, tables.cluster_locks)))
    assert steps > 20


def test_whoever_dies_over_an_operation_has_it_done_once(alice: Tenant, mortal: Mortal) -> None:
    alice.create(2)
    times = 0
    while mortal.lives <= 0:
        times += 1
        mortal.lives = times
        answer = alice.api.post("/clusters/web/ops", {"reboot": {}})
        try:
            alice.cloud.settle()
        except Died:
            alice.cloud.time.pass_(LEASE_S)
        assert alice.done(answer)["status"] == "SUCCEEDED"
        for node in alice.nodes:
            assert [what for what, _ in alice.cloud.log(node["physical_id"])].count("reboot") == times
    assert times > 5


def test_workers_who_take_the_same_turns_do_everything_once(alice: Tenant) -> None:
    over = threading.Event()

    def work(mine: Worker, tie_breaking: Random) -> None:
        while not over.is_set():
            mine.lease_s = tie_breaking.choice((0.0, LEASE_S))  # without a lease, what one takes the others take too
            mine.once()

    def outlast(answer: Answer) -> None:
        while alice.action(answer)["status"] not in {"SUCCEEDED", "FAILED"}:
            over.wait(0.05)
        assert alice.action(answer)["status"] == "SUCCEEDED"

    with ThreadPoolExecutor(3) as threads:
        running = [threads.submit(work, alice.cloud.assembled.worker(), Random(seed)) for seed in range(3)]  # noqa: S311 -- chance
        try:
            for _ in range(3):
                body = {"name": "web", "profile_id": "p", "desired_capacity": 3}
                outlast(alice.api.post("/clusters", {"cluster": body}))
                alice.check()
                lost = alice.nodes[0]["physical_id"]
                assert alice.cloud.admin.delete(f"/servers/{lost}").status == 204
                outlast(alice.ask("recover", check=True))
                alice.check()
                outlast(alice.ask("resize", adjustment_type="EXACT_CAPACITY", number=5))
                assert (alice.sizes, len({node["index"] for node in alice.nodes})) == ((5, 5), 5)
                outlast(alice.api.delete("/clusters/web"))
                assert alice.nodes == []
        finally:
            over.set()
    for each in running:
        each.result()
    alice.cloud.settle()
    assert alice.cloud.is_empty()
