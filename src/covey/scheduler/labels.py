"""Labels: the set of labels of each row, such as its traits, its aggregates or its zone, as a column of numbers."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import reduce
from itertools import chain
from typing import Generic, TypeVar

import numpy as np

from covey.scheduler.columns import ALL, Mask, Rows, groups_of
from covey.scheduler.new_rows import NewRows, with_values

L = TypeVar("L", bound=Hashable)

_FEW = 4  # sets
_SPARE = 1024  # unused sets that the table may hold before it is built again


class Labels(Generic[L]):
    """A number for each row, into a table of distinct sets: hosts are many, and their sets few.

    All versions of a column share the table, which only grows, so that a change copies the numbers alone. A reader
    of an older version may see it grow: a set is in the table before any label refers to it.
    """

    def __init__(self, of_row: Iterable[frozenset[L]] = ()) -> None:
        self._sets: list[frozenset[L]] = []
        self._numbers: dict[frozenset[L], int] = {}
        self._with: dict[L, list[int]] = {}  # the sets that contain each label
        self._of_row: Rows = np.fromiter(map(self._number, of_row), dtype=np.intp)

    def __getitem__(self, row: int) -> frozenset[L]:
        """Return the labels of a row."""
        return self._sets[self._of_row.item(row)]

    def __contains__(self, label: L) -> bool:
        """Whether any row has the label."""
        return bool(self.any_of([label]).any())

    def __iter__(self) -> Iterator[L]:
        """Iterate over the labels that rows have, each once."""
        present = np.flatnonzero(np.bincount(self._of_row)).tolist()
        return iter(frozenset[L]().union(*(self._sets[number] for number in present)))

    def any_of(self, labels: Iterable[L], rows: Rows | slice = ALL) -> Mask:
        """Return which of the rows have at least one of the labels."""
        return self._in([number for label in labels for number in self._with.get(label, ())], rows)

    def one_of_each(self, sets: Iterable[Iterable[L]], rows: Rows | slice = ALL) -> Mask:
        """Return which of the rows have at least one label of each set."""
        found = [{number for label in labels for number in self._with.get(label, ())} for labels in sets]
        return self._in([*set.intersection(*found)], rows) if found else np.ones(self._size(rows), dtype=np.bool_)

    def all_of(self, labels: Iterable[L]) -> Mask:
        """Return the rows that have all of the labels."""
        return self.one_of_each([label] for label in labels)

    def positions(self, labels: Sequence[L]) -> tuple[Rows, Mask]:
        """Return which one of the labels each row has, by position, and the rows that have several.

        The position is -1 for rows that have none or several.
        """
        found = [tuple(self._with.get(label, ())) for label in labels]
        numbers = np.fromiter(chain.from_iterable(found), dtype=np.intp)
        table = np.full(len(self._sets), -1, dtype=np.intp)
        table[numbers] = np.repeat(np.arange(len(labels)), [len(each) for each in found])
        several = np.bincount(numbers, minlength=table.size) > 1
        table[several] = -1
        return table[self._of_row], several[self._of_row]

    def groups(self, rows: Rows) -> Iterator[tuple[frozenset[L], Rows]]:
        """Yield each set of labels that one of the rows has, with the rows that have it."""
        return ((self._sets[number], same) for number, same in groups_of(self._of_row[rows], rows))

    def changed(self, sets: Mapping[int, frozenset[L]], new: NewRows) -> "Labels[L]":
        """Return the column with other sets, by row, and without labels in new rows; itself if nothing changes."""
        none = self._number(frozenset()) if new.places.size else 0
        numbers = {row: self._number(labels) for row, labels in sets.items()}
        of_row = with_values(self._of_row, numbers, new, none)
        if of_row is self._of_row:
            return self
        other = copy(self)
        other._of_row = of_row  # noqa: SLF001 -- the same class
        if len(self._sets) > 2 * new.size + _SPARE:
            return Labels(map(other.__getitem__, range(new.size)))
        return other

    def reordered(self, order: Rows) -> "Labels[L]":
        """Return the column with its rows in another order."""
        other = copy(self)
        other._of_row = self._of_row[order]  # noqa: SLF001 -- the same class
        return other

    def _in(self, numbers: Sequence[int], rows: Rows | slice) -> Mask:
        """Return which of the rows have one of these sets."""
        if not numbers:
            return np.zeros(self._size(rows), dtype=np.bool_)
        of_row = self._of_row[rows]
        if len(numbers) <= _FEW:  # a comparison costs a fifth of a look into a table
            return reduce(np.logical_or, [of_row == number for number in numbers])
        table = np.zeros(len(self._sets), dtype=np.bool_)
        table[numbers] = True
        mask: Mask = table.take(of_row)
        return mask

    def _size(self, rows: Rows | slice) -> int:
        return (self._of_row[rows] if isinstance(rows, slice) else rows).size

    def _number(self, labels: frozenset[L]) -> int:
        number = self._numbers.get(labels)
        if number is None:
            number = len(self._sets)
            self._sets.append(labels)
            self._numbers[labels] = number
            for label in labels:
                self._with.setdefault(label, []).append(number)
        return number
