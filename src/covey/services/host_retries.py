"""Evacuations and unshelvings whose host fails to start the server: they continue on another, while there is one."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import structlog

from covey.model.errors import Busy, DriverFault, Invalid, OperationInProgress
from covey.model.ids import HostId, ServerId
from covey.model.servers import Server, Task
from covey.model.work import Job
from covey.ports import Clock
from covey.scheduler.explain import NoHost
from covey.scheduler.request_spec import HostRequirements
from covey.services.destinations import Destination, Destinations
from covey.services.moves import reject_living
from covey.storage.store import Store, Transaction

log = structlog.get_logger()

_AGAIN_S = 5.0  # while the fleet keeps changing


@dataclass(frozen=True, slots=True)
class HostRetries:
    """Claims another host for a server that its claimed host has failed to start."""

    store: Store
    clock: Clock
    destinations: Destinations
    requirements: Callable[[Transaction, Server], HostRequirements]
    attempts: int  # hosts to try

    def retry(self, job: Job, fault: DriverFault) -> bool:
        """Claim another host, and add the job that starts the server there. Return False if there is none to try.

        Nothing has changed then. A host that the request named is the only one. An evacuation ends once the source has
        returned with the server. Raises OperationInProgress while the fleet keeps changing.
        """
        if job.arguments.get("is_named"):
            return False
        try:
            return self.destinations.until_claimed(self.attempts, lambda refused: self._attempt(job, fault, refused))
        except (NoHost, Invalid):
            return False
        except Busy as busy:
            log.warning("host.not_retried", server=job.subject_id, reason=busy.message)
            raise OperationInProgress(_AGAIN_S) from busy

    def _attempt(self, job: Job, fault: DriverFault, refused: frozenset[HostId]) -> bool:
        with self.store.write() as tx:
            tx.topology.hold()  # before all rows, as every claim
            server, group = self.destinations.lock(tx, ServerId(job.subject_id))
            host = None if server is None else _claimed_host(server)
            if server is None or host is None:
                return False
            failed = (*cast("list[HostId]", job.arguments.get("failed", ())), host)
            if len(failed) >= self.attempts:
                return False
            evacuates = server.task is Task.REBUILDING
            if evacuates:
                _reject_living_source(tx, server)
            wanted = self._requirements(tx, server, refused.union(failed))
            # Before the release: a wait for the fleet must not hold inventory rows that others wait for.
            found = self.destinations.select(tx, server, group, wanted, evacuating=evacuates)
            self._claim(tx, server, found)
            if not tx.work.complete(job):
                raise Busy("Another worker has the job.")
            tx.work.add(job.kind, server.id, {**job.arguments, "failed": list(failed)})
            name = server.migration_host_name or server.host_name
            log.warning("host.retried", job=job.kind, server=server.id, failed=name, reason=fault.message)
            return True

    def _requirements(self, tx: Transaction, server: Server, avoid: frozenset[HostId]) -> HostRequirements:
        wanted = self.requirements(tx, replace(server, request=replace(server.request, hosts=(), forced=False)))
        here = frozenset() if server.host_id is None else frozenset({server.host_id})
        return replace(wanted, ignored_hosts=wanted.ignored_hosts | avoid | here)

    def _claim(self, tx: Transaction, server: Server, found: Destination) -> None:
        """Claim a host in exchange for the one that failed."""
        self.destinations.move_claim(tx, server.id, found)
        now = self.clock()
        placement = replace(server.placement, seed=found.seed, candidates=found.candidates, hosts=found.hosts)
        claimed = replace(server, placement=placement, updated_at=now)
        if server.task is Task.REBUILDING:
            (move,) = tx.migrations.find(server=server.id, statuses=("preparing",))
            tx.migrations.set_destination(move.uuid, found.host_name, now)
            claimed = replace(claimed, migration_host_id=found.host_id)
        else:
            claimed = replace(claimed, host_id=found.host_id)
        tx.servers.update(claimed)
        self.destinations.bump_group(tx, server.group_id)


def _claimed_host(server: Server) -> HostId | None:
    """Return the host that is to start a server; None if the server has got another task."""
    match server.task:
        case Task.REBUILDING:
            return server.migration_host_id
        case Task.UNSHELVING:
            return server.host_id
        case _:
            return None


def _reject_living_source(tx: Transaction, server: Server) -> None:
    """Raise Invalid if the source of an evacuation is back."""
    assert server.host_id is not None
    agent, source = tx.agents.by_host_id(server.host_id, lock=True), tx.hosts.by_id(server.host_id)
    assert source is not None
    reject_living(source, agent)
