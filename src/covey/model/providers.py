"""Resource providers: whatever has something to give, in trees. A host is the root of one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

MOST = 2147483647  # of anything that a provider has
LARGEST = 2**62  # capacity that anybody counts with


@dataclass(frozen=True, slots=True)
class InventoryRecord:
    """How much of one resource class a provider has, in which portions it is given, and how much is taken."""

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = MOST
    step_size: int = 1
    ratio: float = 1.0
    used: int = 0

    @property
    def capacity(self) -> int:
        """What consumers may take in all."""
        return min(int((self.total - self.reserved) * self.ratio), LARGEST)

    def gives(self, amount: int) -> bool:
        """Whether it is given in portions of that size."""
        return self.min_unit <= amount <= self.max_unit and amount % self.step_size == 0


@dataclass(frozen=True, slots=True)
class ProviderRecord:
    """A provider with all that candidates are found by. Without a root of its own named, it is a root itself."""

    id: int
    uuid: str
    name: str
    parent_id: int | None
    root_id: int | None
    generation: int
    inventories: Mapping[str, InventoryRecord] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider by itself."""

    id: int
    uuid: str
    name: str
    generation: int
    parent_id: int | None
    parent_uuid: str | None
    root_id: int
    root_uuid: str
    is_host: bool
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ProviderFilter:
    """Which providers a listing wants; each is judged by itself."""

    name: str | None = None
    uuid: str | None = None
    in_tree: str | None = None  # the uuid of any provider of the tree
    resources: Mapping[str, int] = field(default_factory=dict)
    required: tuple[frozenset[str], ...] = ()  # of each set of traits, at least one
    forbidden: frozenset[str] = frozenset()
    member_of: tuple[frozenset[str], ...] = ()  # of each set of aggregates, at least one
    not_member_of: frozenset[str] = frozenset()
