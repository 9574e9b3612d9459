"""Concurrent executions of one action: a worker that lost its claim changes nothing."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from covey.model.clustering.actions import Verb
from covey.model.work import Job, JobKind
from covey.services.clustering.engine.actions import ActionContext, ActionHandler, Outcome
from tests.functional.cluster_tenants import a_tenant
from tests.functional.clusters import policy
from tests.functional.fleets import BuildCloud, Cloud


@dataclass(frozen=True)
class Slow:
    """Runs another handler after a competing execution."""

    handler: ActionHandler
    compete: Callable[[], None]

    def start(self, context: ActionContext) -> Outcome:
        self.compete()
        return self.handler.start(context)

    def resume(self, context: ActionContext) -> Outcome:
        return self.handler.resume(context)


def test_execution_that_lost_its_claim_does_not_fail_the_action(cloud: Cloud) -> None:
    alice, executor = a_tenant(cloud, cloud.alice), cloud.assembled.executor
    alice.create()
    alice.attach(policy("affinity", servergroup={"policies": "anti-affinity"}))
    answer = alice.ask("scale_out", count=3)  # a second scale-out would not fit

    def job() -> Job:
        return next(job for job in cloud.jobs() if job.kind is JobKind.CLUSTER_ACTION)

    scaling = Slow(executor.handlers[Verb.CLUSTER_SCALE_OUT], lambda: executor.execute(job()))
    replace(executor, handlers={**executor.handlers, Verb.CLUSTER_SCALE_OUT: scaling}).execute(job())
    assert alice.action(answer)["status"] == "WAITING"
    late = job()
    cloud.settle()
    assert (alice.action(answer)["status"], alice.sizes) == ("SUCCEEDED", (3, 3))
    executor.execute(late)
    alice.check()


def test_number_of_statements_does_not_depend_on_the_number_of_nodes(build_cloud: BuildCloud) -> None:
    cloud = build_cloud(4, *(("quota", resource, -1) for resource in ("instances", "cores", "ram")))
    alice, statements = a_tenant(cloud, cloud.alice), list[str]()
    alice.create()

    @sa.event.listens_for(cloud.connection, "before_cursor_execute")
    def record(_: object, __: object, text: str, values: Any, ___: object, many: bool) -> None:
        statements.extend([text] * (len(values) if many and cloud.connection.dialect.name == "postgresql" else 1))

    def scale_out(nodes: int) -> list[int]:
        """Return the statements of each execution of a scale-out; server builds are not counted."""
        answer, counts = alice.ask("scale_out", count=nodes), list[int]()
        while alice.action(answer)["status"] != "SUCCEEDED":
            job = next(job for job in cloud.jobs() if job.kind is JobKind.CLUSTER_ACTION)
            statements.clear()
            cloud.assembled.executor.execute(job)
            counts.append(len(statements))
            cloud.step()
        return counts

    scale_out(1)
    assert scale_out(3) == scale_out(12)
