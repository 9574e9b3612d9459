"""Changes of the fleet since a reader's cursor."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cursor:
    """A reader's position in the change log, and the rows beyond it that were read already."""

    position: int
    seen: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class UsageChange:
    """The change of a provider's usage. Negative amounts are released resources."""

    host_id: int
    vcpus: int
    memory_mb: int
    disk_gb: int
    others: tuple[tuple[str, int], ...] = ()  # (resource class, amount)


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes by other writers. `structure` means that the whole fleet must be reloaded."""

    cursor: Cursor
    uses: tuple[UsageChange, ...] = ()
    structure: bool = False
