"""Resource classes, inventories, and the arithmetic of capacity."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from covey.model.providers import LARGEST, MOST


class ResourceClass(StrEnum):
    """What a host has and a server takes."""

    VCPU = "VCPU"
    MEMORY_MB = "MEMORY_MB"
    DISK_GB = "DISK_GB"


class Units(NamedTuple):
    """In which portions something is given out."""

    least: int = 1
    most: int = MOST
    step: int = 1

    def give(self, amount: int) -> bool:
        """Whether a server may have so much; what it does not ask for is no matter."""
        return not amount or (self.least <= amount <= self.most and amount % self.step == 0)


ANY_AMOUNT = Units()


@dataclass(frozen=True, slots=True)
class Inventory:
    """How much of one resource class a host has, and how much of that is taken."""

    total: int
    reserved: int = 0
    allocation_ratio: float = 1.0
    used: int = 0
    units: Units = field(default=ANY_AMOUNT, compare=False)  # as the Placement API set them; nobody else does

    @property
    def capacity(self) -> int:
        """What servers may take in all: more than there is, when the ratio says so."""
        return min(int((self.total - self.reserved) * self.allocation_ratio), LARGEST)

    @property
    def free(self) -> int:
        """What is left of what is really there; never below zero, as Nova's clients expect."""
        return max(0, self.total - self.reserved - self.used)
