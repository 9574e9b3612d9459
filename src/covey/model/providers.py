"""Resource providers: trees of entities that have inventories. Every host is the root of one tree."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

MAX_INT = 2147483647  # the largest amount that the Placement API accepts
MAX_CAPACITY = 2**62  # keeps capacity within a signed 64-bit integer, for any allocation ratio


@dataclass(frozen=True, slots=True)
class InventoryRecord:
    """One resource class of a provider: its total, the allocation sizes that it allows, and the amount in use."""

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = MAX_INT
    step_size: int = 1
    allocation_ratio: float = 1.0
    used: int = 0

    @property
    def capacity(self) -> int:
        """The amount that consumers may allocate: (total - reserved) * allocation_ratio."""
        return min(int((self.total - self.reserved) * self.allocation_ratio), MAX_CAPACITY)

    def allows(self, amount: int) -> bool:
        """Return whether one allocation may have this size."""
        return self.min_unit <= amount <= self.max_unit and amount % self.step_size == 0


@dataclass(frozen=True, slots=True)
class ProviderRecord:
    """A provider with everything that the candidate search reads. A root has `root_id` None."""

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
    """A provider's own row, with the uuids of its parent and root."""

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
    """The filters of a provider listing. Each provider is matched on its own, not as part of its tree."""

    name: str | None = None
    uuid: str | None = None
    in_tree: str | None = None  # the uuid of any provider of the tree
    resources: Mapping[str, int] = field(default_factory=dict)
    required: tuple[frozenset[str], ...] = ()  # at least one trait of each set
    forbidden: frozenset[str] = frozenset()
    member_of: tuple[frozenset[str], ...] = ()  # at least one aggregate of each set
    not_member_of: frozenset[str] = frozenset()
