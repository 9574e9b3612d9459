"""Refusals of instances that another service schedules: the policies of their server group admit no host."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from covey.model.ids import GroupId

_ONE_REQUEST = timedelta(minutes=1)  # a scheduler tries its hosts within this time


class RefusedStep(StrEnum):
    """What was refused: all hosts of a ranking, or the claims of single hosts."""

    RANKING = "ranking"
    CLAIM = "claim"


@dataclass(frozen=True, slots=True)
class CountedReason:
    """Why hosts are ruled out, in words for one host and for many; they name no host."""

    count: int
    one: str
    many: str

    @property
    def words(self) -> str:
        return self.one if self.count == 1 else self.many

    def __str__(self) -> str:
        return f"{self.count} {self.words}"


@dataclass(frozen=True, slots=True)
class InstanceRefusal:
    """The latest refusal of an instance, with counted reasons that add up to the number of hosts."""

    instance: str
    group: GroupId
    step: RefusedStep
    at: datetime
    reasons: tuple[CountedReason, ...]

    @property
    def hosts(self) -> int:
        """How many hosts were offered, or claimed."""
        return sum(reason.count for reason in self.reasons)

    def sentence(self) -> str:
        """Return the counted reasons in a sentence that names no host."""
        hosts = f"of {self.hosts} host{'' if self.hosts == 1 else 's'}"
        return f"{hosts}: {', '.join(map(str, self.reasons))}"

    def without_numbers(self) -> str:
        """Return the same without numbers, for operators who hide the size of their fleet."""
        return f"hosts {', '.join(reason.many for reason in self.reasons)}"

    def following(self, earlier: "InstanceRefusal | None") -> "InstanceRefusal":
        """Return this refusal with the earlier ones of the same request: each claim tries one host."""
        if earlier is None or RefusedStep.RANKING in {self.step, earlier.step} or self.at - earlier.at > _ONE_REQUEST:
            return self
        return replace(self, reasons=_merged((*earlier.reasons, *self.reasons)))


def _merged(reasons: Iterable[CountedReason]) -> tuple[CountedReason, ...]:
    counts: dict[tuple[str, str], int] = {}
    for each in reasons:
        counts[each.one, each.many] = counts.get((each.one, each.many), 0) + each.count
    merged = (CountedReason(count, *words) for words, count in counts.items())
    return tuple(sorted(merged, key=lambda reason: -reason.count))
