"""Reasons: why hosts were ruled out, counted for tenants and told one by one to administrators."""

from dataclasses import dataclass

from covey.scheduler.fleet import Mask


@dataclass(frozen=True, slots=True)
class Reason:
    """Hosts that were lost for one cause; the words fit one host and many, and name none."""

    lost: Mask
    one: str
    many: str

    @property
    def count(self) -> int:
        return int(self.lost.sum())

    def __str__(self) -> str:
        return f"{self.count} {self.one if self.count == 1 else self.many}"
