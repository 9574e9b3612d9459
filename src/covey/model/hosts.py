"""Hosts: they run servers. Each host is also a hypervisor, a compute service and a root resource provider."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from covey.model.ids import HostId
from covey.model.inventory import Inventory, ResourceClass

COMPUTE_BINARY = "nova-compute"  # the binary of the compute service that represents a host


@dataclass(frozen=True, slots=True)
class NewHost:
    """A host to add to the fleet."""

    uuid: str
    name: str
    inventories: Mapping[ResourceClass, Inventory]
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
    inventories: Mapping[ResourceClass, Inventory] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()

    @property
    def up(self) -> bool:
        """Whether the host is reachable; only `forced_down` makes it unreachable."""
        return not self.forced_down
