"""Builds: spawn a claimed server and activate it, or release its claim and reschedule it."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
import structlog

from covey.model.actions import ActionEvent
from covey.model.errors import DriverFault, NoValidHost, OperationInProgress, StaleClaim, TransactionConflict
from covey.model.groups import GroupState
from covey.model.ids import HostId, ServerId
from covey.model.servers import Fault, FaultKind, Server, Task, VmState
from covey.model.work import Job, JobKind
from covey.ports import Clock, Driver
from covey.scheduler.explain import NO_VALID_HOST, Explanation, NoHost
from covey.scheduler.reasons import Reason
from covey.scheduler.request_spec import HostRequirements
from covey.services.destinations import Destination, Destinations
from covey.services.notifications import NotificationEmitter
from covey.storage.store import Store, Transaction

log = structlog.get_logger()

_BUILD = "compute__do_build_and_run_instance"


@dataclass(frozen=True, slots=True)
class Builds:
    """Spawns and destroys servers. Every step may be repeated after a crash: rows hold what is left to do."""

    store: Store
    clock: Clock
    driver: Driver
    destinations: Destinations
    requirements: Callable[[Server], HostRequirements]
    notifications: NotificationEmitter
    attempts: int = 3

    def spawn(self, jobs: Sequence[Job]) -> None:
        """Spawn the servers of these jobs that still wait for it."""
        with self.store.read() as tx:
            found = tx.servers.by_ids([ServerId(job.subject_id) for job in jobs])
        waiting = [server for server in found if _is_waiting(server)]
        obsolete = {job.subject_id for job in jobs} - {server.id for server in waiting}
        if obsolete:
            with self.store.write() as tx:
                tx.work.finish(JobKind.SPAWN, sorted(obsolete))
        self.start(waiting)

    def start(self, servers: Sequence[Server]) -> None:
        """Spawn claimed servers. A server that has moved on since is left alone."""
        started: list[Server] = []
        failed: list[tuple[Server, DriverFault]] = []
        for server in servers:
            assert server.host_name is not None
            try:
                self.driver.spawn(server, server.host_name)
            except OperationInProgress as slow:
                self._postpone(server, slow.after_s)
            except DriverFault as fault:
                failed.append((server, fault))
            else:
                started.append(server)
        self._activate(started)
        for server, error in failed:
            self._reschedule(server, error)

    def destroy(self, job: Job) -> None:
        """Destroy a server on its hosts, and delete it. Raises DriverFault."""
        with self.store.read() as tx:
            server = tx.servers.by_id(job.subject_id)
        self._destroy_on_hosts(server)
        with self.store.write() as tx:
            self._delete(tx, ServerId(job.subject_id))
            tx.work.done([job.id])

    def _destroy_on_hosts(self, server: Server | None) -> None:
        if server is not None:
            for host in filter(None, (server.host_name, server.migration_host_name)):
                self.driver.destroy(server, host)

    def _postpone(self, server: Server, after_s: float) -> None:
        """Make the job due later, so that the worker carries out others first."""
        with self.store.write() as tx:
            tx.work.finish(JobKind.SPAWN, [server.id])
            tx.work.add(JobKind.SPAWN, server.id, self.clock() + timedelta(seconds=after_s))

    def _activate(self, started: Sequence[Server]) -> None:
        if not started:
            return
        now = self.clock()
        with self.store.write() as tx:
            running = tx.servers.activate(started, now)
            tx.actions.finish_all(sorted(running), "create", ActionEvent(_BUILD, now, now, "Success"))
            tx.work.finish(JobKind.SPAWN, sorted(running))  # a server that was rescheduled since has another job
            self.notifications.create_ended(tx, [server for server in started if server.id in running])
        if len(running) < len(started):
            self._destroy_misplaced([server for server in started if server.id not in running])

    def _destroy_misplaced(self, started: Sequence[Server]) -> None:
        """Destroy servers on hosts that they left, by deletion or rescheduling, while they were spawned."""
        with self.store.read() as tx:
            places = {server.id: server.host_id for server in tx.servers.by_ids([server.id for server in started])}
        for server in started:
            if places.get(server.id) != server.host_id and server.host_name is not None:
                with suppress(DriverFault):
                    self.driver.destroy(server, server.host_name)

    def _reschedule(self, server: Server, fault: DriverFault) -> None:
        """Claim another host, without those that failed; or put the server into ERROR with the reason."""
        for _ in range(self.attempts):
            try:
                with suppress(StaleClaim, TransactionConflict), self.store.write() as tx:
                    self._retry(tx, server, fault)
                    return
            except NoHost as refused:  # explained while no lock is held
                refusal = refused.explain(self.destinations.tenant_message)
                with suppress(StaleClaim, TransactionConflict), self.store.write() as tx:
                    self._give_up(tx, server, refusal)
                    return

    def _retry(self, tx: Transaction, failed: Server, fault: DriverFault) -> None:
        """Raises NoHost if no other host admits the server."""
        tx.topology.hold()  # before all rows, as every claim
        server, group = self._lock_waiting(tx, failed)
        if server is None or server.host_id is None:
            return
        avoid = (*server.placement.avoid, server.host_id)
        if len(avoid) >= self.attempts or server.request.forced:
            spawn_failed = Reason(np.ones(len(avoid), dtype=np.bool_), "failed to start it", "failed to start it")
            explanation = self.destinations.tenant_message(Explanation(server.placement.hosts, (spawn_failed,)))
            self._fail(tx, server, NoValidHost(f"{NO_VALID_HOST} {explanation}", fault.message))
            return
        requirements = self.requirements(server)
        requirements = replace(requirements, ignored_hosts=requirements.ignored_hosts | frozenset(avoid))
        # Before the release: a wait for the fleet must not hold inventory rows that others wait for.
        destination = self.destinations.select(server, group, requirements)
        tx.work.finish(JobKind.SPAWN, [server.id])
        self.destinations.bump_group(tx, server.group_id)
        self._claim(tx, server, destination, avoid)

    def _give_up(self, tx: Transaction, failed: Server, refusal: NoValidHost) -> None:
        server, _ = self._lock_waiting(tx, failed)
        if server is not None:
            self._fail(tx, server, refusal)

    def _lock_waiting(self, tx: Transaction, failed: Server) -> tuple[Server | None, GroupState | None]:
        """Lock a server that still waits to be spawned on the host where it failed; None if it has moved on."""
        server, group = self.destinations.lock(tx, failed.id)
        if server is None or not _is_waiting(server) or server.host_id is None or server.host_id != failed.host_id:
            return None, None
        return server, group

    def _claim(self, tx: Transaction, server: Server, destination: Destination, avoid: tuple[HostId, ...]) -> None:
        now, tries = self.clock(), len(avoid) + 1
        self.destinations.move_claim(tx, server.id, destination)
        placement = replace(
            server.placement, seed=destination.seed, candidates=destination.candidates, avoid=avoid, attempts=tries
        )
        tx.servers.update(replace(server, host_id=destination.host_id, placement=placement, updated_at=now))
        tx.work.add(JobKind.SPAWN, server.id, now)

    def _fail(self, tx: Transaction, server: Server, refusal: NoValidHost) -> None:
        """Put the server into ERROR, without a host and without its group."""
        now = self.clock()
        tx.work.finish(JobKind.SPAWN, [server.id])
        self.destinations.bump_group(tx, server.group_id)
        self.destinations.release(tx, server.id)
        log.warning("build.failed", server=server.id, reason=refusal.details)
        fault = Fault(refusal.message, now, details=refusal.details, kind=FaultKind.NO_VALID_HOST)
        tx.servers.update(replace(server, host_id=None, vm_state=VmState.ERROR, task=None, fault=fault, updated_at=now))
        tx.groups.leave([server.id])
        self.notifications.create_failed(tx, server.id)
        tx.actions.finish(server.id, "create", ActionEvent(_BUILD, now, now, "Error", refusal.message, refusal.details))

    def _delete(self, tx: Transaction, server_id: ServerId) -> None:
        server, _ = self.destinations.lock(tx, server_id)
        if server is None:
            return
        moves = tx.migrations.find(server=server.id, statuses=("preparing", "finished"))
        self.destinations.release(tx, server.id, *(move.uuid for move in moves))
        cores, ram = server.flavor.vcpus, server.flavor.memory_mb
        for move in moves:
            tx.migrations.set_status(move.uuid, "deleted", self.clock())
            cores, ram = move.old_flavor.vcpus + move.upsize_delta[0], move.old_flavor.memory_mb + move.upsize_delta[1]
        tx.servers.delete([server.id])
        tx.claims.add_usage(server.project_id, -1, -cores, -ram)
        self.destinations.bump_group(tx, server.group_id)
        tx.work.drop(server.id)
        self.notifications.delete_ended(tx, server)


def _is_waiting(server: Server) -> bool:
    return server.vm_state is VmState.BUILDING and server.task is Task.SPAWNING
