"""Server tasks: what a worker does after a move, a shelve or a power action was accepted."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ParamSpec

import structlog

from covey.model.actions import ActionEvent, Migration, MoveKind
from covey.model.errors import DriverFault, HostsDown, OperationAborted
from covey.model.ids import ServerId
from covey.model.servers import Fault, Power, Server, Task, VmState
from covey.model.work import Job
from covey.ports import Clock, Driver
from covey.services.destinations import Destinations
from covey.services.host_retries import HostRetries
from covey.services.moves import ACTION
from covey.services.notifications import MOVED, Event, NotificationEmitter
from covey.services.quotas import release_quota
from covey.storage.store import Store, Transaction

log = structlog.get_logger()

P = ParamSpec("P")

_NOT_EVACUATED = "The server's host is down, and no other host that was tried could start it."
_WITHOUT_CONFIRMATION = {MoveKind.LIVE_MIGRATION, MoveKind.EVACUATION}


@dataclass(frozen=True, slots=True)
class ServerTasks:
    """Carries out jobs of servers. Each reads the rows first, so it may be repeated after a crash."""

    store: Store
    clock: Clock
    driver: Driver
    destinations: Destinations
    notifications: NotificationEmitter
    retries: HostRetries

    def move(self, job: Job) -> None:
        """Move a server to the host that was claimed for it."""
        server, move = self._under_way(job, "preparing")
        fault: DriverFault | None = None
        if server is not None and move is not None and server.migration_host_name is not None and _may_move(server):
            fault = self._carry(server, move, server.migration_host_name, job)
            if fault is not None and move.kind is MoveKind.EVACUATION and self.retries.retry(job, fault):
                return
        complete = partial(self._complete_move, stopped=bool(job.arguments.get("stopped")))
        self._finish_move(job, "preparing", complete if fault is None else partial(self._fail_move, fault))

    def revert(self, job: Job) -> None:
        """Move a server back to the host that it had before its move."""
        server, move = self._under_way(job, "finished")
        fault: DriverFault | None = None
        if server is not None and move is not None and server.host_name is not None and _may_move(server):
            smaller = replace(server, flavor=move.old_flavor)
            fault = _fault_of(self.driver.move, smaller, server.host_name, move.source, job.epoch, live=False)
        self._finish_move(
            job, "finished", self._complete_revert if fault is None else partial(self._fail_revert, fault)
        )

    def shelve(self, job: Job) -> None:
        """Take a server off its host, and keep its data."""
        with self.store.read() as tx:
            current = tx.servers.by_id(job.subject_id)
        fault: DriverFault | None = None
        if current is not None and current.task is Task.SHELVING_OFFLOADING and current.host_name is not None:
            fault = _fault_of(self.driver.detach, current, current.host_name, job.epoch)
        now = self.clock()
        with self.store.write() as tx:
            server, _ = self.destinations.lock(tx, ServerId(job.subject_id))
            if not tx.work.complete(job) or server is None or server.task is not Task.SHELVING_OFFLOADING:
                return
            if fault is not None:
                self._fail_action(tx, server, "shelve", fault)
                return
            self.destinations.release(tx, server.id)
            tx.servers.update(
                replace(
                    server,
                    host_id=None,
                    vm_state=VmState.SHELVED_OFFLOADED,
                    task=None,
                    power=Power.SHUTDOWN,
                    placement=replace(server.placement, data_host=server.host_name),
                    updated_at=now,
                )
            )
            self.destinations.bump_group(tx, server.group_id)
            tx.actions.finish(server.id, "shelve", ActionEvent("compute_shelve_instance", now, now, "Success"))

    def unshelve(self, job: Job) -> None:
        """Spawn a shelved server on the host that was claimed for it."""
        with self.store.read() as tx:
            current = tx.servers.by_id(job.subject_id)
        fault: DriverFault | None = None
        if current is not None and current.task is Task.UNSHELVING and current.host_name is not None:
            fault = _fault_of(self.driver.spawn, current, current.host_name, job.epoch)
            if fault is not None and self.retries.retry(job, fault):
                return
        now = self.clock()
        with self.store.write() as tx:
            server, _ = self.destinations.lock(tx, ServerId(job.subject_id))
            tx.agent_calls.keep_epoch(job.subject_id)
            if not tx.work.complete(job) or server is None or server.task is not Task.UNSHELVING:
                return
            event = ActionEvent("compute_unshelve_instance", now, now, "Success")
            placement = replace(server.placement, data_host=None)
            changed = replace(
                server, vm_state=VmState.ACTIVE, task=None, power=Power.RUNNING, placement=placement, updated_at=now
            )
            if fault is not None:
                self.destinations.release(tx, server.id)
                changed = replace(server, host_id=None, task=None, updated_at=now)
                event = replace(event, result="Error", details="The host failed to start it.", traceback=fault.message)
            tx.servers.update(changed)
            self.destinations.bump_group(tx, server.group_id)
            tx.actions.finish(server.id, "unshelve", event)

    def power(self, job: Job) -> None:
        """Start, stop or reboot a server."""
        with self.store.read() as tx:
            current = tx.servers.by_id(job.subject_id)
        verb = str(job.arguments["verb"])
        fault: DriverFault | None = None
        if current is not None and current.host_name is not None and current.task in _POWER_TASKS:
            step = "reboot_hard" if current.task is Task.REBOOTING_HARD else verb
            fault = _fault_of(self.driver.power, current, current.host_name, step, job.epoch)
        now = self.clock()
        with self.store.write() as tx:
            server = tx.servers.by_id(job.subject_id, lock=True)
            tx.agent_calls.keep_epoch(job.subject_id)
            if not tx.work.complete(job) or server is None or server.task not in _POWER_TASKS:
                return
            if fault is not None:
                self._fail_action(tx, server, verb, fault)
                return
            stopping = verb == "stop"
            tx.servers.update(
                replace(
                    server,
                    vm_state=VmState.STOPPED if stopping else VmState.ACTIVE,
                    power=Power.SHUTDOWN if stopping else Power.RUNNING,
                    task=None,
                    updated_at=now,
                )
            )
            tx.actions.finish(server.id, verb, ActionEvent(f"compute_{verb}_instance", now, now, "Success"))

    def _under_way(self, job: Job, status: str) -> tuple[Server | None, Migration | None]:
        with self.store.read() as tx:
            return tx.servers.by_id(job.subject_id), _move_of(tx, job, status)

    def _carry(self, server: Server, move: Migration, destination: str, job: Job) -> DriverFault | None:
        """Return why the server does not arrive, or None."""
        moved = replace(server, flavor=move.new_flavor)
        if move.kind is MoveKind.EVACUATION:
            moved = replace(moved, power=Power.SHUTDOWN if job.arguments.get("stopped") else server.power)
            return _fault_of(self.driver.evacuate, moved, move.source, destination, job.epoch)
        if move.abort and self.driver.abort(moved, move.source, destination, job.epoch):
            return OperationAborted()
        live = move.kind is MoveKind.LIVE_MIGRATION
        return _fault_of(self.driver.move, moved, move.source, destination, job.epoch, live=live)

    def _finish_move(self, job: Job, status: str, finish: Callable[[Transaction, Server, Migration], None]) -> None:
        with self.store.write() as tx:
            server, _ = self.destinations.lock(tx, ServerId(job.subject_id))
            move = _move_of(tx, job, status)
            tx.agent_calls.keep_epoch(job.subject_id)
            if not tx.work.complete(job) or server is None or move is None or server.task is Task.DELETING:
                return
            finish(tx, server, move)
            self.destinations.bump_group(tx, server.group_id)

    def _fail_action(self, tx: Transaction, server: Server, action: str, fault: DriverFault) -> None:
        now = self.clock()
        log.warning("action.failed", server=server.id, action=action, reason=fault.message)
        tx.servers.update(replace(server, task=None, updated_at=now))
        event = ActionEvent(
            f"compute_{action}_instance", now, now, "Error", "The host failed to carry out the action.", fault.message
        )
        tx.actions.finish(server.id, action, event)

    def _complete_move(self, tx: Transaction, server: Server, move: Migration, *, stopped: bool) -> None:
        now = self.clock()
        source, destination = server.host_id, server.migration_host_id
        arrived = replace(server, host_id=destination, task=None, flavor=move.new_flavor, updated_at=now)
        if move.kind is not MoveKind.EVACUATION:  # which may have started it without its data
            arrived = replace(arrived, placement=replace(server.placement, data_host=None))
        if move.kind in _WITHOUT_CONFIRMATION:
            self.destinations.release(tx, move.uuid)
            power = Power.SHUTDOWN if stopped else server.power
            arrived = replace(arrived, migration_host_id=None, vm_state=power.vm_state, power=power, fault=None)
            tx.migrations.set_status(move.uuid, "completed", now)
        else:
            arrived = replace(arrived, migration_host_id=source, vm_state=VmState.RESIZED)
            tx.migrations.set_status(move.uuid, "finished", now)
        tx.servers.update(arrived)
        tx.actions.finish(server.id, ACTION[move.kind], ActionEvent(f"compute_{move.kind}", now, now, "Success"))
        self.notifications.moved(tx, MOVED[move.kind], server.id)

    def _fail_move(self, fault: DriverFault, tx: Transaction, server: Server, move: Migration) -> None:
        now = self.clock()
        log.warning("move.failed", server=server.id, reason=fault.message)
        self._restore_allocations(tx, server, move)
        aborted = isinstance(fault, OperationAborted)
        tx.migrations.set_status(move.uuid, "cancelled" if aborted else "error", now)
        failed = replace(_with_data(server, fault, move.destination), migration_host_id=None, task=None, updated_at=now)
        if move.kind is MoveKind.EVACUATION and not server.host_up:
            failed = replace(failed, vm_state=VmState.ERROR, fault=Fault(_NOT_EVACUATED, now, details=fault.message))
        tx.servers.update(failed)
        event = ActionEvent(
            f"compute_{move.kind}", now, now, "Error", "The move failed; the server stays on its host.", fault.message
        )
        tx.actions.finish(server.id, ACTION[move.kind], event)

    def _fail_revert(self, fault: DriverFault, tx: Transaction, server: Server, move: Migration) -> None:
        """Leave the server on its new host; its owner may revert again, or confirm."""
        now = self.clock()
        log.warning("revert.failed", server=server.id, reason=fault.message)
        tx.servers.update(replace(_with_data(server, fault, move.source), task=None, updated_at=now))
        event = ActionEvent(
            "compute_revert_resize", now, now, "Error", "The move failed; the server stays on its host.", fault.message
        )
        tx.actions.finish(server.id, "revertResize", event)

    def _restore_allocations(self, tx: Transaction, server: Server, move: Migration) -> None:
        """Give the migration's allocations back to the server, and release what the move added to the quota."""
        tx.allocations.find_consumers(
            [server.id, move.uuid], lock=True
        )  # consumers are locked before inventories everywhere
        self.destinations.release(tx, server.id)
        tx.server_allocations.add_consumer(server.id, server.project_id, server.user_id, "INSTANCE")
        tx.server_allocations.return_from_migration(move.uuid, server.id)
        release_quota(tx, server.project_id, move.upsize_delta)

    def _complete_revert(self, tx: Transaction, server: Server, move: Migration) -> None:
        now = self.clock()
        self._restore_allocations(tx, server, move)
        tx.migrations.set_status(move.uuid, "reverted", now)
        back = replace(
            server,
            host_id=server.migration_host_id,
            migration_host_id=None,
            flavor=move.old_flavor,
            vm_state=server.power.vm_state,
            task=None,
            updated_at=now,
        )
        tx.servers.update(back)
        tx.actions.finish(server.id, "revertResize", ActionEvent("compute_revert_resize", now, now, "Success"))
        self.notifications.moved(tx, Event.RESIZE_REVERTED, server.id)


_POWER_TASKS = {Task.POWERING_OFF, Task.POWERING_ON, Task.REBOOTING, Task.REBOOTING_HARD}


def _fault_of(step: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> DriverFault | None:
    """Return the step's DriverFault, or None. Raises OperationInProgress."""
    try:
        step(*args, **kwargs)
    except DriverFault as fault:
        return fault
    return None


def _with_data(server: Server, fault: DriverFault, destination: str | None) -> Server:
    """Return a server whose move has failed. A destination that could not answer keeps what has arrived there."""
    if not isinstance(fault, HostsDown):
        return server
    return replace(server, placement=replace(server.placement, data_host=destination))


def _may_move(server: Server) -> bool:
    return server.task is not Task.DELETING


def _move_of(tx: Transaction, job: Job, status: str) -> Migration | None:
    moves = tx.migrations.find(server=job.subject_id, statuses=(status,))
    return next((move for move in moves if move.uuid == job.arguments["migration"]), None)
