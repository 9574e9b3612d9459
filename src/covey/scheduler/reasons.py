"""Reasons: why hosts were ruled out, counted."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from covey.scheduler.columns import Mask, Rows

Sentences = Iterable[tuple[Rows, str]]
"""Hosts, each with the sentence that explains them to an administrator."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Hosts ruled out for one cause, in words for one host and for many; they name no host."""

    rejected: Mask
    one: str
    many: str

    @property
    def count(self) -> int:
        return int(np.count_nonzero(self.rejected))

    def __str__(self) -> str:
        return f"{self.count} {self.one if self.count == 1 else self.many}"
