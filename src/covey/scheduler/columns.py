"""Columns and overlays: the values of a fleet that its versions share.

A column is a NumPy array with an entry for each row; a changed column is a new array. An overlay is a large dict of
which each version has its own, without a copy for each change. Values that are not in columns are kept by id.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from functools import reduce
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=np.generic)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Mask = NDArray[np.bool_]
Column = NDArray[np.float64]
Rows = NDArray[np.intp]
ALL = slice(None)  # all rows

_MAX_CHANGES = 1024  # of an overlay
_BLOCK = 256  # rows
_SAMPLE = 8  # blocks
_MAX_TABLE = 2**18  # entries that cost less than sorting the rows
_SMALL = 2**12  # rows; in a shorter column, to look at every candidate is faster than at the blocks
_LARGE = 2**15  # rows; in a shorter column, that is faster if less than half of the rows are candidates


def highest(scores: Column, candidates: Mask) -> Mask:
    """Return the candidates with the highest score; there is at least one candidate."""
    among = np.where(candidates, scores, -np.inf)
    mask: Mask = (among == among.max()) & candidates
    return mask


def number_combinations(columns: Iterable[NDArray[np.int64] | Mask], size: int) -> Rows:
    """Number the combinations of values that occur in the columns, from zero; no value is negative."""
    numbers, most = combinations(columns, size)
    return _renumber(numbers) if most > 1 else numbers


def combinations(columns: Iterable[NDArray[np.int64] | Mask], size: int) -> tuple[Rows, int]:
    """Return a number for each combination of values, and a bound of the numbers; zero is that of zeros.

    Some numbers may not occur.
    """
    numbers, most = np.zeros(size, dtype=np.intp), 1
    for column in _packed(columns) if size else ():
        more = int(column.max()) + 1
        if most * more > _MAX_TABLE:  # keep the numbers small
            numbers = _renumber(numbers)
            most = int(numbers.max()) + 1
        numbers, most = (numbers * more + column if most > 1 else column.astype(np.intp)), most * more
    return numbers, most


def _packed(columns: Iterable[NDArray[np.int64] | Mask]) -> Iterator[NDArray[Any]]:
    """Yield the columns, with up to eight masks in one, without masks that tell no rows apart."""
    masks = list[NDArray[np.uint8]]()
    for column in columns:
        if column.dtype != np.bool_:
            yield column
        elif column.any() and not column.all():
            masks.append(column.view(np.uint8))
    for start in range(0, len(masks), 8):
        yield reduce(lambda packed, mask: packed * np.uint8(2) + mask, masks[start : start + 8])


def _renumber(keys: Rows) -> Rows:
    """Number the values that occur, from zero, in their order."""
    size = int(keys.max()) + 1
    if size > _MAX_TABLE:
        return np.unique(keys, return_inverse=True)[1]
    numbers: Rows = np.cumsum(np.bincount(keys, minlength=size) > 0) - 1  # without sorting
    return numbers[keys]


def groups_of(keys: NDArray[np.intp], rows: Rows) -> Iterator[tuple[int, Rows]]:
    """Yield each key of the rows with the rows that have it; `keys` has an entry for each of the rows."""
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-2)) if rows.size else keys
    return zip(keys[order[starts]].tolist(), np.split(rows[order], starts[1:]) if rows.size else [], strict=True)


class BlockMaxima:
    """The highest score of each block of a column: the best candidate is found without a look at every row."""

    def __init__(self, scores: Column) -> None:
        self._starts = np.arange(0, scores.size, _BLOCK)
        self._maxima = np.maximum.reduceat(scores, self._starts) if scores.size else scores.copy()

    def copy(self) -> "BlockMaxima":
        """Return the same maxima, which are updated independently."""
        other = copy(self)
        other._maxima = self._maxima.copy()  # noqa: SLF001 -- the same class
        return other

    def update(self, scores: Column, row: int) -> None:
        """Follow a change of one row's score."""
        block = row // _BLOCK
        self._maxima[block] = scores[block * _BLOCK : (block + 1) * _BLOCK].max()

    def update_many(self, scores: Column, rows: Rows) -> None:
        """Follow a change of the scores of these rows."""
        if scores.size < _LARGE and rows.size:  # to look at all rows is faster than to find the blocks
            np.maximum.reduceat(scores, self._starts, out=self._maxima)
            return
        blocks = np.unique(rows // _BLOCK)
        self._maxima[blocks] = scores[np.minimum(_rows_of(blocks), scores.size - 1)].max(axis=1)

    def pick(self, scores: Column, candidates: Mask, number: int) -> int:
        """Return one of the candidates with the highest score: by `number`, modulo how many they are.

        There is at least one candidate.
        """
        if scores.size < _SMALL or (scores.size < _LARGE and 2 * int(np.count_nonzero(candidates)) < scores.size):
            return _pick_by_scan(scores, candidates, number)
        highest_score = self._maxima.max()
        part = _span(self._maxima == highest_score)
        best = (scores[part] == highest_score) & candidates[part]
        if not best.any():  # the rows with the highest score are no candidates
            if scores.size < _LARGE:
                return _pick_by_scan(scores, candidates, number)
            part, best = self._search(scores, candidates)
        return int(part.start) + _nth(best, number % int(np.count_nonzero(best)))

    def _search(self, scores: Column, candidates: Mask) -> tuple[slice, Mask]:
        """Return a part of the rows that has all candidates with the highest score, and a mask of these."""
        maxima = np.where(np.logical_or.reduceat(candidates, self._starts), self._maxima, -np.inf)
        bound = maxima.max()
        rows = _rows_of(np.flatnonzero(maxima == bound)[:_SAMPLE]).ravel()
        rows = rows[rows < scores.size]
        highest_score = scores[rows[candidates[rows]]].max()
        if highest_score < bound:  # the maxima are no candidates: only blocks with higher ones may have a better one
            part = _span(maxima > highest_score)
            highest_score = max(highest_score, np.where(candidates[part], scores[part], -np.inf).max())
        part = _span(maxima >= highest_score)
        return part, (scores[part] == highest_score) & candidates[part]


def _pick_by_scan(scores: Column, candidates: Mask, number: int) -> int:
    """Return what BlockMaxima.pick returns, by a look at every candidate."""
    rows = candidates.nonzero()[0]
    values = scores.take(rows)
    best = (values == values.max()).nonzero()[0]
    return rows.item(best.item(number % best.size))


def _rows_of(blocks: Rows) -> Rows:
    """Return the rows of each block; those of the last one may exceed the column."""
    rows: Rows = blocks[:, None] * _BLOCK + np.arange(_BLOCK)
    return rows


def _span(blocks: Mask) -> slice:
    """Return the rows from the first of the blocks to the last one."""
    return slice(int(blocks.argmax()) * _BLOCK, (blocks.size - int(blocks[::-1].argmax())) * _BLOCK)


def _nth(mask: Mask, number: int) -> int:
    """Return one row of the mask, by number from zero. To count is faster than to list the rows, so halve the mask."""
    start, end = 0, mask.size
    while end - start > _BLOCK:
        middle = (start + end) // 2
        before = int(np.count_nonzero(mask[start:middle]))
        start, end, number = (start, middle, number) if number < before else (middle, end, number - before)
    return start + int(np.flatnonzero(mask[start:end])[number])


class Overlay(Mapping[K, V]):
    """An immutable mapping: a base that versions share, and the few changes since. Many changes make a new base."""

    __slots__ = ("_base", "_changes")

    def __init__(self, base: dict[K, V], changes: dict[K, V | None] | None = None) -> None:
        self._base = base
        self._changes = {} if changes is None else changes  # None for a key that is gone

    def __getitem__(self, key: K) -> V:
        value = self._changes[key] if key in self._changes else self._base[key]
        if value is None:
            raise KeyError(key)
        return value

    def __iter__(self) -> Iterator[K]:
        return iter(self._merged())

    def __len__(self) -> int:
        return len(self._merged())

    def values_of(self, keys: Iterable[K]) -> list[V]:
        """Return the values of those of the keys that are there, in their order."""
        base, changes = self._base, self._changes
        if changes:
            found = (changes[key] if key in changes else base.get(key) for key in keys)
            return [value for value in found if value is not None]
        return [value for key in keys if (value := base.get(key)) is not None]

    def changed(self, changes: Mapping[K, V | None]) -> "Overlay[K, V]":
        """Return the mapping with other values; None removes a key."""
        if not changes:
            return self
        other = Overlay(self._base, {**self._changes, **changes})
        return other if len(other._changes) <= _MAX_CHANGES else Overlay(other._merged())

    def _merged(self) -> dict[K, V]:
        if not self._changes:
            return self._base
        merged = self._base.copy()
        for key, value in self._changes.items():
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = value
        return merged


class RowOfId(Mapping[int, int]):
    """The row of each provider that exists, by id. Rows are in the order of ids.

    So two processes that know the same providers have the same rows, whichever provider they saw first.
    """

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
    """Values that are kept by id, so that they stay when rows move, and read by row."""

    _ids: NDArray[np.int64]
    _values: Overlay[int, V]

    def __getitem__(self, row: int) -> V:
        return self._values[self._ids.item(row)]

    def of(self, rows: Rows) -> list[V]:
        """Return the values of these rows, which all have one."""
        return self._values.values_of(self._ids[rows].tolist())
