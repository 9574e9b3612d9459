"""Consumers and their allocations of resource providers' inventories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from covey.model.ids import GroupId
from covey.model.providers import InventoryRecord

INSTANCE, MIGRATION = "INSTANCE", "MIGRATION"  # the consumer types that the Compute API creates
INCOMPLETE_OWNER = "00000000-0000-0000-0000-000000000000"  # project and user of consumers that old clients create


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer of resources. Its generation counts its writes and detects concurrent updates."""

    uuid: str
    project_id: str
    user_id: str
    kind: str | None
    generation: int
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Allocation:
    """An amount of one resource class of one provider, allocated to one consumer."""

    consumer: str
    provider_id: int
    resource_class: str
    used: int


@dataclass(frozen=True, slots=True)
class ConsumerAllocations:
    """A consumer with all its allocations and the generations of their providers, by the provider's uuid."""

    consumer: Consumer
    resources: Mapping[str, Mapping[str, int]]
    generations: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class AllocationRequest:
    """Replaces all allocations of a consumer. The consumer's generation is compared only if `checked` is set."""

    consumer: str
    resources: Mapping[str, Mapping[str, int]]  # by the provider's uuid
    project_id: str = INCOMPLETE_OWNER
    user_id: str = INCOMPLETE_OWNER
    kind: str | None = None
    checked: bool = False
    generation: int | None = None  # None: the caller expects a consumer without allocations

    @property
    def is_new(self) -> bool:
        """Whether the caller expects that the consumer does not exist."""
        return self.checked and self.generation is None


@dataclass(frozen=True, slots=True)
class LockedRows:
    """The rows that a write of allocations reads and locks. Only `used` of an inventory may still change."""

    generations: Mapping[str, int]  # by consumer, before this write
    old_allocations: Sequence[Allocation]
    providers: Mapping[str, int]  # ids by uuid of the requested providers that exist
    inventories: Mapping[int, Mapping[str, InventoryRecord]]  # their inventories, by provider id
    exceeding: Sequence[tuple[int, str, int]] = ()  # amounts added in the same round trip that exceed the capacity
    groups: frozenset[GroupId] = frozenset()  # to which consumers belong


@dataclass(frozen=True, slots=True)
class Usage:
    """The number of consumers of one type, and the sums of their allocations by resource class."""

    count: int
    amounts: Mapping[str, int] = field(default_factory=dict)
