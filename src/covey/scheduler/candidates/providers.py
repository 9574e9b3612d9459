"""Providers: every resource provider in columns, a row a provider, with the trees and who shares with whom."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from covey.model.providers import InventoryRecord, ProviderRecord
from covey.model.vocabulary import CUSTOM
from covey.scheduler.candidates.columns import Labels, Stock
from covey.scheduler.fleet import Mask, Rows

SHARES = "MISC_SHARES_VIA_AGGREGATE"
NOBODY = -1  # the parent of a root


@dataclass(frozen=True, slots=True)
class Reach:
    """Who can give to a candidate of which tree: a row for each such pair, those of one tree side by side."""

    provider: Rows
    anchor: Rows  # the root of the tree
    foreign: Mask  # the provider is of another tree, and shares with this one
    starts: Rows  # where each tree begins


class Providers:
    """The columns. Structure is fixed when it is built; use changes in place."""

    def __init__(self, records: Iterable[ProviderRecord]) -> None:
        self.records: Sequence[ProviderRecord] = sorted(records, key=lambda record: record.id)
        self.row_of = {record.id: row for row, record in enumerate(self.records)}
        self.row_of_uuid = {record.uuid: row for row, record in enumerate(self.records)}
        self.uuids = [record.uuid for record in self.records]
        self.parent: Rows = self._rows_of(record.parent_id for record in self.records)
        self.root: Rows = self._rows_of(record.root_id or record.id for record in self.records)
        self.stocks = self._stocks()
        self.traits = Labels([record.traits for record in self.records])
        self.aggregates = Labels([record.aggregates for record in self.records])
        self._sorted: dict[frozenset[str], tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self.records)

    def take(self, provider: int, resource_class: str, amount: int) -> None:
        """A provider, by its id, has so much more in use, or less; who is not in the picture does not matter."""
        row, stock = self.row_of.get(provider), self.stocks.get(resource_class)
        if row is not None and stock is not None:
            stock.take(row, amount)

    def can_give(self, resource_class: str, amount: int) -> Mask:
        """Who can give that much of a class to one consumer."""
        stock = self.stocks.get(resource_class)
        return self._nobody() if stock is None else stock.can_give(amount, len(self))

    def can_give_together(self, resource_class: str, amount: int) -> Mask:
        """Who can give that much of a class to several groups of one consumer."""
        stock = self.stocks.get(resource_class)
        return self._nobody() if stock is None else stock.can_give_together(amount, len(self))

    def in_tree_of(self, uuid: str) -> Mask:
        """The tree of the provider with that uuid; nobody when there is none."""
        row = self.row_of_uuid.get(uuid)
        mask: Mask = self._nobody() if row is None else self.root == self.root[row]
        return mask

    def traits_of(self, row: int) -> tuple[str, ...]:
        """The standard ones, then operators' own, each by name; those of equal providers are one tuple."""
        traits = self.records[row].traits
        if traits not in self._sorted:
            self._sorted[traits] = tuple(sorted(traits, key=lambda trait: (trait.startswith(CUSTOM), trait)))
        return self._sorted[traits]

    def is_above(self, upper: int, lower: int) -> bool:
        """Whether a provider is another one, or an ancestor of it."""
        while lower not in (upper, NOBODY):
            lower = int(self.parent[lower])
        return lower == upper

    @cached_property
    def alone(self) -> Mask:
        """Trees of one provider that gives to no other tree and gets from none: one column answers for them."""
        _, starts = self._trees
        mask: Mask = (np.diff(starts) == 1)[self.root]
        givers, takers = self._shared
        mask[givers] = False
        mask[takers] = False  # a row that is no root is not alone anyway
        return mask

    @cached_property
    def reach(self) -> Reach:
        """All but those alone."""
        own = np.flatnonzero(~self.alone)
        givers, takers = self._shared
        provider = np.concatenate([own, givers])
        anchor = np.concatenate([self.root[own], takers])
        foreign = np.arange(provider.size) >= own.size
        order = np.argsort(anchor, kind="stable")
        provider, anchor, foreign = provider[order], anchor[order], foreign[order]
        starts = np.flatnonzero(np.diff(anchor, prepend=NOBODY))
        return Reach(provider, anchor, foreign, starts)

    @cached_property
    def _shared(self) -> tuple[Rows, Rows]:
        """Who shares with which other tree: rows of providers, and of roots."""
        givers, takers = [np.empty(0, dtype=np.intp)], [np.empty(0, dtype=np.intp)]
        for giver in sorted(self.traits.rows(SHARES)):
            members = [row for name in self.records[giver].aggregates for row in self.aggregates.rows(name)]
            trees = np.unique(self.root[np.array(members, dtype=np.intp)])
            trees = trees[trees != self.root[giver]]
            givers.append(np.full(trees.size, giver, dtype=np.intp))
            takers.append(trees)
        return np.concatenate(givers), np.concatenate(takers)

    @cached_property
    def _trees(self) -> tuple[Rows, Rows]:
        """The rows by tree, and where the tree of each root begins."""
        by_root = np.argsort(self.root, kind="stable")
        return by_root, np.searchsorted(self.root[by_root], np.arange(len(self) + 1))

    def _stocks(self) -> dict[str, Stock]:
        held: dict[str, tuple[list[int], list[InventoryRecord]]] = {}
        for row, record in enumerate(self.records):
            for name, inventory in record.inventories.items():
                rows, inventories = held.setdefault(name, ([], []))
                rows.append(row)
                inventories.append(inventory)
        return {name: Stock.of(rows, inventories) for name, (rows, inventories) in held.items()}

    def _rows_of(self, ids: Iterable[int | None]) -> Rows:
        return np.array([NOBODY if i is None else self.row_of[i] for i in ids], dtype=np.intp)

    def _nobody(self) -> Mask:
        return np.zeros(len(self), dtype=np.bool_)
