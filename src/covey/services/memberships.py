"""Adds servers to groups and removes them. The servers keep running where they are."""

from contextlib import suppress
from dataclasses import dataclass

from covey.model.access import Actor
from covey.model.errors import Busy, Conflict, Invalid, NotFound, OverQuota, StaleClaim
from covey.model.groups import Group
from covey.model.ids import GroupId, ServerId
from covey.model.nova import NovaKind
from covey.model.quotas import UNLIMITED
from covey.model.servers import Server, Task, VmState
from covey.ports import Access
from covey.scheduler.planning import reject_large_group
from covey.scheduler.violations import objections
from covey.services.groups import Groups
from covey.services.live_fleet import LiveFleet
from covey.services.notifications import Event, NotificationEmitter
from covey.services.obfuscation import obfuscation_for
from covey.services.quotas import Quotas
from covey.services.servers import Servers
from covey.storage.store import Store, Transaction

_SHOW = "os_compute_api:servers:show"
_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Memberships:
    """Operations on the members of a group. Adding a member checks policies only on request."""

    store: Store
    access: Access
    live: LiveFleet
    groups: Groups
    servers: Servers
    quotas: Quotas
    notifications: NotificationEmitter
    max_members: int = UNLIMITED  # of a group, of all users together

    def add(self, actor: Actor, group: str, server: str, *, enforce: bool) -> Group:
        """Raises NotFound, Invalid, OverQuota, Busy, and Conflict for a member of another group or a violation."""
        for _ in range(_ATTEMPTS):
            with suppress(StaleClaim):  # the topology changed
                return self._add(actor, group, server, enforce=enforce)
        raise Busy("The fleet kept changing during this request. Try again in a moment.")

    def _add(self, actor: Actor, group: str, server: str, *, enforce: bool) -> Group:
        with self.store.write() as tx:
            if enforce:
                tx.topology.hold()  # before all rows, as every claim
            found = self._lock(tx, actor, group)
            joining = self._get_joining(tx, actor, found, server)
            if joining.group_id == found.id:
                return obfuscation_for(tx, self.access, actor, found.project_id).obfuscate_group(found)
            if joining.group_id is not None:
                raise Conflict(
                    f"Server {joining.id} is in the server group {joining.group_id}; remove it from that group first."
                )
            if not may_join(joining):
                raise Conflict(f"Server {joining.id} can't join a group: it is being deleted or has no host.")
            self._reject_over_quota(tx, found, joining)
            if enforce:
                self._reject_violation(tx, found, joining)
            tx.groups.join(found.id, joining.id)
            return self._changed(tx, actor, found, Event.MEMBER_ADDED)

    def remove(self, actor: Actor, group: str, server: str) -> Group:
        """Remove a member; the server itself is unchanged. Raises NotFound when it is not a member."""
        with self.store.write() as tx:
            found = self._lock(tx, actor, group)
            if server not in found.members:
                raise NotFound(f"Server {server} is not a member of the server group {found.id}.")
            tx.groups.leave([ServerId(server)])
            return self._changed(tx, actor, found, Event.MEMBER_REMOVED)

    def _lock(self, tx: Transaction, actor: Actor, group: str) -> Group:
        """Lock the group's row, as every placement of a member does. Raises NotFound, Forbidden."""
        tx.groups.lock([GroupId(group)])
        found = self.groups.get_authorized(tx, actor, group, "update")
        tx.nova_mirror.reject(NovaKind.GROUP, found.id, found.name)
        return found

    def _get_joining(self, tx: Transaction, actor: Actor, group: Group, server: str) -> Server:
        found = self.servers.get_authorized(tx, actor, server, _SHOW, lock=True)
        if found.project_id != group.project_id:
            raise Invalid(f"Server {server} can't join the server group {group.id}: it belongs to another project.")
        return found

    def _reject_over_quota(self, tx: Transaction, group: Group, joining: Server) -> None:
        limit = self.quotas.limits_in(tx, group.project_id)["server_group_members"]
        state = tx.groups.states({group.id: group.version})[group.id]
        if limit != UNLIMITED and state.users.get(joining.user_id, 0) >= limit:
            raise OverQuota("Quota exceeded, too many servers in group")
        reject_large_group(state, 1, self.max_members)

    def _reject_violation(self, tx: Transaction, group: Group, joining: Server) -> None:
        """Raise Conflict if the server's host, or either host of its migration, violates a hard policy.

        The commit raises StaleClaim if the topology is then another one.
        """
        view = tx.groups.states({group.id: group.version})[group.id].view()
        hosts = [host for host in (joining.host_id, joining.migration_host_id) if host is not None]
        snapshot = self.live.read(tx)
        tx.topology.require(snapshot.token)
        reasons = [objection for host in hosts for objection in objections(view, host, snapshot.fleet)]
        if reasons:
            listed = "; ".join(dict.fromkeys(reasons))
            raise Conflict(f"Server {joining.id} would violate the group's policies on its host: {listed}.")

    def _changed(self, tx: Transaction, actor: Actor, group: Group, event: Event) -> Group:
        tx.groups.bump([group.id])
        changed = tx.groups.by_id(group.id)
        assert changed is not None
        self.notifications.group_changed(tx, event, changed)
        return obfuscation_for(tx, self.access, actor, group.project_id).obfuscate_group(changed)


def may_join(server: Server) -> bool:
    """Return whether a server can be a member of a group. A shelved one can: it will get a host again."""
    return server.task is not Task.DELETING and (server.vm_state is not VmState.ERROR or server.host_id is not None)
