"""Columns: NumPy arrays with an entry for each row of the fleet. A changed column is a new array."""

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=np.generic)
Mask = NDArray[np.bool_]
Column = NDArray[np.float64]
Rows = NDArray[np.intp]

_FEW = 8  # candidates are few below one host in eight


def extended(column: NDArray[T], size: int, fill: int = 0) -> NDArray[T]:
    """Return the column, or the matrix of columns, with `fill` in new rows; itself if there are none."""
    missing = size - column.shape[-1]
    if not missing:
        return column
    return np.concatenate([column, np.full((*column.shape[:-1], missing), fill, dtype=column.dtype)], axis=-1)


def with_values(column: NDArray[T], values: Mapping[int, object], size: int, fill: int = 0) -> NDArray[T]:
    """Return the column with these values, by row, and `fill` in other new rows; itself if nothing changes."""
    rows, new = np.array([*values], dtype=np.intp), np.array([*values.values()], dtype=column.dtype)
    changed = extended(column, size, fill)
    if changed is column:
        if (column[rows] == new).all():
            return column
        changed = column.copy()
    changed[rows] = new
    return changed


def highest(scores: Column, candidates: Mask) -> Mask:
    """Return the candidates with the highest score; there is at least one candidate."""
    among = np.where(candidates, scores, -np.inf)
    mask: Mask = (among == among.max()) & candidates
    return mask


def best_rows(scores: Column, candidates: Mask) -> Rows:
    """Return the rows of the candidates with the highest score; where they are few, look at those alone."""
    if np.count_nonzero(candidates) * _FEW > candidates.size:
        return np.flatnonzero(highest(scores, candidates))
    rows = np.flatnonzero(candidates)
    among = scores[rows]
    best: Rows = rows[among == among.max()]
    return best
