"""Who holds how much of which provider."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from covey.model.providers import InventoryRecord

INSTANCE, MIGRATION = "INSTANCE", "MIGRATION"  # the kinds of consumers that are compute's own
UNKNOWN_OWNER = "00000000-0000-0000-0000-000000000000"  # whose project or user an old client did not tell


@dataclass(frozen=True, slots=True)
class Consumer:
    """Somebody who may hold allocations; its generation counts the writes, so that nobody overwrites unseen."""

    uuid: str
    project_id: str
    user_id: str
    kind: str | None
    generation: int
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Allocation:
    """So much of one resource class of one provider, held by one consumer."""

    consumer: str
    provider_id: int
    resource_class: str
    used: int


@dataclass(frozen=True, slots=True)
class Holding:
    """A consumer with all that it holds, by the provider's uuid; each provider's generation beside it."""

    consumer: Consumer
    resources: Mapping[str, Mapping[str, int]]
    generations: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class AllocationRequest:
    """All that a consumer is to hold from now on. No generation is checked unless one is given, be it None."""

    consumer: str
    resources: Mapping[str, Mapping[str, int]]  # by the provider's uuid
    project_id: str = UNKNOWN_OWNER
    user_id: str = UNKNOWN_OWNER
    kind: str | None = None
    checked: bool = False
    generation: int | None = None  # None: the consumer is expected to hold nothing

    @property
    def is_new(self) -> bool:
        """Whether the consumer is expected not to be there."""
        return self.checked and self.generation is None


@dataclass(frozen=True, slots=True)
class Opened:
    """What the books said where consumers are to hold something else; all but what is used nobody else changes."""

    generations: Mapping[str, int]  # of the consumers
    held: Sequence[Allocation]
    providers: Mapping[str, int]  # the ids, by uuid, of those that something is wanted of; others there are not
    stocks: Mapping[int, Mapping[str, InventoryRecord]]  # what these have, by id
    refused: Sequence[tuple[int, str, int]] = ()  # of what was added at once, that which there is no room for


@dataclass(frozen=True, slots=True)
class Usage:
    """What consumers of one kind hold together."""

    count: int
    amounts: Mapping[str, int] = field(default_factory=dict)
