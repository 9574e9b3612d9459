"""Choosing between equals: every host has its luck, which the seed decides and anybody can work out again."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey.scheduler.fleet import Rows

_STEP, _MIX_1, _MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)

_ALL = 2**64 - 1

Lots = NDArray[np.uint16]


def tie_breaking(ids: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """A number for each host that looks random, is the same for the same seed, and depends on no other host."""
    with np.errstate(over="ignore"):
        mixed = (ids.astype(np.uint64) + np.uint64(seed % 2**64)) * _STEP
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX_1
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX_2
        return mixed ^ (mixed >> np.uint64(31))


def pick(rows: Rows, seed: int) -> int:
    """One of the rows, each as likely as any other."""
    return int(rows[0]) if rows.size == 1 else int(rows[_mixed(seed) % rows.size])


def _mixed(seed: int) -> int:
    """The luck of one that has the id 1, without the cost of a column."""
    mixed = (1 + seed) * int(_STEP) & _ALL
    mixed = (mixed ^ mixed >> 30) * int(_MIX_1) & _ALL
    mixed = (mixed ^ mixed >> 27) * int(_MIX_2) & _ALL
    return mixed ^ mixed >> 31


@dataclass(frozen=True, slots=True)
class TieKeys:
    """How one of the best is drawn."""

    seed: int
    subset: int = 1

    def one_of(self, few: list[int], step: int) -> int | None:
        """One of a few candidates at a step of the batch; None if there are none."""
        return few[int(tie_breaking(np.array([step]), self.seed)[0] % np.uint64(len(few)))] if few else None

    def lots(self, ids: NDArray[np.int64]) -> Lots:
        """The luck of each host, in numbers so small that they are sorted quickly."""
        return (tie_breaking(ids, self.seed) >> np.uint64(48)).astype(np.uint16)
