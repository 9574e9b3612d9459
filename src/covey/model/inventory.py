"""Resource classes of hosts, their inventories, and how capacity is computed."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from covey.model.providers import MAX_CAPACITY, MAX_INT


class ResourceClass(StrEnum):
    """The resource classes that every host provides and every server consumes."""

    VCPU = "VCPU"
    MEMORY_MB = "MEMORY_MB"
    DISK_GB = "DISK_GB"


class AllocationUnits(NamedTuple):
    """The allocation sizes that an inventory allows."""

    min_unit: int = 1
    max_unit: int = MAX_INT
    step_size: int = 1

    def allow(self, amount: int) -> bool:
        """Return whether one allocation may have this size; an amount of 0 is no allocation and always allowed."""
        return not amount or (self.min_unit <= amount <= self.max_unit and amount % self.step_size == 0)


NO_UNIT_LIMITS = AllocationUnits()


@dataclass(frozen=True, slots=True)
class Inventory:
    """One resource class of a host: its total, and how much of it is allocated."""

    total: int
    reserved: int = 0
    allocation_ratio: float = 1.0
    used: int = 0
    units: AllocationUnits = NO_UNIT_LIMITS

    @property
    def capacity(self) -> int:
        """The amount that servers may allocate: (total - reserved) * allocation_ratio."""
        return min(int((self.total - self.reserved) * self.allocation_ratio), MAX_CAPACITY)

    @property
    def free(self) -> int:
        """The unallocated part of the total, without overcommit; never negative, as Nova's clients expect."""
        return max(0, self.total - self.reserved - self.used)
