"""Power and locks: starting, stopping, rebooting, and what an operator sets by hand."""

from dataclasses import dataclass, replace

from covey.model.access import Actor
from covey.model.errors import Conflict
from covey.model.servers import Server, Task, VmState
from covey.model.work import JobKind
from covey.ports import Access, Clock
from covey.services.servers import Servers, refuse_locked, refuse_state
from covey.storage.store import Store

_RULE = "os_compute_api:"
_TASK = {"start": Task.POWERING_ON, "stop": Task.POWERING_OFF}
_FROM = {"start": VmState.STOPPED, "stop": VmState.ACTIVE}


@dataclass(frozen=True, slots=True)
class Power:
    """None of these changes a server's place."""

    store: Store
    access: Access
    clock: Clock
    servers: Servers

    def switch(self, actor: Actor, server: str, verb: str, request_id: str) -> None:
        """Start a stopped server, or stop a running one. Raises Conflict for any other."""
        self._begin(actor, server, f"servers:{verb}", verb, request_id, _TASK[verb], _FROM[verb])

    def reboot(self, actor: Actor, server: str, request_id: str, *, hard: bool) -> None:
        """Raises Conflict unless it runs; a hard reboot also starts what is stopped."""
        task = Task.REBOOTING_HARD if hard else Task.REBOOTING
        states = (VmState.ACTIVE, VmState.STOPPED) if hard else (VmState.ACTIVE,)
        self._begin(actor, server, "servers:reboot", "reboot", request_id, task, *states)

    def lock(self, actor: Actor, server: str, reason: str | None) -> None:
        """Keep everybody but administrators from changing it."""
        self._note(actor, server, "os-lock-server:lock", locked=True, reason=reason)

    def unlock(self, actor: Actor, server: str) -> None:
        self._note(actor, server, "os-lock-server:unlock", locked=False, reason=None)

    def reset(self, actor: Actor, server: str, state: str) -> None:
        """Set the state by hand, after something outside went wrong. Raises Conflict for one with no place, or two."""

        def change(found: Server) -> Server:
            if found.migration_host_id is not None:
                raise Conflict(f"Instance {found.id} is on its way between two hosts.")
            if state == "active" and found.host_id is None:
                raise Conflict(f"Instance {found.id} is on no host, so it can't be active.")
            return replace(found, vm_state=VmState(state), task=None)

        self.servers.change(actor, server, f"{_RULE}os-admin-actions:reset_state", change)

    def _begin(
        self, actor: Actor, server: str, rule: str, verb: str, request_id: str, task: Task, *states: VmState
    ) -> None:
        now = self.clock()
        with self.store.write() as tx:
            found = self.servers.own(tx, actor, server, _RULE + rule, lock=True)
            refuse_locked(found, actor, self.access)
            refuse_state(found, verb, *states)
            tx.servers.update(replace(found, task=task, updated_at=now))
            tx.actions.add(found, verb, request_id, actor, now)
            tx.work.add(JobKind.POWER, found.id, now, {"verb": verb})

    def _note(self, actor: Actor, server: str, rule: str, *, locked: bool, reason: str | None) -> None:
        operator = self.access.allows(actor, f"{_RULE}os-lock-server:unlock:unlock_override")

        def change(found: Server) -> Server:
            if found.details.locked_by_operator and not operator:  # what an operator locked, an operator unlocks
                self.access.require(actor, f"{_RULE}os-lock-server:unlock:unlock_override")
            by_operator = locked and operator
            details = replace(found.details, locked=locked, locked_reason=reason, locked_by_operator=by_operator)
            return replace(found, details=details)

        self.servers.change(actor, server, _RULE + rule, change)
