"""Providers: every resource provider in columns, a row a provider, with provider trees and sharing providers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from covey.model.providers import InventoryRecord, ProviderRecord
from covey.model.vocabulary import CUSTOM
from covey.scheduler.candidates.columns import InventoryColumn, LabelIndex
from covey.scheduler.fleet import Mask, Rows

SHARES = "MISC_SHARES_VIA_AGGREGATE"
NO_PROVIDER = -1  # the parent row of a root


@dataclass(frozen=True, slots=True)
class AnchoredProviders:
    """The providers that can serve a candidate of each tree: a row for each pair, sorted by tree."""

    provider: Rows
    anchor: Rows  # the root of the tree
    foreign: Mask  # the provider is in another tree, and shares with this one
    starts: Rows  # the first row of each tree


class Providers:
    """The columns. Structure is fixed at construction; used amounts change in place."""

    def __init__(self, records: Iterable[ProviderRecord]) -> None:
        self.records: Sequence[ProviderRecord] = sorted(records, key=lambda record: record.id)
        self.row_of = {record.id: row for row, record in enumerate(self.records)}
        self.row_of_uuid = {record.uuid: row for row, record in enumerate(self.records)}
        self.uuids = [record.uuid for record in self.records]
        self.parent: Rows = self._rows_of(record.parent_id for record in self.records)
        self.root: Rows = self._rows_of(record.root_id or record.id for record in self.records)
        self.inventories_by_class = self._inventory_columns()
        self.traits = LabelIndex([record.traits for record in self.records])
        self.aggregates = LabelIndex([record.aggregates for record in self.records])
        self._sorted: dict[frozenset[str], tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self.records)

    def take(self, provider: int, resource_class: str, amount: int) -> None:
        """Add to the used amount of a provider, by its id. An unknown provider or class is ignored."""
        row, column = self.row_of.get(provider), self.inventories_by_class.get(resource_class)
        if row is not None and column is not None:
            column.take(row, amount)

    def can_allocate(self, resource_class: str, amount: int) -> Mask:
        """Return the providers that can serve one allocation of this amount."""
        column = self.inventories_by_class.get(resource_class)
        return self._no_providers() if column is None else column.can_allocate(amount, len(self))

    def has_capacity_for(self, resource_class: str, amount: int) -> Mask:
        """Return the providers that have capacity for this amount, summed over several request groups."""
        column = self.inventories_by_class.get(resource_class)
        return self._no_providers() if column is None else column.has_capacity_for(amount, len(self))

    def in_tree_of(self, uuid: str) -> Mask:
        """Return the tree of the provider with this uuid; all False for an unknown one."""
        row = self.row_of_uuid.get(uuid)
        mask: Mask = self._no_providers() if row is None else self.root == self.root[row]
        return mask

    def traits_of(self, row: int) -> tuple[str, ...]:
        """Return the provider's traits: standard ones, then custom ones, each by name."""
        traits = self.records[row].traits
        if traits not in self._sorted:
            self._sorted[traits] = tuple(sorted(traits, key=lambda trait: (trait.startswith(CUSTOM), trait)))
        return self._sorted[traits]

    def is_above(self, upper: int, lower: int) -> bool:
        """Whether `upper` is `lower` or an ancestor of it."""
        while lower not in (upper, NO_PROVIDER):
            lower = int(self.parent[lower])
        return lower == upper

    @cached_property
    def standalone(self) -> Mask:
        """Trees of one provider that neither share with another tree nor use a sharing provider."""
        _, starts = self._trees
        mask: Mask = (np.diff(starts) == 1)[self.root]
        sharing, trees = self._shared
        mask[sharing] = False
        mask[trees] = False  # other rows are not standalone either
        return mask

    @cached_property
    def anchored(self) -> AnchoredProviders:
        """The providers of all other trees."""
        own = np.flatnonzero(~self.standalone)
        sharing, trees = self._shared
        provider = np.concatenate([own, sharing])
        anchor = np.concatenate([self.root[own], trees])
        foreign = np.arange(provider.size) >= own.size
        order = np.argsort(anchor, kind="stable")
        provider, anchor, foreign = provider[order], anchor[order], foreign[order]
        starts = np.flatnonzero(np.diff(anchor, prepend=NO_PROVIDER))
        return AnchoredProviders(provider, anchor, foreign, starts)

    @cached_property
    def _shared(self) -> tuple[Rows, Rows]:
        """Pairs of a sharing provider and the root of a tree that it shares with."""
        sharing, roots = [np.empty(0, dtype=np.intp)], [np.empty(0, dtype=np.intp)]
        for sharer in sorted(self.traits.rows(SHARES)):
            members = [row for name in self.records[sharer].aggregates for row in self.aggregates.rows(name)]
            trees = np.unique(self.root[np.array(members, dtype=np.intp)])
            trees = trees[trees != self.root[sharer]]
            sharing.append(np.full(trees.size, sharer, dtype=np.intp))
            roots.append(trees)
        return np.concatenate(sharing), np.concatenate(roots)

    @cached_property
    def _trees(self) -> tuple[Rows, Rows]:
        """The rows sorted by tree, and the start of each root's tree."""
        by_root = np.argsort(self.root, kind="stable")
        return by_root, np.searchsorted(self.root[by_root], np.arange(len(self) + 1))

    def _inventory_columns(self) -> dict[str, InventoryColumn]:
        by_class: dict[str, tuple[list[int], list[InventoryRecord]]] = {}
        for row, record in enumerate(self.records):
            for name, inventory in record.inventories.items():
                rows, inventories = by_class.setdefault(name, ([], []))
                rows.append(row)
                inventories.append(inventory)
        return {name: InventoryColumn.of(rows, inventories) for name, (rows, inventories) in by_class.items()}

    def _rows_of(self, ids: Iterable[int | None]) -> Rows:
        return np.array([NO_PROVIDER if i is None else self.row_of[i] for i in ids], dtype=np.intp)

    def _no_providers(self) -> Mask:
        return np.zeros(len(self), dtype=np.bool_)
