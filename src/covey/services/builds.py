"""What follows a claim: start the server, and settle; or give its place back, and decide again."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
import structlog

from covey.model.actions import ActionEvent
from covey.model.errors import DriverFault, NoValidHost, OperationInProgress, StaleClaim
from covey.model.ids import HostId, ServerId
from covey.model.servers import Fault, FaultKind, Server, Task, VmState
from covey.model.work import Job, JobKind
from covey.ports import Clock, Driver
from covey.scheduler.explain import Explanation
from covey.scheduler.reasons import Reason
from covey.scheduler.request_spec import HostRequirements
from covey.services.destinations import Destination, Destinations
from covey.services.notifications import NotificationEmitter
from covey.storage.store import Store, Transaction

log = structlog.get_logger()

_BUILD = "compute__do_build_and_run_instance"


@dataclass(frozen=True, slots=True)
class Builds:
    """Spawns and destroys, many at a time. Every step may be repeated: the rows say what is left to do."""

    store: Store
    clock: Clock
    driver: Driver
    destinations: Destinations
    requirements: Callable[[Server], HostRequirements]
    notifications: NotificationEmitter
    attempts: int = 3

    def spawn(self, jobs: Sequence[Job]) -> None:
        """Start the servers of these jobs that are still waiting for it."""
        with self.store.read() as tx:
            found = tx.servers.by_ids([ServerId(job.subject_id) for job in jobs])
        waiting = [server for server in found if _is_waiting(server)]
        idle = {job.subject_id for job in jobs} - {server.id for server in waiting}
        if idle:
            with self.store.write() as tx:
                tx.work.finish(JobKind.SPAWN, sorted(idle))
        self.start(waiting)

    def start(self, servers: Sequence[Server]) -> None:
        """Start servers that were claimed and waiting, not long ago."""
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
        self._settle(started)
        for server, error in failed:
            self._again(server, error)

    def destroy(self, job: Job) -> None:
        """Destroy a server on its hosts, and delete it. Raises DriverFault."""
        with self.store.read() as tx:
            server = tx.servers.by_id(job.subject_id)
        self._let_go(server)
        with self.store.write() as tx:
            self._forget(tx, ServerId(job.subject_id))
            tx.work.done([job.id])

    def _let_go(self, server: Server | None) -> None:
        if server is not None:
            for host in filter(None, (server.host_name, server.migration_host_name)):
                self.driver.destroy(server, host)

    def _postpone(self, server: Server, after_s: float) -> None:
        """Ask again later; others have their turn meanwhile."""
        with self.store.write() as tx:
            tx.work.finish(JobKind.SPAWN, [server.id])
            tx.work.add(JobKind.SPAWN, server.id, self.clock() + timedelta(seconds=after_s))

    def _settle(self, started: Sequence[Server]) -> None:
        if not started:
            return
        now = self.clock()
        with self.store.write() as tx:
            running = tx.servers.activate(started, now)
            tx.actions.finish_all(sorted(running), "create", ActionEvent(_BUILD, now, now, "Success"))
            tx.work.finish(JobKind.SPAWN, sorted(running))  # whoever is elsewhere by now has a job for that place
            self.notifications.create_ended(tx, [server for server in started if server.id in running])
        if len(running) < len(started):
            self._clear_up([server for server in started if server.id not in running])

    def _clear_up(self, started: Sequence[Server]) -> None:
        """Servers that were deleted or brought elsewhere while they were being started must not stay there."""
        with self.store.read() as tx:
            places = {server.id: server.host_id for server in tx.servers.by_ids([server.id for server in started])}
        for server in started:
            if places.get(server.id) != server.host_id and server.host_name is not None:
                with suppress(DriverFault):
                    self.driver.destroy(server, server.host_name)

    def _again(self, server: Server, fault: DriverFault) -> None:
        """Give the place back and decide once more, without the hosts that failed; or give up, and say why."""
        for _ in range(self.attempts):
            with suppress(StaleClaim), self.store.write() as tx:
                self._retry(tx, server, fault)
                return

    def _retry(self, tx: Transaction, failed: Server, fault: DriverFault) -> None:
        server, group = self.destinations.lock(tx, failed.id)
        if server is None or not _is_waiting(server) or server.host_id is None or server.host_id != failed.host_id:
            return
        tx.work.finish(JobKind.SPAWN, [server.id])
        self.destinations.bump_group(tx, server.group_id)
        avoid = (*server.placement.avoid, server.host_id)
        failed_to = Reason(np.ones(len(avoid), dtype=np.bool_), "failed to start it", "failed to start it")
        told = self.destinations.render(Explanation(server.placement.hosts, (failed_to,)))
        why = NoValidHost(f"No valid host was found. {told}", fault.message)
        if len(avoid) < self.attempts and not server.request.forced:
            requirements = self.requirements(server)
            requirements = replace(requirements, other_hosts=requirements.other_hosts | frozenset(avoid))
            try:  # before anything is given back: who waits to look at the fleet holds no room that others wait for
                self._claim(tx, server, self.destinations.select(server, group, requirements), avoid)
            except NoValidHost as none_left:
                why = none_left
            else:
                return
        self.destinations.release(tx, server.id)
        self._give_up(tx, server, why)

    def _claim(self, tx: Transaction, server: Server, place: Destination, avoid: tuple[HostId, ...]) -> None:
        now, tries = self.clock(), len(avoid) + 1
        self.destinations.move_claim(tx, server.id, place.host_id, server.flavor)
        placement = replace(server.placement, seed=place.seed, candidates=place.candidates, avoid=avoid, attempts=tries)
        tx.servers.update(replace(server, host_id=place.host_id, placement=placement, updated_at=now))
        tx.work.add(JobKind.SPAWN, server.id, now)

    def _give_up(self, tx: Transaction, server: Server, why: NoValidHost) -> None:
        """In error it holds no place and no member slot."""
        now = self.clock()
        log.warning("build.failed", server=server.id, reason=why.details)
        fault = Fault(why.message, now, details=why.details, kind=FaultKind.NO_VALID_HOST)
        tx.servers.update(replace(server, host_id=None, vm_state=VmState.ERROR, task=None, fault=fault, updated_at=now))
        tx.groups.leave([server.id])
        self.notifications.create_failed(tx, server.id)
        tx.actions.finish(server.id, "create", ActionEvent(_BUILD, now, now, "Error", why.message, why.details))

    def _forget(self, tx: Transaction, server_id: ServerId) -> None:
        server, _ = self.destinations.lock(tx, server_id)
        if server is None:
            return
        moves = tx.migrations.find(server=server.id, statuses=("preparing", "finished"))
        self.destinations.release(tx, server.id, *(move.uuid for move in moves))
        cores, ram = server.flavor.vcpus, server.flavor.memory_mb
        for move in moves:
            tx.migrations.set_status(move.uuid, "deleted", self.clock())
            cores, ram = move.old_flavor.vcpus + move.extra[0], move.old_flavor.memory_mb + move.extra[1]
        tx.servers.delete([server.id])
        tx.claims.add_usage(server.project_id, -1, -cores, -ram)
        self.destinations.bump_group(tx, server.group_id)
        tx.work.drop(server.id)
        self.notifications.delete_ended(tx, server)


def _is_waiting(server: Server) -> bool:
    return server.vm_state is VmState.BUILDING and server.task is Task.SPAWNING
