"""What follows the claim of a move: bring the server there, and settle; or leave it where it was."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ParamSpec

import structlog

from covey.model.actions import ActionEvent, Migration, MoveKind
from covey.model.errors import DriverFault
from covey.model.ids import ServerId
from covey.model.servers import Power, Server, Task, VmState
from covey.model.work import Job
from covey.ports import Clock, Driver
from covey.services.destinations import Destinations
from covey.services.moves import ACTION, discharge
from covey.services.notifications import MOVED, Event, NotificationEmitter
from covey.storage.store import Store, Transaction

log = structlog.get_logger()

P = ParamSpec("P")

_LEAVES_AT_ONCE = {MoveKind.LIVE_MIGRATION, MoveKind.EVACUATION}


@dataclass(frozen=True, slots=True)
class ServerTasks:
    """Each step looks at the rows first, so that it may be repeated after a crash."""

    store: Store
    clock: Clock
    driver: Driver
    destinations: Destinations
    notifications: NotificationEmitter

    def move(self, job: Job) -> None:
        """Bring a server to the host that was claimed for it."""
        server, move = self._under_way(job, "preparing")
        fault: DriverFault | None = None
        if server is not None and move is not None and server.migration_host_name is not None:
            live = move.kind is MoveKind.LIVE_MIGRATION
            fault = _fault_of(self.driver.move, server, move.source, server.migration_host_name, live=live)
        arrive = partial(self._arrive, stopped=bool(job.arguments.get("stopped")))
        self._settle(job, "preparing", arrive if fault is None else partial(self._stay, fault))

    def revert(self, job: Job) -> None:
        """Bring a server back to where it was before a move that its owner did not like."""
        server, move = self._under_way(job, "finished")
        fault: DriverFault | None = None
        if server is not None and move is not None and server.host_name is not None:
            fault = _fault_of(self.driver.move, server, server.host_name, move.source, live=False)
        self._settle(job, "finished", self._return if fault is None else partial(self._stay_there, fault))

    def shelve(self, job: Job) -> None:
        """Take a server off its host and keep the rest."""
        with self.store.read() as tx:
            seen = tx.servers.by_id(job.subject_id)
        fault: DriverFault | None = None
        if seen is not None and seen.task is Task.SHELVING_OFFLOADING and seen.host_name is not None:
            fault = _fault_of(self.driver.destroy, seen, seen.host_name)
        now = self.clock()
        with self.store.write() as tx:
            server, _ = self.destinations.lock(tx, ServerId(job.subject_id))
            tx.work.done([job.id])
            if server is None or server.task is not Task.SHELVING_OFFLOADING:
                return
            if fault is not None:
                self._leave_as_it_was(tx, server, "shelve", fault)
                return
            self.destinations.release(tx, server.id)
            tx.servers.update(
                replace(
                    server,
                    host_id=None,
                    vm_state=VmState.SHELVED_OFFLOADED,
                    task=None,
                    power=Power.SHUTDOWN,
                    updated_at=now,
                )
            )
            self.destinations.bump_group(tx, server.group_id)
            tx.actions.finish(server.id, "shelve", ActionEvent("compute_shelve_instance", now, now, "Success"))

    def unshelve(self, job: Job) -> None:
        """Start a shelved server on the host that was claimed for it."""
        with self.store.read() as tx:
            seen = tx.servers.by_id(job.subject_id)
        fault: DriverFault | None = None
        if seen is not None and seen.task is Task.UNSHELVING and seen.host_name is not None:
            fault = _fault_of(self.driver.spawn, seen, seen.host_name)
        now = self.clock()
        with self.store.write() as tx:
            server, _ = self.destinations.lock(tx, ServerId(job.subject_id))
            tx.work.done([job.id])
            if server is None or server.task is not Task.UNSHELVING:
                return
            event = ActionEvent("compute_unshelve_instance", now, now, "Success")
            changed = replace(server, vm_state=VmState.ACTIVE, task=None, power=Power.RUNNING, updated_at=now)
            if fault is not None:
                self.destinations.release(tx, server.id)
                changed = replace(server, host_id=None, task=None, updated_at=now)
                event = replace(event, result="Error", details="The host failed to start it.", traceback=fault.message)
            tx.servers.update(changed)
            self.destinations.bump_group(tx, server.group_id)
            tx.actions.finish(server.id, "unshelve", event)

    def power(self, job: Job) -> None:
        """Start, stop or reboot."""
        with self.store.read() as tx:
            seen = tx.servers.by_id(job.subject_id)
        verb = str(job.arguments["verb"])
        fault: DriverFault | None = None
        if seen is not None and seen.host_name is not None and seen.task in _POWER_TASKS:
            fault = _fault_of(self.driver.power, seen, seen.host_name, verb)
        now = self.clock()
        with self.store.write() as tx:
            server = tx.servers.by_id(job.subject_id, lock=True)
            tx.work.done([job.id])
            if server is None or server.task not in _POWER_TASKS:
                return
            if fault is not None:
                self._leave_as_it_was(tx, server, verb, fault)
                return
            off = verb == "stop"
            tx.servers.update(
                replace(
                    server,
                    vm_state=VmState.STOPPED if off else VmState.ACTIVE,
                    power=Power.SHUTDOWN if off else Power.RUNNING,
                    task=None,
                    updated_at=now,
                )
            )
            tx.actions.finish(server.id, verb, ActionEvent(f"compute_{verb}_instance", now, now, "Success"))

    def _under_way(self, job: Job, status: str) -> tuple[Server | None, Migration | None]:
        with self.store.read() as tx:
            return tx.servers.by_id(job.subject_id), _move_of(tx, job, status)

    def _settle(self, job: Job, status: str, settle: Callable[[Transaction, Server, Migration], None]) -> None:
        with self.store.write() as tx:
            server, _ = self.destinations.lock(tx, ServerId(job.subject_id))
            move = _move_of(tx, job, status)
            tx.work.done([job.id])
            if server is None or move is None or server.task is Task.DELETING:
                return
            settle(tx, server, move)
            self.destinations.bump_group(tx, server.group_id)

    def _leave_as_it_was(self, tx: Transaction, server: Server, action: str, fault: DriverFault) -> None:
        now = self.clock()
        log.warning("action.failed", server=server.id, action=action, reason=fault.message)
        tx.servers.update(replace(server, task=None, updated_at=now))
        event = ActionEvent(f"compute_{action}_instance", now, now, "Error", "The host failed to do it.", fault.message)
        tx.actions.finish(server.id, action, event)

    def _arrive(self, tx: Transaction, server: Server, move: Migration, *, stopped: bool) -> None:
        now = self.clock()
        source, here = server.host_id, server.migration_host_id
        arrived = replace(server, host_id=here, task=None, flavor=move.new_flavor, updated_at=now)
        if move.kind in _LEAVES_AT_ONCE:
            self.destinations.release(tx, move.uuid)
            power = Power.SHUTDOWN if stopped else server.power
            state = VmState.STOPPED if power is Power.SHUTDOWN else VmState.ACTIVE
            arrived = replace(arrived, migration_host_id=None, vm_state=state, power=power, fault=None)
            tx.migrations.set_status(move.uuid, "completed", now)
        else:
            arrived = replace(arrived, migration_host_id=source, vm_state=VmState.RESIZED)
            tx.migrations.set_status(move.uuid, "finished", now)
        tx.servers.update(arrived)
        tx.actions.finish(server.id, ACTION[move.kind], ActionEvent(f"compute_{move.kind}", now, now, "Success"))
        self.notifications.moved(tx, MOVED[move.kind], server.id)

    def _stay(self, fault: DriverFault, tx: Transaction, server: Server, move: Migration) -> None:
        now = self.clock()
        log.warning("move.failed", server=server.id, reason=fault.message)
        self._give_back(tx, server, move)
        tx.migrations.set_status(move.uuid, "error", now)
        tx.servers.update(replace(server, migration_host_id=None, task=None, updated_at=now))
        event = ActionEvent(f"compute_{move.kind}", now, now, "Error", "The move failed; it stays.", fault.message)
        tx.actions.finish(server.id, ACTION[move.kind], event)

    def _stay_there(self, fault: DriverFault, tx: Transaction, server: Server, _: Migration) -> None:
        """It could not be brought back: its owner may try again, or confirm."""
        now = self.clock()
        log.warning("revert.failed", server=server.id, reason=fault.message)
        tx.servers.update(replace(server, task=None, updated_at=now))
        event = ActionEvent("compute_revert_resize", now, now, "Error", "The move failed; it stays.", fault.message)
        tx.actions.finish(server.id, "revertResize", event)

    def _give_back(self, tx: Transaction, server: Server, move: Migration) -> None:
        """The server holds what its move held for it, and nothing else; what it used more is not counted any more."""
        tx.allocations.find([server.id, move.uuid], lock=True)  # before any inventory, as everybody holds them
        self.destinations.release(tx, server.id)
        tx.claims.add_consumer(server.id, server.project_id, server.user_id, "INSTANCE")
        tx.claims.return_allocations(move.uuid, server.id)
        discharge(tx, server, move.extra)

    def _return(self, tx: Transaction, server: Server, move: Migration) -> None:
        now = self.clock()
        self._give_back(tx, server, move)
        tx.migrations.set_status(move.uuid, "reverted", now)
        state = VmState.STOPPED if server.power is Power.SHUTDOWN else VmState.ACTIVE
        back = replace(
            server,
            host_id=server.migration_host_id,
            migration_host_id=None,
            flavor=move.old_flavor,
            vm_state=state,
            task=None,
            updated_at=now,
        )
        tx.servers.update(back)
        tx.actions.finish(server.id, "revertResize", ActionEvent("compute_revert_resize", now, now, "Success"))
        self.notifications.moved(tx, Event.RESIZE_REVERTED, server.id)


_POWER_TASKS = {Task.POWERING_OFF, Task.POWERING_ON, Task.REBOOTING, Task.REBOOTING_HARD}


def _fault_of(step: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> DriverFault | None:
    """What went wrong, if something did."""
    try:
        step(*args, **kwargs)
    except DriverFault as fault:
        return fault
    return None


def _move_of(tx: Transaction, job: Job, status: str) -> Migration | None:
    moves = tx.migrations.find(server=job.subject_id, statuses=(status,))
    return next((move for move in moves if move.uuid == job.arguments["migration"]), None)
