"""New rows: where the rows of new providers go, which are in the order of ids."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from covey.scheduler.columns import Mask, Rows

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True)
class NewRows:
    """Rows that a column gains. Each is inserted before an old row, or at the end."""

    ids: NDArray[np.int64]  # ascending
    places: Rows  # the old row after each new one
    size: int  # of the column with them

    @classmethod
    def of(cls, ids: NDArray[np.int64], providers: Iterable[int]) -> "NewRows":
        """Return rows for those of the providers whose ids have none."""
        wanted = np.unique(np.fromiter(providers, dtype=np.int64))
        places = ids.searchsorted(wanted)
        known = ids.take(places, mode="clip") == wanted if ids.size else np.zeros(wanted.size, dtype=np.bool_)
        new = wanted[~known]
        return cls(new, places[~known], ids.size + new.size)

    @classmethod
    def all(cls, size: int) -> "NewRows":
        """Return the rows of a column that has none yet."""
        none = np.zeros(size, dtype=np.intp)
        return cls(none, none, size)

    @property
    def rows(self) -> Rows:
        """The numbers of the new rows."""
        return self.places + np.arange(self.places.size)

    @cached_property
    def _old(self) -> Mask:
        old = np.ones(self.size, dtype=np.bool_)
        old[self.rows] = False
        return old

    def insert(self, column: NDArray[T], fill: int = 0) -> NDArray[T]:
        """Return the column, or the matrix of columns, with `fill` in the new rows; itself if there are none."""
        if not self.places.size:
            return column
        first, number = self.places.item(0), self.places.size
        if first == self.places.item(-1):  # copies of whole parts are much faster than a mask
            filled = np.full((*column.shape[:-1], number), fill, dtype=column.dtype)
            return np.concatenate([column[..., :first], filled, column[..., first:]], axis=-1)
        larger = np.full((*column.shape[:-1], self.size), fill, dtype=column.dtype)
        larger[..., self._old] = column
        return larger

    def moved(self, rows: Rows) -> Rows:
        """Return the present numbers of old rows; a negative number, which is no row, stays."""
        if not self.places.size or self.places.item(0) + self.places.size == self.size:
            return rows
        numbers = np.append(np.flatnonzero(self._old), -1)
        moved: Rows = numbers.take(rows)
        return moved


def with_values(column: NDArray[T], values: Mapping[int, object], new: NewRows, fill: int = 0) -> NDArray[T]:
    """Return the column with these values, by row, and `fill` in other new rows; itself if nothing changes."""
    rows, other = np.array([*values], dtype=np.intp), np.array([*values.values()], dtype=column.dtype)
    changed = new.insert(column, fill)
    if changed is column:
        if (column[rows] == other).all():
            return column
        changed = column.copy()
    changed[rows] = other
    return changed
