"""Turns that overlap: who was slow to begin finds that somebody else took the job, and changes nothing."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from covey.model.clustering.actions import Verb
from covey.model.work import Job, JobKind
from covey.services.clustering.engine.run import Handler, Run, Step
from tests.functional.cluster_tenants import a_tenant
from tests.functional.clusters import policy
from tests.functional.fleets import BuildCloud, Cloud


@dataclass(frozen=True)
class Slow:
    """Does what another does, long after something else has happened."""

    handler: Handler
    meanwhile: Callable[[], None]

    def begin(self, run: Run) -> Step:
        self.meanwhile()
        return self.handler.begin(run)

    def go_on(self, run: Run) -> Step:
        return self.handler.go_on(run)


def test_a_turn_that_was_overtaken_does_not_fail_what_the_other_did(cloud: Cloud) -> None:
    alice, executor = a_tenant(cloud, cloud.alice), cloud.assembled.executor
    alice.create()
    alice.attach(policy("affinity", servergroup={"policies": "anti-affinity"}))
    answer = alice.ask("scale_out", count=3)  # there is one place for each, so a second growth would not fit

    def job() -> Job:
        return next(job for job in cloud.jobs() if job.kind is JobKind.CLUSTER_ACTION)

    scaling = Slow(executor.handlers[Verb.CLUSTER_SCALE_OUT], lambda: executor.turn(job()))
    replace(executor, handlers={**executor.handlers, Verb.CLUSTER_SCALE_OUT: scaling}).turn(job())
    assert alice.action(answer)["status"] == "WAITING"
    late = job()
    cloud.settle()
    assert (alice.action(answer)["status"], alice.sizes) == ("SUCCEEDED", (3, 3))
    executor.turn(late)
    alice.check()


def test_a_turn_takes_as_many_statements_for_many_nodes_as_for_few(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(4, *(("quota", each, -1) for each in ("instances", "cores", "ram")))
    alice, said = a_tenant(cloud, cloud.alice), list[str]()
    alice.create()

    @sa.event.listens_for(cloud.connection, "before_cursor_execute")
    def note(_: object, __: object, text: str, values: Any, ___: object, many: bool) -> None:
        said.extend([text] * (len(values) if many and cloud.connection.dialect.name == "postgresql" else 1))

    def growth(nodes: int) -> list[int]:
        """How much each turn of a growth says to the database; what carries the servers out is another matter."""
        answer, counts = alice.ask("scale_out", count=nodes), list[int]()
        while alice.action(answer)["status"] != "SUCCEEDED":
            job = next(job for job in cloud.jobs() if job.kind is JobKind.CLUSTER_ACTION)
            said.clear()
            cloud.assembled.executor.turn(job)
            counts.append(len(said))
            cloud.step()
        return counts

    growth(1)
    assert growth(3) == growth(12)
