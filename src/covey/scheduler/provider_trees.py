"""Provider trees: which providers serve an allocation candidate together, in one tree or by sharing with it."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from covey.scheduler.columns import Mask, Rows
from covey.scheduler.labels import Labels

SHARES = "MISC_SHARES_VIA_AGGREGATE"
NO_PROVIDER = -1  # the parent row of a root


@dataclass(frozen=True)
class AnchoredProviders:
    """Providers that can serve a candidate of a tree: a row for each pair of them, sorted by tree."""

    provider: Rows
    tree: Rows  # its number
    foreign: Mask  # the provider is in another tree, and shares with this one
    roots: Rows  # the root of each tree
    places: Rows  # of these rows among all
    labels: Labels[str]  # the traits of all providers

    @cached_property
    def traits(self) -> Labels[str]:
        """The traits of the provider of each row."""
        return self.labels.reordered(self.provider)

    def overlaps(self, other: "AnchoredProviders") -> bool:
        """Return whether a row is among these and the others."""
        size = min(self.among_all.size, other.among_all.size)
        return bool((self.among_all[:size] & other.among_all[:size]).any())

    @cached_property
    def among_all(self) -> Mask:
        """A mask of these rows among all, up to the last of these."""
        mask: Mask = np.bincount(self.places) > 0
        return mask

    @cached_property
    def starts(self) -> Rows:
        """The first row of each tree, and the number of all rows."""
        return np.searchsorted(self.tree, np.arange(self.roots.size + 1))

    @cached_property
    def each(self) -> int:
        """How many rows every tree has; 0 if trees differ."""
        number = self.provider.size // max(1, self.roots.size)
        return number if (np.diff(self.starts) == number).all() else 0

    def any(self, rows: Mask) -> Mask:
        """Return the trees that have one of the rows."""
        if not self.each:
            counts = np.bincount(self.tree, weights=rows, minlength=self.roots.size)
            return counts[: self.roots.size] > 0
        found = rows[:: self.each].copy()
        for place in range(1, self.each):
            found |= rows[place :: self.each]
        return found

    def sums(self, values: NDArray[np.int64] | Mask) -> NDArray[np.int64]:
        """Return the sum over the rows of each tree."""
        if not self.each:
            running = np.zeros(self.provider.size + 1, dtype=np.int64)
            np.cumsum(values, out=running[1:])  # much faster than np.add.reduceat
            return np.diff(running[self.starts])
        sums = values[:: self.each].astype(np.int64)
        for place in range(1, self.each):
            sums += values[place :: self.each]
        return sums

    def part(self, number: int) -> slice:
        """Return the rows of one tree."""
        return slice(self.starts.item(number), self.starts.item(number + 1))

    def tree_of(self, root: int) -> "AnchoredProviders":
        """Return the rows of the tree with this root; none if there is no such tree."""
        number = int(np.searchsorted(self.roots, root))
        found = number < self.roots.size and self.roots[number] == root
        part = self.part(number) if found else slice(0, 0)
        roots = self.roots[number : number + 1]
        return self._only(part, np.zeros_like(self.tree[part]), roots)

    def with_inventory(self, exists: Mask) -> "AnchoredProviders":
        """Return the providers that have an inventory of a class."""
        rows = np.flatnonzero(exists[self.provider])
        return self._only(rows, self.tree[rows], self.roots)

    def _only(self, rows: Rows | slice, tree: Rows, roots: Rows) -> "AnchoredProviders":
        return AnchoredProviders(self.provider[rows], tree, self.foreign[rows], roots, self.places[rows], self.labels)


@dataclass(frozen=True)
class ProviderTrees:
    """The trees of all providers; what follows from them is computed on first use."""

    parent: Rows  # NO_PROVIDER for a root
    root: Rows
    present: Mask  # rows of providers that exist
    traits: Labels[str]
    member_of: Labels[str]

    def is_above(self, upper: int, lower: int) -> bool:
        """Whether `upper` is `lower` or an ancestor of it."""
        while lower not in (upper, NO_PROVIDER):
            lower = int(self.parent[lower])
        return lower == upper

    def with_traits(self, required: Collection[str]) -> Mask:
        """Return the rows that have the traits, the roots of trees by any of their providers."""
        rows, anchored = self.traits.all_of(required), self.anchored
        if not anchored.roots.size or not required:
            return rows
        trees = np.logical_and.reduce([anchored.any(anchored.traits.any_of([trait])) for trait in required])
        return rows | self.at_roots(trees)

    def at_roots(self, of_tree: Mask) -> Mask:
        """Return the roots of these trees."""
        rows = np.zeros(self.root.size, dtype=np.bool_)
        rows[self.anchored.roots] = of_tree
        return rows

    @cached_property
    def standalone(self) -> Mask:
        """Trees of one provider that neither share with another tree nor use a sharing provider."""
        mask: Mask = (np.bincount(self.root, minlength=self.root.size) == 1)[self.root] & self.present
        mask[self.shared] = False
        mask[self._shared[1]] = False  # other rows are not standalone either
        return mask

    @cached_property
    def shared(self) -> Mask:
        """The providers that share with another tree."""
        mask = np.zeros(self.root.size, dtype=np.bool_)
        mask[self._shared[0]] = True
        return mask

    @cached_property
    def anchored(self) -> AnchoredProviders:
        """The providers of all other trees."""
        own = np.flatnonzero(self.present & ~self.standalone)
        sharing, trees = self._shared
        provider = np.concatenate([own, sharing])
        anchor = np.concatenate([self.root[own], trees])
        foreign = np.arange(provider.size) >= own.size
        order = np.argsort(anchor, kind="stable")
        anchor, first = anchor[order], np.diff(anchor[order], prepend=NO_PROVIDER) != 0
        numbers, places = np.cumsum(first) - 1, np.arange(order.size)
        return AnchoredProviders(provider[order], numbers, foreign[order], anchor[first], places, self.traits)

    @cached_property
    def _shared(self) -> tuple[Rows, Rows]:
        """Pairs of a sharing provider and the root of a tree that it shares with."""
        sharing, roots = [np.empty(0, dtype=np.intp)], [np.empty(0, dtype=np.intp)]
        for sharer in np.flatnonzero(self.traits.any_of([SHARES])).tolist():
            trees = np.unique(self.root[self.member_of.any_of(self.member_of[sharer])])
            trees = trees[trees != self.root[sharer]]
            sharing.append(np.full(trees.size, sharer, dtype=np.intp))
            roots.append(trees)
        return np.concatenate(sharing), np.concatenate(roots)
