"""Servers: the request, the placement, and the states of a server."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from covey.model.flavors import Flavor
from covey.model.ids import GroupId, HostId, ProjectId, ServerId, UserId


class VmState(StrEnum):
    """The stable state of a server, as Nova names it."""

    BUILDING = "building"
    ACTIVE = "active"
    STOPPED = "stopped"
    RESIZED = "resized"
    SHELVED = "shelved"
    SHELVED_OFFLOADED = "shelved_offloaded"
    ERROR = "error"


class Task(StrEnum):
    """The operation in progress on a server, Nova's task_state."""

    SPAWNING = "spawning"
    DELETING = "deleting"
    REBOOTING = "rebooting"
    REBOOTING_HARD = "rebooting_hard"
    POWERING_ON = "powering-on"
    POWERING_OFF = "powering-off"
    MIGRATING = "migrating"
    RESIZE_PREP = "resize_prep"
    RESIZE_FINISH = "resize_finish"
    RESIZE_REVERTING = "resize_reverting"
    SHELVING = "shelving"
    SHELVING_OFFLOADING = "shelving_offloading"
    UNSHELVING = "unshelving"
    REBUILDING = "rebuilding"


class Power(StrEnum):
    """Whether a server runs."""

    NONE = "none"
    RUNNING = "running"
    PAUSED = "paused"
    SHUTDOWN = "shutdown"
    CRASHED = "crashed"

    @property
    def is_off(self) -> bool:
        """Whether the server ended, or was stopped."""
        return self in {Power.SHUTDOWN, Power.CRASHED}

    @property
    def vm_state(self) -> VmState:
        """The state of a server with this power, when no task changes it."""
        return VmState.STOPPED if self.is_off else VmState.ACTIVE


POWER_STATES = {Power.NONE: 0, Power.RUNNING: 1, Power.PAUSED: 3, Power.SHUTDOWN: 4, Power.CRASHED: 6}
"""The number of each power state in Nova's API and in the database."""


_STATUS_OF_TASK = {
    Task.REBOOTING: "REBOOT",
    Task.REBOOTING_HARD: "HARD_REBOOT",
    Task.MIGRATING: "MIGRATING",
    Task.RESIZE_PREP: "RESIZE",
    Task.RESIZE_FINISH: "RESIZE",
    Task.RESIZE_REVERTING: "REVERT_RESIZE",
    Task.REBUILDING: "REBUILD",
}
_STATUS_OF_STATE = {
    VmState.BUILDING: "BUILD",
    VmState.ACTIVE: "ACTIVE",
    VmState.STOPPED: "SHUTOFF",
    VmState.RESIZED: "VERIFY_RESIZE",
    VmState.SHELVED: "SHELVED",
    VmState.SHELVED_OFFLOADED: "SHELVED_OFFLOADED",
    VmState.ERROR: "ERROR",
}


TASK_STATUSES = frozenset(_STATUS_OF_TASK)  # tasks that have a status of their own


def tasks_shown_as(status: str) -> tuple[Task, ...]:
    """Return the tasks that are shown as the status; none for the status of a VM state."""
    return tuple(task for task, word in _STATUS_OF_TASK.items() if word == status)


def states_shown_as(status: str) -> tuple[VmState, ...]:
    """Return the VM states that are shown as the status, unless a task has a status of its own."""
    return tuple(state for state, word in _STATUS_OF_STATE.items() if word == status)


def status_of(vm_state: VmState, task: Task | None) -> str:
    """Return the status that clients see."""
    if task in _STATUS_OF_TASK and vm_state not in {VmState.BUILDING, VmState.ERROR}:
        return _STATUS_OF_TASK[task]
    return _STATUS_OF_STATE[vm_state]


class FaultKind(StrEnum):
    """Why a server is in ERROR."""

    NO_VALID_HOST = "no_valid_host"  # no host takes it, or each host it was tried on failed
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a server is in ERROR, in a message for its owner."""

    message: str
    created_at: datetime
    code: int = 500
    details: str | None = None  # for administrators
    kind: FaultKind = FaultKind.OTHER


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """What a client requested of a server's placement. It is stored, and applies to later moves."""

    image_id: str | None = None
    zone: str | None = None
    hosts: tuple[HostId, ...] = ()  # the requested destination
    forced: bool = False
    image_required_traits: tuple[str, ...] = ()
    image_forbidden_traits: tuple[str, ...] = ()
    same_host: tuple[str, ...] = ()
    different_host: tuple[str, ...] = ()
    hints: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostRequirements:
    """What a server requires of any host, independent of the host's use and the server's group."""

    project_id: ProjectId | None = None
    zone: str | None = None
    required_traits: frozenset[str] = frozenset()
    forbidden_traits: frozenset[str] = frozenset()
    only_hosts: frozenset[HostId] | None = None
    ignored_hosts: frozenset[HostId] = frozenset()  # hosts to avoid
    ignores_isolation: bool = False  # aggregates of other projects, or with required traits, admit it
    granular_traits: frozenset[str] = frozenset()  # which granular groups require of the provider that serves them

    @property
    def all_required_traits(self) -> frozenset[str]:
        """The traits that open an aggregate to the server, whichever provider has to have them."""
        return self.required_traits | self.granular_traits


@dataclass(frozen=True, slots=True)
class Details:
    """Attributes of a server that the scheduler ignores."""

    metadata: Mapping[str, str] = field(default_factory=dict)
    description: str | None = None
    hostname: str | None = None
    key_name: str | None = None
    config_drive: str = ""
    disk_config: str = "MANUAL"
    access_ipv4: str = ""
    access_ipv6: str = ""
    locked: bool = False
    locked_reason: str | None = None
    locked_by_operator: bool = False
    reservation_id: str = ""
    launch_index: int = 0
    networks: object = None
    image_properties: Mapping[str, str] = field(default_factory=dict)  # as they were at creation


@dataclass(frozen=True, slots=True)
class BootData:
    """What a guest gets at its first boot: user data, in base64, and the public key of its owner."""

    user_data: str | None = None
    key_name: str | None = None
    public_key: str | None = None


@dataclass(frozen=True, slots=True)
class PlacementRecord:
    """How the scheduler placed a server. With the seed, the decision can be reproduced."""

    seed: int = 0
    candidates: int = 0  # hosts that met all constraints
    hosts: int = 0  # hosts in the fleet
    attempts: int = 1
    avoid: tuple[HostId, ...] = ()  # hosts where its build failed
    data_host: str | None = (
        None  # has the data of a shelved server, or what a move brought there whose hosts both ended
    )


class ServerName(NamedTuple):
    """What a list without details shows of a server."""

    id: ServerId
    name: str


@dataclass(frozen=True, slots=True)
class Server:
    """A server."""

    id: ServerId
    name: str
    project_id: ProjectId
    user_id: UserId
    flavor: Flavor
    vm_state: VmState
    task: Task | None
    power: Power
    created_at: datetime
    updated_at: datetime
    launched_at: datetime | None = None
    host_id: HostId | None = None
    host_name: str | None = None
    migration_host_id: HostId | None = None
    migration_host_name: str | None = None
    group_id: GroupId | None = None
    request: PlacementRequest = field(default_factory=PlacementRequest)
    details: Details = field(default_factory=Details)
    placement: PlacementRecord = field(default_factory=PlacementRecord)
    fault: Fault | None = None
    tags: frozenset[str] = frozenset()
    zone: str | None = None  # of its host
    host_up: bool = True

    @property
    def status(self) -> str:
        """Return the status that clients see."""
        return status_of(self.vm_state, self.task)


@dataclass(frozen=True, slots=True)
class ServerFilter:
    """The filters of a list of servers. None matches every server."""

    project_id: ProjectId | None = None
    user_id: str | None = None
    ids: tuple[str, ...] | None = None
    name_matches: str | None = None  # a regular expression
    status: str | None = None
    vm_state: str | None = None
    host: str | None = None
    flavor: str | None = None
    image: str | None = None
    reservation_id: str | None = None
    locked: bool | None = None
    power: Power | None = None
    zone: str | None = None
    changed_since: datetime | None = None
    changed_before: datetime | None = None
    tags: tuple[str, ...] = ()
    tags_any: tuple[str, ...] = ()
    not_tags: tuple[str, ...] = ()  # servers that lack at least one of these
    not_tags_any: tuple[str, ...] = ()  # servers that have none of these
    after: ServerId | None = None
    limit: int | None = None
    sort_key: str = "created_at"
    descending: bool = True
