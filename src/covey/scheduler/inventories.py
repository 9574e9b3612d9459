"""Inventories: capacity and free amounts of every resource class, and the hosts that a server of some size fits."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covey.model.inventory import NO_UNIT_LIMITS, AllocationUnits, ResourceClass
from covey.model.providers import InventoryRecord, ProviderRecord
from covey.model.resources import Resources
from covey.scheduler.columns import BlockMaxima, Column, Mask, Rows
from covey.scheduler.new_rows import NewRows

IntMatrix = NDArray[np.int64]

UNLIMITED = 2**62  # more than any host has
MAX_SIZES = 32  # server sizes whose fit is cached
_NO_LIMITS: IntMatrix = np.array(NO_UNIT_LIMITS, dtype=np.int64)[:, None]
RESOURCES = tuple(str(kind) for kind in ResourceClass)
"""The first classes of every fleet: the free amounts of these give a host its weight."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The weight of each free resource (Nova's cpu, ram and disk weight multipliers)."""

    cpu: float = 1.0
    ram: float = 1.0
    disk: float = 1.0


class Inventories:
    """Matrices with a line for each resource class and a column for each row of the fleet; use changes in place.

    A row without an inventory of a class has neither capacity nor room in it, and amounts taken there do not count.
    """

    def __init__(self, records: Sequence[ProviderRecord], hosts: Mask, weights: Weights) -> None:
        self.classes = {name: number for number, name in enumerate(RESOURCES)}  # the line of each class
        self.exists = np.zeros((len(RESOURCES), 0), dtype=np.bool_)
        self.capacity: IntMatrix = np.zeros((len(RESOURCES), 0), dtype=np.int64)
        self.free: IntMatrix = self.capacity.copy()
        # min_unit, max_unit and step_size of each row, for each line where some row restricts them
        self.units: dict[int, IntMatrix] = {}
        self.weight: Column = np.zeros(0)
        self._weights = weights
        self._sizes: dict[Resources, int] = {}  # the line of each size in the following matrices
        self._vectors: dict[Resources, NDArray[np.int64]] = {}
        self._amounts: IntMatrix
        self._fits: NDArray[np.bool_]
        self._sizes_allowed: NDArray[np.bool_] | None  # the same for allocation sizes alone
        self._grow(NewRows.all(len(records)), (name for record in records for name in record.inventories))
        self._set(dict(enumerate(records)), keep_use=False)
        self._weigh_all(hosts)

    def take(self, row: int, amounts: Resources, sign: int = 1) -> None:
        """Take amounts of a row; negative amounts are given back, and all amounts with the sign -1."""
        free = self.free[:, row]
        free -= sign * self._vector(amounts) * self.exists[:, row]
        self.weight[row] = self._weigh(*free[: len(RESOURCES)].tolist())
        self._maxima.update(self.weight, row)
        if self._sizes:
            fits, number = np.logical_and.reduce(free >= self._amounts, axis=1), len(self._sizes)
            if self._sizes_allowed is not None:
                fits &= self._sizes_allowed[:number, row]
            self._fits[:number, row] = fits

    def take_many(self, rows: Rows, amounts: Sequence[Resources], sign: int = 1) -> None:
        """Take amounts of many rows, which may repeat; with the sign -1, give them back."""
        self._take(rows, sign * np.array([self._vector(each) for each in amounts], dtype=np.int64).T)

    def take_equal(self, rows: Rows, amounts: Resources) -> None:
        """Take the same amounts of each of the rows, which may repeat."""
        self._take(rows, np.repeat(self._vector(amounts)[:, None], rows.size, axis=1))

    def _take(self, rows: Rows, amounts: IntMatrix) -> None:
        for line, taken in enumerate(amounts * self.exists[:, rows]):
            if taken.any():
                np.subtract.at(self.free[line], rows, taken)
        free = self.free[:, rows]
        self.weight[rows] = self._weigh(*free[: len(RESOURCES)])
        self._maxima.update_many(self.weight, rows)
        if self._sizes:
            fits, number = (free[None] >= self._amounts[:, :, None]).all(axis=1), len(self._sizes)
            if self._sizes_allowed is not None:
                fits &= self._sizes_allowed[:number, rows]
            self._fits[:number, rows] = fits

    def heaviest(self, candidates: Mask, number: int) -> int:
        """Return one of the candidates with the highest weight: by `number`, modulo how many they are."""
        return self._maxima.pick(self.weight, candidates, number)

    def fits(self, amounts: Resources) -> Mask:
        """Return the rows that have room for the amounts and allow their sizes; cached, and kept up to date."""
        number = self._sizes.get(amounts)
        if number is None:
            number = self._add_size(amounts)
        mask: Mask = self._fits[number]
        return mask

    def allows_sizes(self, amounts: Resources) -> Mask | None:
        """Return the rows whose inventories allow these allocation sizes, free or not; None if all allow any."""
        if not self.units:
            return None
        mask = np.ones(self.weight.size, dtype=np.bool_)
        for name, amount in amounts.items():
            units = self.units.get(self.classes.get(name, -1))
            if units is not None:
                least, most, step = units
                mask &= (least <= amount) & (amount <= most) & (amount % step == 0)
        return mask

    def units_at(self, name: str, row: int) -> AllocationUnits:
        """Return the allocation sizes that a row allows for a class."""
        units = self.units.get(self.classes.get(name, -1))
        return NO_UNIT_LIMITS if units is None else AllocationUnits(*units[:, row].tolist())

    def provides(self, name: str) -> bool:
        """Whether any row has an inventory of the class."""
        line = self.classes.get(name)
        return line is not None and bool(self.exists[line].any())

    def free_of(self, name: str) -> NDArray[np.int64]:
        """Return the free amount of a class for each row."""
        line = self.classes.get(name)
        free: NDArray[np.int64] = np.zeros(self.weight.size, dtype=np.int64) if line is None else self.free[line]
        return free

    def count_fits(self, amounts: Resources) -> NDArray[np.int64]:
        """Return how many servers of this size each row has room for."""
        most, allowed = self.count_multiples(amounts), self.allows_sizes(amounts)
        return most if allowed is None else np.where(allowed, most, 0)

    def count_multiples(self, amounts: Resources) -> NDArray[np.int64]:
        """Return how many times each row has these amounts, for any allocation sizes."""
        most = np.full(self.weight.size, UNLIMITED, dtype=np.int64)
        for name, amount in amounts.items():
            np.minimum(most, np.maximum(self.free_of(name), 0) // amount, out=most)
        return most

    def weight_after(self, amounts: Resources) -> Callable[[int, int], float]:
        """Return a function from (row, times) to the row's weight after it took the amounts `times` times."""
        weigh: Callable[..., float] = self._weigh
        free, (vcpus, memory_mb, disk_gb) = self.free.item, (amounts.get(name, 0) for name in RESOURCES)

        def weight(row: int, times: int) -> float:
            left = free(0, row) - vcpus * times, free(1, row) - memory_mb * times, free(2, row) - disk_gb * times
            return weigh(*left)

        has = self.exists[: len(RESOURCES)]
        if has.all():
            return weight

        def weight_of_own(row: int, times: int) -> float:
            """Another provider serves what the row has no inventory of."""
            left = (free(line, row) - each * times * has.item(line, row) for line, each in enumerate(taken))
            return weigh(*left)

        taken = vcpus, memory_mb, disk_gb
        return weight_of_own

    def equal(self, row: int, record: ProviderRecord) -> bool:
        """Return whether a row has the inventories of a record; use is not compared."""
        has = {name for name, line in self.classes.items() if row < self.weight.size and self.exists[line, row]}
        return has == record.inventories.keys() and all(
            self.capacity[self.classes[name], row] == max(each.capacity, -1)
            and self.units_at(name, row) == (each.min_unit, each.max_unit, each.step_size)
            for name, each in record.inventories.items()
        )

    def copy(self) -> "Inventories":
        """Return the same inventories whose use changes independently."""
        other = copy(self)
        other.free, other.weight = self.free.copy(), self.weight.copy()
        other._fits = self._fits[: len(self._sizes)].copy()  # noqa: SLF001
        if self._sizes_allowed is not None:
            other._sizes_allowed = self._sizes_allowed[: len(self._sizes)]  # noqa: SLF001 -- grows by a new matrix
        other._sizes, other._vectors = dict(self._sizes), dict(self._vectors)  # noqa: SLF001 -- the same class
        other._maxima = self._maxima.copy()  # noqa: SLF001
        return other

    def changed(
        self, records: Mapping[int, ProviderRecord | None], replaced: Iterable[int], hosts: Mask, new: NewRows
    ) -> "Inventories":
        """Return the inventories of other records, by row, with new rows.

        Use stays for a class that a row has already. Rows in `replaced` are other providers now, and so is their use.
        """
        other = copy(self)
        other._change(records, replaced, hosts, new)  # noqa: SLF001 -- the same class
        return other

    def _change(
        self, records: Mapping[int, ProviderRecord | None], replaced: Iterable[int], hosts: Mask, new: NewRows
    ) -> None:
        self.classes, self.units = dict(self.classes), dict(self.units)
        self._grow(new, (name for each in records.values() if each for name in each.inventories))
        self.exists[:, [*replaced]] = False
        self._set(records, keep_use=True)
        self._weigh_all(hosts)

    def _grow(self, new: NewRows, names: Iterable[str]) -> None:
        """Insert the new rows, and add a line for each class that is new; the matrices are then private ones."""
        for name in names:
            self.classes.setdefault(name, len(self.classes))
        for column in ("exists", "capacity", "free"):
            matrix = new.insert(getattr(self, column))
            missing = len(self.classes) - len(matrix)
            if missing:
                matrix = np.vstack([matrix, np.zeros((missing, new.size), dtype=matrix.dtype)])
            setattr(self, column, matrix.copy() if matrix is getattr(self, column) else matrix)
        self.units = {line: new.insert(units) for line, units in self.units.items()}
        for units in self.units.values() if new.places.size else ():
            units[:, new.rows] = _NO_LIMITS

    def _set(self, records: Mapping[int, ProviderRecord | None], *, keep_use: bool) -> None:
        """Write the records' rows."""
        by_class: dict[str, tuple[list[int], list[InventoryRecord]]] = {}
        for row, record in records.items():
            for name, inventory in record.inventories.items() if record is not None else ():
                rows, inventories = by_class.setdefault(name, ([], []))
                rows.append(row)
                inventories.append(inventory)
        all_rows = np.array([*records], dtype=np.intp)
        for name, line in self.classes.items():
            rows, inventories = by_class.get(name, ([], []))
            self._set_line(line, all_rows, np.array(rows, dtype=np.intp), inventories, keep_use=keep_use)

    def _set_line(
        self, line: int, all_rows: Rows, rows: Rows, inventories: Sequence[InventoryRecord], *, keep_use: bool
    ) -> None:
        """Write one class: `rows` have these inventories of it, and the rest of `all_rows` have none."""
        used = np.fromiter((each.used for each in inventories), dtype=np.int64, count=rows.size)
        if keep_use:
            used = np.where(self.exists[line, rows], self.capacity[line, rows] - self.free[line, rows], used)
        for matrix in (self.exists, self.capacity, self.free):
            matrix[line, all_rows] = 0
        capacity = np.fromiter((max(each.capacity, -1) for each in inventories), dtype=np.int64, count=rows.size)
        self.exists[line, rows], self.capacity[line, rows], self.free[line, rows] = True, capacity, capacity - used
        units = [AllocationUnits(each.min_unit, each.max_unit, each.step_size) for each in inventories]
        if line in self.units or any(each != NO_UNIT_LIMITS for each in units):
            matrix = self.units.get(line, np.broadcast_to(_NO_LIMITS, (3, self.free.shape[1]))).copy()
            matrix[:, all_rows] = _NO_LIMITS
            matrix[:, rows] = np.array(units, dtype=np.int64).reshape(-1, 3).T
            self.units[line] = matrix

    def _vector(self, amounts: Resources) -> NDArray[np.int64]:
        """Return the amounts by line. Classes that the fleet does not have are left out."""
        vector = self._vectors.get(amounts)
        if vector is None:
            if len(self._vectors) >= MAX_SIZES:
                self._vectors.clear()
            vector = self._vectors[amounts] = np.array([amounts.get(name, 0) for name in self.classes], dtype=np.int64)
        return vector

    def _add_size(self, amounts: Resources) -> int:
        if len(self._sizes) >= MAX_SIZES:
            self._forget_sizes()
        number = len(self._sizes)
        # A class that is not requested is not checked: a diskless server fits a host with an over-full disk.
        requested = np.array([amounts.get(name, -UNLIMITED) for name in self.classes], dtype=np.int64)
        if not amounts.keys() <= self.classes.keys():
            requested[0] = UNLIMITED  # no provider has it
        lines = np.flatnonzero(requested > -UNLIMITED)
        mask = np.ones(self.weight.size, dtype=np.bool_)
        for line in lines:
            mask &= self.exists[line]
        for line in lines if mask.any() else ():
            mask &= self.free[line] >= requested[line]
        allowed = self.allows_sizes(amounts)
        if allowed is not None and self._sizes_allowed is not None:
            mask &= allowed
            self._sizes_allowed = _with_line(self._sizes_allowed, number, allowed)
        self._amounts = np.vstack([self._amounts, requested])
        self._fits = _with_line(self._fits, number, mask)
        self._sizes[amounts] = number
        return number

    def _forget_sizes(self) -> None:
        none = np.empty((0, self.weight.size), dtype=np.bool_)
        self._sizes, self._vectors, self._fits, self._sizes_allowed = {}, {}, none, none if self.units else None
        self._amounts = np.empty((0, len(self.classes)), dtype=np.int64)

    def _weigh_all(self, hosts: Mask) -> None:
        """Compute the weights: free amounts as shares of the largest host."""
        capacity = self.capacity[: len(RESOURCES)]
        largest = np.maximum((capacity if hosts.all() else capacity * hosts).max(axis=1, initial=1), 1).tolist()
        multipliers = (self._weights.cpu, self._weights.ram, self._weights.disk)
        self._per_unit = tuple(weight / float(most) for weight, most in zip(multipliers, largest, strict=True))
        self.weight = self._weigh(*self.free[: len(RESOURCES)])
        self._maxima = BlockMaxima(self.weight)
        self._forget_sizes()

    def _weigh(self, vcpus: Any, memory_mb: Any, disk_gb: Any) -> Any:  # noqa: ANN401 -- numbers or columns
        """Term by term, so that equal room weighs the same to the last bit in a column and as a number."""
        cpu, ram, disk = self._per_unit
        return vcpus * cpu + memory_mb * ram + disk_gb * disk


def _with_line(matrix: NDArray[np.bool_], number: int, line: Mask) -> NDArray[np.bool_]:
    """Write the next line, of this number, and return the matrix, or a larger one in which there is room for it."""
    if number == len(matrix):
        larger = np.empty((max(4, 2 * number), line.size), dtype=np.bool_)
        larger[:number] = matrix
        matrix = larger
    matrix[number] = line
    return matrix
