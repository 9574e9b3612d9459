"""Tie breaking: a pseudo-random key for each host, which the seed determines, chooses among hosts that rank equally."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey.scheduler.fleet import Rows

# SplitMix64
_STEP, _MIX_1, _MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)

_ALL = 2**64 - 1

TieKeys = NDArray[np.uint16]


def hash_ids(ids: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """Return a number for each host that looks random, is the same for the same seed, and depends on no other host."""
    with np.errstate(over="ignore"):
        mixed = (ids.astype(np.uint64) + np.uint64(seed % 2**64)) * _STEP
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX_1
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX_2
        return mixed ^ (mixed >> np.uint64(31))


def pick(rows: Rows, seed: int) -> int:
    """Return one of the rows, each with the same probability."""
    return int(rows[0]) if rows.size == 1 else int(rows[_hash_seed(seed) % rows.size])


def _hash_seed(seed: int) -> int:
    """Return the hash of id 1, without the cost of a column."""
    mixed = (1 + seed) * int(_STEP) & _ALL
    mixed = (mixed ^ mixed >> 30) * int(_MIX_1) & _ALL
    mixed = (mixed ^ mixed >> 27) * int(_MIX_2) & _ALL
    return mixed ^ mixed >> 31


@dataclass(frozen=True, slots=True)
class TieBreaker:
    """Chooses among the `subset` top-ranked candidates."""

    seed: int
    subset: int = 1

    def choose(self, candidates: list[int], step: int) -> int | None:
        """Return one of the candidates for a step of a batch; None if there are none."""
        if not candidates:
            return None
        return candidates[int(hash_ids(np.array([step]), self.seed)[0] % np.uint64(len(candidates)))]

    def keys(self, ids: NDArray[np.int64]) -> TieKeys:
        """Return a key for each host, in two bytes, which sort quickly."""
        return (hash_ids(ids, self.seed) >> np.uint64(48)).astype(np.uint16)
