"""Reasons: why hosts were ruled out, counted."""

from dataclasses import dataclass

from covey.scheduler.fleet import Mask


@dataclass(frozen=True, slots=True)
class Reason:
    """Hosts ruled out for one cause, in words for one host and for many; they name no host."""

    rejected: Mask
    one: str
    many: str

    @property
    def count(self) -> int:
        return int(self.rejected.sum())

    def __str__(self) -> str:
        return f"{self.count} {self.one if self.count == 1 else self.many}"
