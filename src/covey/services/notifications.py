"""Notifications: payloads in the format of Nova's versioned notifications, written to the outbox."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from covey.model.actions import MoveKind
from covey.model.flavors import Flavor
from covey.model.groups import Group, rules_of
from covey.model.hosts import COMPUTE_BINARY, Host
from covey.model.ids import GroupId, HostId, ServerId
from covey.model.servers import Fault, Power, Server, VmState
from covey.ports import Clock
from covey.storage.store import Transaction

Payload = dict[str, object]


class Event(StrEnum):
    """The published events, by Nova's names. The reference shows these descriptions."""

    GROUP_CREATED = "server_group.create"
    """A group was created."""

    GROUP_UPDATED = "server_group.update"
    """The name, policies or rules of a group changed."""

    GROUP_DELETED = "server_group.delete"
    """A group was deleted; `members` are its last ones. The servers remain."""

    MEMBER_ADDED = "server_group.add_member"
    """A server joined a group. A request for several servers emits one for each, after all `instance.create.start`, and
    so does a cluster whose servers join the group of its affinity policy; `members` grows from one to the next."""

    MEMBER_REMOVED = "server_group.remove_member"
    """A server was removed from a group and stays on its host. A deleted server emits `instance.delete.end` only."""

    CREATE_STARTED = "instance.create.start"
    """A host is claimed, and the build of a server starts."""

    CREATE_ENDED = "instance.create.end"
    """A server is running."""

    CREATE_FAILED = "instance.create.error"
    """No host can take a server, without a preceding `instance.create.start`; or every host that was tried failed. The
    server has no host and no group."""

    DELETED = "instance.delete.end"
    """A server was deleted. `host` is its last host."""

    LIVE_MIGRATED = "instance.live_migration_post.end"
    """A live migration is complete."""

    RESIZED = "instance.resize_finish.end"
    """A cold migration or a resize is on its new host, with the new flavor, and waits for confirm or revert. A
    confirm emits nothing."""

    RESIZE_REVERTED = "instance.resize_revert.end"
    """A resize was reverted: the server is back on its old host, with its old flavor."""

    EVACUATED = "instance.rebuild.end"
    """An evacuated server is on its new host. As in Nova, that is the end of a rebuild, with the payload of
    rebuilds."""

    SERVICE_UPDATED = "service.update"
    """The agent of a host reports up, or reports no more. Besides Nova's fields the payload has `state`: `up` or
    `down`."""


Emitted = tuple[Event, Payload]

MOVED = {
    MoveKind.MIGRATION: Event.RESIZED,
    MoveKind.RESIZE: Event.RESIZED,
    MoveKind.LIVE_MIGRATION: Event.LIVE_MIGRATED,
    MoveKind.EVACUATION: Event.EVACUATED,
}
_POWER = {power: "pending" if power is Power.NONE else power.value for power in Power}


@dataclass(frozen=True, slots=True)
class NotificationEmitter:
    """Adds notifications to the outbox in the transaction of their event; none when they are disabled."""

    enabled: bool
    clock: Clock
    zone: str = "nova"  # of hosts without a zone

    def group_changed(self, tx: Transaction, event: Event, group: Group) -> None:
        """Emit a change of a group or of its members."""
        if self.enabled:
            self._add(tx, [(event, group_payload(group))])

    def members_added(self, tx: Transaction, group: Group, added: Sequence[ServerId]) -> None:
        """Emit each of several new members of a group; `group` has all of them."""
        if self.enabled:
            self._add(tx, _additions(group, added))

    def create_started(self, tx: Transaction, servers: Sequence[Server]) -> None:
        """Emit the start or the failure of each new server, after their rows are written; then each new member."""
        if self.enabled:
            self._add(tx, [*(self._started(server) for server in servers), *_joined(tx, servers)])

    def create_ended(self, tx: Transaction, servers: Iterable[Server]) -> None:
        """Emit the end of each build. A server that was deleted in between emits nothing here."""
        if self.enabled:
            now = tx.servers.by_ids([server.id for server in servers])
            running = [server for server in now if server.vm_state is VmState.ACTIVE]
            self._add(tx, [(Event.CREATE_ENDED, self._created(server)) for server in running])

    def create_failed(self, tx: Transaction, server: ServerId) -> None:
        """Emit a failed build; the server's row has its fault already."""
        if self.enabled and (failed := tx.servers.by_id(server)) is not None:
            self._add(tx, [(Event.CREATE_FAILED, self._created(failed))])

    def delete_ended(self, tx: Transaction, server: Server) -> None:
        """Emit a deletion, with the server's last state."""
        if self.enabled:
            payload = self._acted(replace(server, task=None, power=Power.NONE), self.clock())
            self._add(tx, [(Event.DELETED, payload)])

    def moved(self, tx: Transaction, event: Event, server: ServerId) -> None:
        """Emit a completed move or revert: an event of MOVED, or RESIZE_REVERTED."""
        if self.enabled and (moved := tx.servers.by_id(server)) is not None:
            self._add(tx, [(event, self._rebuilt(moved) if event is Event.EVACUATED else self._acted(moved))])

    def host_changed(self, tx: Transaction, host: HostId) -> None:
        """Emit another state of a host's compute service."""
        if self.enabled and (found := tx.hosts.by_id(host)) is not None:
            self._add(tx, [(Event.SERVICE_UPDATED, service_payload(found, self.zone))])

    def _add(self, tx: Transaction, emitted: Sequence[Emitted]) -> None:
        tx.outbox.add(emitted, self.clock())

    def _started(self, server: Server) -> Emitted:
        event = Event.CREATE_STARTED if server.vm_state is VmState.BUILDING else Event.CREATE_FAILED
        return event, self._created(server)

    def _created(self, server: Server) -> Payload:
        more: Payload = {
            "instance_name": f"instance-{server.id[:8]}",
            "keypairs": [],
            "tags": sorted(server.tags),
            "trusted_image_certificates": None,
        }
        return _versioned("InstanceCreatePayload", "1.12", server_data(server, self.zone) | more)

    def _acted(self, server: Server, deleted_at: datetime | None = None) -> Payload:
        return _versioned("InstanceActionPayload", "1.8", server_data(server, self.zone, deleted_at))

    def _rebuilt(self, server: Server) -> Payload:
        data = server_data(server, self.zone) | {"trusted_image_certificates": None}
        return _versioned("InstanceActionRebuildPayload", "1.9", data)


def group_payload(group: Group) -> Payload:
    """Return a group's payload, for operators: its policies name real domains. `policy` is the first one."""
    first = group.policies[:1]
    policy: Payload = {"name": "".join(map(str, first)), "rules": rules_of(first)}
    data: Payload = {
        "uuid": group.id,
        "name": group.name,
        "user_id": group.user_id,
        "project_id": group.project_id,
        "policies": [str(policy) for policy in group.policies],
        "policy": _versioned("ServerGroupPolicyPayload", "1.0", policy) if first else None,
        "rules": group.rules,
        "members": list(group.members),
        "hosts": None,
    }
    return _versioned("ServerGroupPayload", "2.0", data)


def service_payload(host: Host, zone: str) -> Payload:
    """Return the payload of a host's compute service."""
    data: Payload = {
        "uuid": host.uuid,
        "host": host.name,
        "binary": COMPUTE_BINARY,
        "topic": "compute",
        "report_count": 0,
        "disabled": host.disabled,
        "disabled_reason": host.disabled_reason,
        "availability_zone": host.zone or zone,
        "forced_down": host.forced_down,
        "last_seen_up": None,
        "version": 0,
        "state": "up" if host.up else "down",
    }
    return _versioned("ServiceStatusPayload", "1.1", data)


def server_data(server: Server, zone: str, deleted_at: datetime | None = None) -> Payload:
    """Return a server's data, for operators: it names the host. What Covey does not keep is null or empty."""
    details = server.details
    return {
        "uuid": server.id,
        "user_id": server.user_id,
        "tenant_id": server.project_id,
        "reservation_id": details.reservation_id,
        "display_name": server.name,
        "display_description": details.description,
        "host_name": details.hostname or server.name,
        "host": server.host_name,
        "node": server.host_name,
        "os_type": None,
        "architecture": None,
        "availability_zone": server.request.zone if server.host_name is None else server.zone or zone,
        "flavor": _flavor(server.flavor),
        "image_uuid": server.request.image_id or "",
        "key_name": details.key_name,
        "kernel_id": "",
        "ramdisk_id": "",
        "created_at": _stamp(server.created_at),
        "launched_at": _stamp(server.launched_at),
        "terminated_at": _stamp(deleted_at),
        "deleted_at": _stamp(deleted_at),
        "updated_at": _stamp(server.updated_at),
        "state": str(server.vm_state) if deleted_at is None else "deleted",
        "power_state": _POWER[server.power],
        "task_state": None if server.task is None else str(server.task),
        "progress": 0,
        "ip_addresses": [],
        "block_devices": [],
        "metadata": dict(details.metadata),
        "locked": details.locked,
        "locked_reason": details.locked_reason,
        "auto_disk_config": "AUTO",
        "request_id": None,
        "action_initiator_user": None,
        "action_initiator_project": None,
        "fault": None if server.fault is None else _fault(server.fault),
    }


def _joined(tx: Transaction, servers: Sequence[Server]) -> list[Emitted]:
    """Return an event for each new member, with the members up to and including it."""
    new: dict[GroupId, list[ServerId]] = {}
    for server in servers:
        if server.group_id is not None:
            new.setdefault(server.group_id, []).append(server.id)
    return [each for group in tx.groups.by_ids(list(new)) for each in _additions(group, new[group.id])]


def _additions(group: Group, added: Sequence[ServerId]) -> list[Emitted]:
    before = tuple(member for member in group.members if member not in set(added))
    steps = (replace(group, members=(*before, *added[:number])) for number in range(1, len(added) + 1))
    return [(Event.MEMBER_ADDED, group_payload(then)) for then in steps]


def _flavor(flavor: Flavor) -> Payload:
    data: Payload = {
        "flavorid": flavor.id,
        "name": flavor.name,
        "vcpus": flavor.vcpus,
        "memory_mb": flavor.memory_mb,
        "root_gb": flavor.disk_gb,
        "ephemeral_gb": flavor.ephemeral_gb,
        "swap": flavor.swap_mb,
        "rxtx_factor": flavor.rxtx_factor,
        "vcpu_weight": 0,
        "disabled": False,
        "is_public": flavor.is_public,
        "extra_specs": dict(flavor.extra_specs),
        "projects": None,
        "description": flavor.description,
    }
    return _versioned("FlavorPayload", "1.4", data)


def _fault(fault: Fault) -> Payload:
    data: Payload = {
        "exception": "NoValidHost",
        "exception_message": fault.message,
        "module_name": "",
        "function_name": "",
        "traceback": fault.details or "",
    }
    return _versioned("ExceptionPayload", "1.1", data)


def _stamp(moment: datetime | None) -> str | None:
    return None if moment is None else f"{moment.isoformat(timespec='seconds')}Z"


def _versioned(name: str, version: str, data: Payload) -> Payload:
    return {
        "nova_object.name": name,
        "nova_object.namespace": "nova",
        "nova_object.version": version,
        "nova_object.data": data,
    }
