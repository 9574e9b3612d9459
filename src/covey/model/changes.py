"""What changed about the fleet since somebody last looked."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a reader of the change log got, and which rows beyond that it has seen already."""

    position: int
    seen: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Use:
    """By how much the use of a host, or of another provider, changed; less than nothing when room was given back."""

    host_id: int
    vcpus: int
    memory_mb: int
    disk_gb: int
    others: tuple[tuple[str, int], ...] = ()  # (resource class, how much)


@dataclass(frozen=True, slots=True)
class Changes:
    """What others did; `structure` means that the fleet has to be read anew."""

    cursor: Cursor
    uses: tuple[Use, ...] = ()
    structure: bool = False
