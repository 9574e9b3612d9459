"""Rows: which row each provider has, and where the rows of new providers go. Rows are in the order of ids.

So two processes that know the same providers have the same rows, whichever provider they saw first. Values that are not
in columns are kept by id, so that they stay as they are when rows move.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from covey.scheduler.columns import Mask, Overlay, Rows

T = TypeVar("T", bound=np.generic)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class RowOfId(Mapping[int, int]):
    """The row of each provider that exists, by id."""

    __slots__ = ("_ids", "_present")

    def __init__(self, ids: NDArray[np.int64], present: Mask) -> None:
        self._ids, self._present = ids, present

    def __getitem__(self, provider: int) -> int:
        row = int(self._ids.searchsorted(provider))
        if row < self._ids.size and self._ids.item(row) == provider and self._present.item(row):
            return row
        raise KeyError(provider)

    def __iter__(self) -> Iterator[int]:
        ids: list[int] = self._ids[self._present].tolist()
        return iter(ids)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._present))

    def rows(self, providers: Iterable[int]) -> Rows:
        """Return the rows of those of the providers that exist, in their order."""
        wanted = np.fromiter(providers, dtype=np.int64)
        if not self._ids.size:
            return np.empty(0, dtype=np.intp)
        rows = self._ids.searchsorted(wanted)
        known = (self._ids.take(rows, mode="clip") == wanted) & self._present.take(rows, mode="clip")
        return rows if known.all() else rows[known]


class RowOfKey(Mapping[K, int]):
    """The row of each provider by another key, such as its uuid."""

    __slots__ = ("_id_of", "_row_of")

    def __init__(self, id_of: Overlay[K, int], row_of: RowOfId) -> None:
        self._id_of, self._row_of = id_of, row_of

    def __getitem__(self, key: K) -> int:
        return self._row_of[self._id_of[key]]

    def __iter__(self) -> Iterator[K]:
        return iter(self._id_of)

    def __len__(self) -> int:
        return len(self._id_of)


@dataclass(frozen=True, slots=True)
class ByRow(Generic[V]):
    """Values that are kept by id, read by row."""

    _ids: NDArray[np.int64]
    _values: Overlay[int, V]

    def __getitem__(self, row: int) -> V:
        return self._values[self._ids.item(row)]

    def of(self, rows: Rows) -> list[V]:
        """Return the values of these rows, which all have one."""
        return self._values.values_of(self._ids[rows].tolist())


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
