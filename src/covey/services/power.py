"""Power and locks: start, stop, reboot, lock, reset of the state by an operator, and actions without effect."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from covey.model.access import Actor
from covey.model.errors import Conflict
from covey.model.servers import Server, Task, VmState
from covey.model.work import JobKind
from covey.ports import Access, Clock
from covey.services.servers import Servers, reject_locked, require_state
from covey.storage.store import Store

_RULE = "os_compute_api:"
_TASK = {"start": Task.POWERING_ON, "stop": Task.POWERING_OFF}
_FROM = {"start": VmState.STOPPED, "stop": VmState.ACTIVE}


@dataclass(frozen=True, slots=True)
class Power:
    """Actions on servers that keep their hosts."""

    store: Store
    access: Access
    clock: Clock
    servers: Servers

    def switch(self, actor: Actor, server: str, verb: str, request_id: str) -> None:
        """Start a stopped server, or stop an active one. Raises Conflict in any other state."""
        self._begin(actor, server, f"servers:{verb}", verb, request_id, _TASK[verb], _FROM[verb])

    def reboot(self, actor: Actor, server: str, request_id: str, *, hard: bool) -> None:
        """Reboot an active server; a hard reboot also starts a stopped one. Raises Conflict in any other state."""
        task = Task.REBOOTING_HARD if hard else Task.REBOOTING
        states = (VmState.ACTIVE, VmState.STOPPED) if hard else (VmState.ACTIVE,)
        self._begin(actor, server, "servers:reboot", "reboot", request_id, task, *states)

    def lock(self, actor: Actor, server: str, reason: str | None) -> None:
        """Lock a server against changes by anyone but administrators."""
        self._set_lock(actor, server, "os-lock-server:lock", locked=True, reason=reason)

    def unlock(self, actor: Actor, server: str) -> None:
        self._set_lock(actor, server, "os-lock-server:unlock", locked=False, reason=None)

    def reset(self, actor: Actor, server: str, state: str) -> None:
        """Set the state of a server. Raises Conflict during a migration, if shelved, and for ACTIVE without a host.

        A shelved server in another state could not be unshelved any more.
        """

        def change(found: Server) -> Server:
            if found.migration_host_id is not None:
                raise Conflict(f"Instance {found.id} is being migrated between two hosts.")
            if found.vm_state is VmState.SHELVED_OFFLOADED:
                raise Conflict(f"Instance {found.id} is shelved. Unshelve or delete it.")
            if state == "active" and found.host_id is None:
                raise Conflict(f"Instance {found.id} has no host, so it cannot become active.")
            return replace(found, vm_state=VmState(state), task=None)

        self.servers.change(actor, server, f"{_RULE}os-admin-actions:reset_state", change)

    def restore(self, actor: Actor, server: str) -> None:
        """Raise Conflict: a deleted server is gone, so no server is in a state to be restored."""
        self._require_unlocked(
            actor, server, "os-deferred-delete:restore", lambda found: require_state(found, "restore")
        )

    def inject_network_info(self, actor: Actor, server: str) -> None:
        """Do nothing to a server, which has no networks. Raises Conflict for a locked one."""
        self._require_unlocked(actor, server, "os-admin-actions:inject_network_info", lambda _: None)

    def _require_unlocked(self, actor: Actor, server: str, rule: str, check: Callable[[Server], None]) -> None:
        with self.store.read_once() as tx:
            found = self.servers.get_authorized(tx, actor, server, _RULE + rule, changes=True)
        reject_locked(found, actor, self.access)
        check(found)

    def _begin(
        self, actor: Actor, server: str, rule: str, verb: str, request_id: str, task: Task, *states: VmState
    ) -> None:
        now = self.clock()
        with self.store.write() as tx:
            found = self.servers.get_authorized(tx, actor, server, _RULE + rule, lock=True)
            reject_locked(found, actor, self.access)
            require_state(found, verb, *states)
            tx.servers.update(replace(found, task=task, updated_at=now))
            tx.actions.add(found, verb, request_id, actor, now)
            tx.work.add(JobKind.POWER, found.id, {"verb": verb})

    def _set_lock(self, actor: Actor, server: str, rule: str, *, locked: bool, reason: str | None) -> None:
        operator = self.access.allows(actor, f"{_RULE}os-lock-server:unlock:unlock_override")

        def change(found: Server) -> Server:
            if found.details.locked_by_operator and not operator:  # only an operator unlocks what an operator locked
                self.access.require(actor, f"{_RULE}os-lock-server:unlock:unlock_override")
            by_operator = locked and operator
            details = replace(found.details, locked=locked, locked_reason=reason, locked_by_operator=by_operator)
            return replace(found, details=details)

        self.servers.change(actor, server, _RULE + rule, change)
