"""Builds: spawn a claimed server and activate it, or release its claim and reschedule it."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import structlog

from covey.model.actions import ActionEvent
from covey.model.errors import (
    Busy,
    CoveyError,
    DriverFault,
    LeaseLost,
    NoValidHost,
    OperationInProgress,
)
from covey.model.groups import GroupState
from covey.model.ids import HostId, ServerId
from covey.model.resources import quota_size
from covey.model.servers import Fault, FaultKind, Server, Task, VmState
from covey.model.work import Job, JobKind
from covey.ports import Clock, Driver
from covey.scheduler.explain import NO_VALID_HOST, Explanation, NoHost
from covey.scheduler.reasons import Reason
from covey.scheduler.request_spec import HostRequirements
from covey.services.call_pool import CallPool
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
    requirements: Callable[[Transaction, Server], HostRequirements]
    notifications: NotificationEmitter
    attempts: int = 3
    pool: CallPool = field(default_factory=CallPool)
    spawn_all: Callable[[Sequence[tuple[Server, str, int]]], Sequence[CoveyError | None]] | None = None
    """Of a driver that takes many calls at once; None if the pool makes them one by one."""

    def spawn(self, jobs: Sequence[Job]) -> None:
        """Spawn the servers of these jobs that still wait for it."""
        with self.store.read() as tx:
            found = {server.id: server for server in tx.servers.by_ids([ServerId(job.subject_id) for job in jobs])}
        waiting, obsolete = [], []
        for job in jobs:
            server = found.get(ServerId(job.subject_id))
            if server is not None and _is_waiting(server):
                waiting.append((job, server))
            else:
                obsolete.append(job)
        if obsolete:
            with self.store.write() as tx:
                tx.work.done(obsolete)
        self.start(waiting)

    def start(self, claimed: Sequence[tuple[Job, Server]]) -> None:
        """Spawn claimed servers. A server whose state has changed since stays unchanged."""
        started, failed, postponed = [], [], []
        for (job, server), outcome in zip(claimed, self._spawn_all(claimed), strict=True):
            if outcome is None:
                started.append((job, server))
            elif isinstance(outcome, OperationInProgress):
                postponed.append((job, outcome.after_s))
            elif isinstance(outcome, DriverFault):
                failed.append((job, server, outcome))
        self._activate(started)
        self._postpone(postponed)
        for job, server, fault in failed:
            self._reschedule(job, server, fault)

    def _postpone(self, postponed: Sequence[tuple[Job, float]]) -> None:
        """Make jobs whose servers still start due later, so that the worker carries out others first."""
        if postponed:
            with self.store.write() as tx:
                for after_s in {after_s for _, after_s in postponed}:
                    tx.work.postpone([job for job, seconds in postponed if seconds == after_s], after_s)

    def _spawn_all(self, claimed: Sequence[tuple[Job, Server]]) -> Sequence[CoveyError | None]:
        """Return what keeps each server from running, or None."""
        if self.spawn_all is None:
            return self.pool.map(self._spawn, claimed)
        return self.spawn_all([(server, server.host_name or "", job.epoch) for job, server in claimed])

    def _spawn(self, claimed: tuple[Job, Server]) -> DriverFault | LeaseLost | OperationInProgress | None:
        """Return what keeps it from running, or None. Another worker has the job of a lost lease."""
        job, server = claimed
        assert server.host_name is not None
        try:
            self.driver.spawn(server, server.host_name, job.epoch)
        except (DriverFault, LeaseLost, OperationInProgress) as obstacle:
            return obstacle
        return None

    def destroy(self, job: Job) -> None:
        """Destroy a server on its hosts, and delete it. Raises DriverFault, OperationInProgress."""
        with self.store.read() as tx:
            server = tx.servers.by_id(job.subject_id)
        if server is not None:
            # The source of a migration first: what it still sends must not arrive after the destination is done.
            hosts = dict.fromkeys((server.host_name, server.migration_host_name, server.placement.data_host))
            for host in filter(None, hosts):
                self.driver.destroy(server, host, job.epoch)
        with self.store.write() as tx:
            if tx.work.complete(job):
                self._delete(tx, ServerId(job.subject_id))

    def _activate(self, started: Sequence[tuple[Job, Server]]) -> None:
        if not started:
            return
        now, servers = self.clock(), [server for _, server in started]
        with self.store.write() as tx:
            running = tx.servers.activate(servers, now)
            tx.actions.finish_all(sorted(running), "create", ActionEvent(_BUILD, now, now, "Success"))
            tx.work.done([job for job, _ in started])
            self.notifications.create_ended(tx, [server for server in servers if server.id in running])
        if len(running) < len(started):
            self._destroy_orphans([(job, server) for job, server in started if server.id not in running])

    def _destroy_orphans(self, started: Sequence[tuple[Job, Server]]) -> None:
        """Destroy servers on hosts that they left, by deletion or rescheduling, while they were spawned."""
        with self.store.read() as tx:
            hosts = {server.id: server.host_id for server in tx.servers.by_ids([server.id for _, server in started])}
        for job, server in started:
            if hosts.get(server.id) != server.host_id and server.host_name is not None:
                with suppress(DriverFault, LeaseLost, OperationInProgress):
                    self.driver.destroy(server, server.host_name, job.epoch)

    def _reschedule(self, job: Job, server: Server, fault: DriverFault) -> None:
        """Claim another host, without those that failed; or put the server into ERROR with the reason."""

        def retry(refused: frozenset[HostId]) -> None:
            with self.store.write() as tx:
                self._retry(tx, job, server, fault, refused)

        def give_up(refusal: NoValidHost) -> None:
            with self.store.write() as tx:
                self._give_up(tx, job, server, refusal)

        try:
            try:
                self.destinations.until_claimed(self.attempts, retry)
            except NoHost as refused:  # explained while no lock is held
                refusal = refused.explain(self.destinations.tenant_message)
                self.destinations.until_claimed(self.attempts, lambda _: give_up(refusal))
        except Busy as error:  # the job is due again when its lease ends
            log.warning("build.not_rescheduled", server=server.id, reason=error.message)

    def _retry(self, tx: Transaction, job: Job, failed: Server, fault: DriverFault, refused: frozenset[HostId]) -> None:
        """Raises NoHost if no other host admits the server, of those that did not refuse its claim."""
        tx.topology.hold()  # before all rows, as every claim
        server, group = self._lock_waiting(tx, job, failed)
        if server is None or server.host_id is None:
            return
        avoid = (*server.placement.avoid, server.host_id)
        if len(avoid) >= self.attempts or server.request.forced:
            spawn_failed = Reason(np.ones(len(avoid), dtype=np.bool_), "failed to start it", "failed to start it")
            explanation = self.destinations.tenant_message(Explanation(server.placement.hosts, (spawn_failed,)))
            self._fail(tx, server, NoValidHost(f"{NO_VALID_HOST} {explanation}", fault.message))
            return
        requirements = self.requirements(tx, server)
        requirements = replace(requirements, ignored_hosts=requirements.ignored_hosts | refused.union(avoid))
        # Before the release: a wait for the fleet must not hold inventory rows that others wait for.
        destination = self.destinations.select(tx, server, group, requirements)
        self.destinations.bump_group(tx, server.group_id)
        self._claim(tx, server, destination, avoid)

    def _give_up(self, tx: Transaction, job: Job, failed: Server, refusal: NoValidHost) -> None:
        server, _ = self._lock_waiting(tx, job, failed)
        if server is not None:
            self._fail(tx, server, refusal)

    def _lock_waiting(self, tx: Transaction, job: Job, failed: Server) -> tuple[Server | None, GroupState | None]:
        """Lock a server that still waits to be spawned on the host where it failed, and end its job.

        Return None if the server has moved on, or another worker has the job.
        """
        server, group = self.destinations.lock(tx, failed.id)
        is_ours = tx.work.complete(job)
        if server is None or not is_ours or not _is_waiting(server) or server.host_id != failed.host_id:
            return None, None
        return server, group

    def _claim(self, tx: Transaction, server: Server, destination: Destination, avoid: tuple[HostId, ...]) -> None:
        now, tries = self.clock(), len(avoid) + 1
        self.destinations.move_claim(tx, server.id, destination)
        placement = replace(
            server.placement, seed=destination.seed, candidates=destination.candidates, avoid=avoid, attempts=tries
        )
        tx.servers.update(replace(server, host_id=destination.host_id, placement=placement, updated_at=now))
        tx.work.add(JobKind.SPAWN, server.id)

    def _fail(self, tx: Transaction, server: Server, refusal: NoValidHost) -> None:
        """Put the server into ERROR, without a host and without its group."""
        now = self.clock()
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
        cores, ram = quota_size(server.flavor)
        for move in moves:
            tx.migrations.set_status(move.uuid, "deleted", self.clock())
            cores, ram = move.charged
        now = self.clock()
        tx.actions.finish(server.id, "delete", ActionEvent("compute_terminate_instance", now, now, "Success"))
        tx.servers.delete(server, now)
        tx.claims.add_usage(server.project_id, -1, -cores, -ram)
        self.destinations.bump_group(tx, server.group_id)
        tx.work.drop(server.id)
        self.notifications.delete_ended(tx, server)


def _is_waiting(server: Server) -> bool:
    return server.vm_state is VmState.BUILDING and server.task is Task.SPAWNING
