"""Hosts: they run servers. Each host is also a hypervisor, a compute service and a root resource provider."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from covey.model.ids import HostId
from covey.model.inventory import Inventory

COMPUTE_BINARY = "nova-compute"  # the binary of the compute service that represents a host


@dataclass(frozen=True, slots=True)
class NewHost:
    """A host to add to the fleet."""

    uuid: str
    name: str
    inventories: Mapping[str, Inventory]  # by resource class
    traits: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Host:
    """A host with its state, inventories and traits."""

    id: HostId
    uuid: str
    name: str
    zone: str | None
    disabled: bool
    disabled_reason: str | None
    forced_down: bool
    updated_at: datetime
    inventories: Mapping[str, Inventory] = field(default_factory=dict)  # by resource class
    traits: frozenset[str] = frozenset()
    agent_down: bool = False  # it has an agent, which does not report up

    @property
    def up(self) -> bool:
        """Whether the host is reachable: no operator forced it down, and its agent, if it has one, reports up."""
        return not (self.forced_down or self.agent_down)


class HostUsage(NamedTuple):
    """The inventories of a host without overcommit, and the number of its servers."""

    vcpus: int
    vcpus_reserved: int
    vcpus_used: int
    memory_mb: int
    memory_mb_reserved: int
    memory_mb_used: int
    disk_gb: int
    disk_gb_reserved: int
    disk_gb_used: int
    servers: int

    @property
    def free_memory_mb(self) -> int:
        """The unallocated memory; never negative, as Nova's clients expect."""
        return max(0, self.memory_mb - self.memory_mb_reserved - self.memory_mb_used)

    @property
    def free_disk_gb(self) -> int:
        """The unallocated disk; never negative, as Nova's clients expect."""
        return max(0, self.disk_gb - self.disk_gb_reserved - self.disk_gb_used)


class HostSummary(NamedTuple):
    """What lists show of a host. Lists that show no usage do not read it."""

    id: HostId
    uuid: str
    name: str
    zone: str | None
    disabled: bool
    disabled_reason: str | None
    forced_down: bool
    updated_at: datetime
    agent_down: bool = False
    usage: HostUsage = HostUsage(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)

    @property
    def up(self) -> bool:
        """Whether the host is reachable: no operator forced it down, and its agent, if it has one, reports up."""
        return not (self.forced_down or self.agent_down)
