"""Columns: one resource class of every provider that has it, and who carries which label."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey.model.providers import MAX_INT, InventoryRecord
from covey.scheduler.fleet import Mask, Rows

Numbers = NDArray[np.int64]


@dataclass(slots=True)
class Stock:
    """One resource class: a row for each provider that has it. Only what is used changes."""

    rows: Rows  # of the providers, ascending
    capacity: Numbers
    used: Numbers
    min_unit: Numbers
    max_unit: Numbers
    step: Numbers
    _even: bool  # everybody gives in steps of one

    @classmethod
    def of(cls, rows: Sequence[int], records: Sequence[InventoryRecord]) -> "Stock":
        """Columns out of the inventories of those rows."""

        def column(values: Iterable[int]) -> Numbers:
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

    def can_give(self, amount: int, providers: int) -> Mask:
        """Which of so many providers can give that much to one consumer."""
        if amount > MAX_INT:
            return np.zeros(providers, dtype=np.bool_)
        may = self._has_room(amount) & (self.min_unit <= amount)
        if not self._even:
            may &= amount % self.step == 0
        return self._spread(may, providers)

    def can_give_together(self, amount: int, providers: int) -> Mask:
        """The same for what several groups want together: portions were looked at one by one."""
        if amount > MAX_INT:
            return np.zeros(providers, dtype=np.bool_)
        return self._spread(self._has_room(amount), providers)

    def has_room_at(self, row: int, amount: int) -> bool:
        """`can_give_together` for one provider, which must have the class."""
        at = int(np.searchsorted(self.rows, row))
        return bool(self.used[at] + amount <= self.capacity[at] and amount <= self.max_unit[at])

    def take(self, row: int, amount: int) -> None:
        """So much more is used, or less; nothing happens where the provider does not have the class."""
        at = int(np.searchsorted(self.rows, row))
        if at < self.rows.size and self.rows[at] == row:
            self.used[at] += amount

    def among(self, rows: Rows) -> tuple[list[int], list[int], list[int]]:
        """Of those ascending rows, the places of those that have the class, with capacity and use."""
        if not self.rows.size or not rows.size:
            return [], [], []
        at = np.minimum(np.searchsorted(self.rows, rows), self.rows.size - 1)
        places = np.flatnonzero(self.rows[at] == rows)
        at = at[places]
        return places.tolist(), self.capacity[at].tolist(), self.used[at].tolist()

    def _has_room(self, amount: int) -> Mask:
        may: Mask = (self.used + amount <= self.capacity) & (self.max_unit >= amount)
        return may

    def _spread(self, may: Mask, providers: int) -> Mask:
        if self.rows.size == providers:
            return may
        mask = np.zeros(providers, dtype=np.bool_)
        mask[self.rows] = may
        return mask


class Labels:
    """Who carries which label: a trait, or membership of an aggregate. Columns are made when first asked for."""

    def __init__(self, of_row: Sequence[frozenset[str]]) -> None:
        self._count = len(of_row)
        self._rows: dict[str, list[int]] = {}
        alike: dict[frozenset[str], list[int]] = {}
        for row, labels in enumerate(of_row):
            alike.setdefault(labels, []).append(row)
        for labels, rows in alike.items():
            for label in labels:
                self._rows.setdefault(label, []).extend(rows)
        self._masks: dict[str, Mask] = {}
        self._nobody = np.zeros(self._count, dtype=np.bool_)

    def __contains__(self, label: str) -> bool:
        """Whether anybody carries it."""
        return label in self._rows

    def rows(self, label: str) -> list[int]:
        """Who carries it, in no order."""
        return self._rows.get(label, [])

    def having(self, label: str) -> Mask:
        """Who carries it; not to be changed."""
        if label not in self._rows:
            return self._nobody  # and is not remembered: there is no end of labels that nobody has
        if label not in self._masks:
            mask = np.zeros(self._count, dtype=np.bool_)
            mask[self._rows[label]] = True
            self._masks[label] = mask
        return self._masks[label]

    def any_of(self, labels: Iterable[str]) -> Mask:
        """Who carries at least one of them."""
        mask = np.zeros(self._count, dtype=np.bool_)
        for label in labels:
            mask |= self.having(label)
        return mask

    def one_of_each(self, sets: Iterable[Iterable[str]]) -> Mask:
        """Who carries at least one of each of the sets."""
        mask = np.ones(self._count, dtype=np.bool_)
        for labels in sets:
            mask &= self.any_of(labels)
        return mask
