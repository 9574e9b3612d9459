"""Columns: the inventories of one resource class, and the providers that have a trait or are in an aggregate."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey.model.providers import MAX_INT, InventoryRecord
from covey.scheduler.fleet import Mask, Rows

IntColumn = NDArray[np.int64]


@dataclass(slots=True)
class InventoryColumn:
    """The inventories of one resource class, a row for each provider that has one. Only `used` changes."""

    rows: Rows  # of the providers, ascending
    capacity: IntColumn
    used: IntColumn
    min_unit: IntColumn
    max_unit: IntColumn
    step: IntColumn
    _all_steps_are_one: bool

    @classmethod
    def of(cls, rows: Sequence[int], records: Sequence[InventoryRecord]) -> "InventoryColumn":
        """Build the columns from the inventories of these provider rows."""

        def column(values: Iterable[int]) -> IntColumn:
            return np.fromiter(values, dtype=np.int64, count=len(records))

        step = column(record.step_size for record in records)
        return cls(
            np.array(rows, dtype=np.intp),
            column(max(record.capacity, -1) for record in records),
            column(record.used for record in records),
            column(record.min_unit for record in records),
            column(record.max_unit for record in records),
            step,
            bool((step == 1).all()),
        )

    def can_allocate(self, amount: int, providers: int) -> Mask:
        """Return which of `providers` rows can serve one allocation of this amount."""
        if amount > MAX_INT:
            return np.zeros(providers, dtype=np.bool_)
        allowed = self._has_room(amount) & (self.min_unit <= amount)
        if not self._all_steps_are_one:
            allowed &= amount % self.step == 0
        return self._for_all_providers(allowed, providers)

    def has_capacity_for(self, amount: int, providers: int) -> Mask:
        """Return which rows have capacity for the sum of several groups, each of which `can_allocate` checks."""
        if amount > MAX_INT:
            return np.zeros(providers, dtype=np.bool_)
        return self._for_all_providers(self._has_room(amount), providers)

    def has_room_at(self, row: int, amount: int) -> bool:
        """Return `has_capacity_for` for one provider, which must have the class."""
        at = int(np.searchsorted(self.rows, row))
        return bool(self.used[at] + amount <= self.capacity[at] and amount <= self.max_unit[at])

    def take(self, row: int, amount: int) -> None:
        """Add to the used amount. A provider without the class is ignored."""
        at = int(np.searchsorted(self.rows, row))
        if at < self.rows.size and self.rows[at] == row:
            self.used[at] += amount

    def among(self, rows: Rows) -> tuple[list[int], list[int], list[int]]:
        """Return the positions in these ascending rows that have the class, with capacity and used amount."""
        if not self.rows.size or not rows.size:
            return [], [], []
        at = np.minimum(np.searchsorted(self.rows, rows), self.rows.size - 1)
        places = np.flatnonzero(self.rows[at] == rows)
        at = at[places]
        return places.tolist(), self.capacity[at].tolist(), self.used[at].tolist()

    def _has_room(self, amount: int) -> Mask:
        allowed: Mask = (self.used + amount <= self.capacity) & (self.max_unit >= amount)
        return allowed

    def _for_all_providers(self, allowed: Mask, providers: int) -> Mask:
        if self.rows.size == providers:
            return allowed
        mask = np.zeros(providers, dtype=np.bool_)
        mask[self.rows] = allowed
        return mask


class LabelIndex:
    """The rows that have each label: a trait, or an aggregate. Masks are built on first use."""

    def __init__(self, of_row: Sequence[frozenset[str]]) -> None:
        self._count = len(of_row)
        self._rows: dict[str, list[int]] = {}
        rows_by_labels: dict[frozenset[str], list[int]] = {}
        for row, labels in enumerate(of_row):
            rows_by_labels.setdefault(labels, []).append(row)
        for labels, rows in rows_by_labels.items():
            for label in labels:
                self._rows.setdefault(label, []).extend(rows)
        self._masks: dict[str, Mask] = {}
        self._no_rows = np.zeros(self._count, dtype=np.bool_)

    def __contains__(self, label: str) -> bool:
        """Whether any row has the label."""
        return label in self._rows

    def rows(self, label: str) -> list[int]:
        """Return the rows that have the label, in no order."""
        return self._rows.get(label, [])

    def mask_of(self, label: str) -> Mask:
        """Return the mask of the label. The caller must not change it."""
        if label not in self._rows:
            return self._no_rows  # not cached: unknown labels are unbounded
        if label not in self._masks:
            mask = np.zeros(self._count, dtype=np.bool_)
            mask[self._rows[label]] = True
            self._masks[label] = mask
        return self._masks[label]

    def any_of(self, labels: Iterable[str]) -> Mask:
        """Return the rows that have at least one of the labels."""
        mask = np.zeros(self._count, dtype=np.bool_)
        for label in labels:
            mask |= self.mask_of(label)
        return mask

    def one_of_each(self, sets: Iterable[Iterable[str]]) -> Mask:
        """Return the rows that have at least one label of each set."""
        mask = np.ones(self._count, dtype=np.bool_)
        for labels in sets:
            mask &= self.any_of(labels)
        return mask
