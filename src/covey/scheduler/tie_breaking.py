"""Tie breaking: a pseudo-random key for each host, which the seed determines, chooses among hosts that rank equally."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SPLITMIX = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""The constants of the SplitMix64 generator."""
_STEP, _MIX_1, _MIX_2 = map(np.uint64, SPLITMIX)

TieKeys = NDArray[np.uint16]


def hash_ids(ids: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """Return a number for each host that looks random, is the same for the same seed, and depends on no other host."""
    with np.errstate(over="ignore"):
        mixed = (ids.astype(np.uint64) + np.uint64(seed % 2**64)) * _STEP
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX_1
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX_2
        return mixed ^ (mixed >> np.uint64(31))


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
