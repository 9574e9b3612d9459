"""What Covey mirrors of a Nova cloud, which belongs to Nova and is read-only in Covey."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from covey.model.claims import Allocations
from covey.model.flavors import Flavor
from covey.model.group_consumers import ReportedGroup
from covey.model.ids import GroupId, HostId


class NovaKind(StrEnum):
    """The kinds of Covey's own objects that may belong to Nova."""

    AGGREGATE = "aggregate"
    FLAVOR = "flavor"
    GROUP = "server group"


@dataclass(frozen=True, slots=True)
class NovaHost:
    """A compute node, and the compute service that runs it. Its uuid is that of its resource provider."""

    uuid: str
    name: str
    service_host: str
    zone: str | None
    disabled: bool
    disabled_reason: str | None
    up: bool


@dataclass(frozen=True, slots=True)
class NovaAggregate:
    """A host aggregate. The resource providers of its hosts are in the placement aggregate of the same uuid."""

    uuid: str
    name: str
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NovaServer:
    """An instance."""

    id: str
    name: str
    project_id: str
    user_id: str
    status: str
    host: str | None
    task_state: str | None = None
    locked: bool = False
    zone: str | None = None  # that the request asked for
    traits: str | None = None  # that the flavor requires, and with ! those that it forbids: A,!B

    @property
    def is_out_of_reach(self) -> bool:
        """Whether its cell is down: Nova then knows its id and its project only."""
        return not self.user_id

    def updating(self, known: "NovaServer | None") -> "NovaServer":
        """Return this instance; of one out of reach, what was known of it before, with its status."""
        return replace(known, status=self.status, task_state=None) if known and self.is_out_of_reach else self


@dataclass(frozen=True, slots=True)
class NovaNode:
    """A compute node with the id of its resource provider, which is the root of a tree."""

    id: HostId
    host: NovaHost


@dataclass(frozen=True, slots=True)
class NovaInstance:
    """A consumer of allocations on compute nodes, as a plan sees it.

    Its hosts follow from the allocations. If `server` is None, it is a migration, or an instance that the mirror does
    not have yet.
    """

    id: str
    server: NovaServer | None
    held: Allocations
    group: GroupId | None


@dataclass(frozen=True, slots=True)
class NovaCloud:
    """All that is mirrored, by uuid or id. Of a partial reading, the servers are those that changed."""

    hosts: Mapping[str, NovaHost] = field(default_factory=dict)
    aggregates: Mapping[str, NovaAggregate] = field(default_factory=dict)
    flavors: Mapping[str, Flavor] = field(default_factory=dict)
    servers: Mapping[str, NovaServer] = field(default_factory=dict)
    groups: Mapping[str, ReportedGroup] = field(default_factory=dict)
    flavor_access: Mapping[str, frozenset[str]] = field(default_factory=dict)  # projects, by private flavor
    is_partial: bool = False
    deleted_servers: frozenset[str] = frozenset()  # of a partial reading
    migrations: Mapping[str, str] = field(default_factory=dict)  # servers of those in progress
    unread_groups: Mapping[str, str] = field(default_factory=dict)  # why, of those that may exist
    changed_at: datetime | None = None  # when one of the servers last changed, by Nova's clock


@dataclass(frozen=True, slots=True)
class SyncState:
    """The last complete reading of Nova, and the error since, if any."""

    url: str
    read_at: datetime | None  # when the last complete reading began
    error: str | None = None
    warnings: tuple[str, ...] = ()  # what that reading left out

    def lag_s(self, now: datetime) -> float | None:
        """Return the age of what Covey knows of Nova; None before the first reading."""
        return None if self.read_at is None else max(0.0, (now - self.read_at).total_seconds())
