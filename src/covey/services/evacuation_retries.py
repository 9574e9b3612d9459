"""Evacuations whose host fails to start the server: they continue on another host, until none is left to try."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import structlog

from covey.model.actions import Migration
from covey.model.errors import Busy, DriverFault, Invalid
from covey.model.groups import GroupState
from covey.model.ids import HostId, ServerId
from covey.model.servers import Server, Task
from covey.model.work import Job, JobKind
from covey.ports import Clock
from covey.scheduler.explain import NoHost
from covey.scheduler.request_spec import HostRequirements
from covey.services.destinations import Destinations
from covey.services.moves import reject_living
from covey.storage.store import Store, Transaction

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class EvacuationRetries:
    """Claims another host for an evacuation that has failed on one."""

    store: Store
    clock: Clock
    destinations: Destinations
    requirements: Callable[[Transaction, Server], HostRequirements]
    attempts: int  # hosts to try

    def retry(self, job: Job, fault: DriverFault) -> bool:
        """Claim another host, and add the job that starts the server there. Return False if there is none to try.

        Nothing has changed then. The host that the operator named is the only one, and so is every host once the source
        has returned with the server.
        """
        if job.arguments.get("is_named"):
            return False
        try:
            return self.destinations.until_claimed(self.attempts, lambda refused: self._attempt(job, fault, refused))
        except (NoHost, Invalid, Busy):
            return False

    def _attempt(self, job: Job, fault: DriverFault, refused: frozenset[HostId]) -> bool:
        with self.store.write() as tx:
            tx.topology.hold()  # before all rows, as every claim
            server, group = self.destinations.lock(tx, ServerId(job.subject_id))
            if server is None or server.task is not Task.REBUILDING or server.migration_host_id is None:
                return False
            failed = (*cast("list[HostId]", job.arguments.get("failed", ())), server.migration_host_id)
            if len(failed) >= self.attempts:
                return False
            (move,) = tx.migrations.find(server=server.id, statuses=("preparing",))
            self._continue(tx, server, group, move, frozenset(failed) | refused)
            if tx.work.complete(job):
                tx.work.add(JobKind.MOVE, server.id, {**job.arguments, "failed": list(failed)})
                log.warning("evacuation.retried", server=server.id, failed=move.destination, reason=fault.message)
                return True
            raise Busy("Another worker has the job.")

    def _continue(
        self,
        tx: Transaction,
        server: Server,
        group: GroupState | None,
        move: Migration,
        avoid: frozenset[HostId],
    ) -> None:
        """Claim another host in exchange for the one that failed. Raises NoHost, and Invalid if the source is back."""
        assert server.host_id is not None
        agent, source = tx.agents.by_host_id(server.host_id, lock=True), tx.hosts.by_id(server.host_id)
        assert source is not None
        reject_living(source, agent)
        wanted = self.requirements(tx, replace(server, request=replace(server.request, hosts=(), forced=False)))
        wanted = replace(wanted, ignored_hosts=wanted.ignored_hosts | avoid | {server.host_id})
        # Before the release: a wait for the fleet must not hold inventory rows that others wait for.
        found = self.destinations.select(tx, server, group, wanted, evacuating=True)
        self.destinations.move_claim(tx, server.id, found)
        now = self.clock()
        tx.migrations.set_destination(move.uuid, found.host_name, now)
        placement = replace(server.placement, seed=found.seed, candidates=found.candidates, hosts=found.hosts)
        tx.servers.update(replace(server, migration_host_id=found.host_id, placement=placement, updated_at=now))
        self.destinations.bump_group(tx, server.group_id)
