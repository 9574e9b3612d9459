"""Resource classes, inventories, and the arithmetic of capacity."""

from dataclasses import dataclass
from enum import StrEnum

from covey.model.providers import LARGEST


class ResourceClass(StrEnum):
    """What a host has and a server takes."""

    VCPU = "VCPU"
    MEMORY_MB = "MEMORY_MB"
    DISK_GB = "DISK_GB"


@dataclass(frozen=True, slots=True)
class Inventory:
    """How much of one resource class a host has, and how much of that is taken."""

    total: int
    reserved: int = 0
    allocation_ratio: float = 1.0
    used: int = 0

    @property
    def capacity(self) -> int:
        """What servers may take in all: more than there is, when the ratio says so."""
        return min(int((self.total - self.reserved) * self.allocation_ratio), LARGEST)

    @property
    def free(self) -> int:
        """What is left of what is really there; never below zero, as Nova's clients expect."""
        return max(0, self.total - self.reserved - self.used)
