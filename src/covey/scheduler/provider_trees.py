"""Provider trees: which providers serve an allocation candidate together, in one tree or by sharing with it."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from covey.scheduler.columns import Mask, Rows
from covey.scheduler.labels import Labels

SHARES = "MISC_SHARES_VIA_AGGREGATE"
NO_PROVIDER = -1  # the parent row of a root


@dataclass(frozen=True, slots=True)
class ClassProviders:
    """The providers of trees that have an inventory of one resource class, sorted by tree."""

    provider: Rows
    tree: Rows  # its number
    trees: int
    one_each: bool  # every tree has exactly one

    def trees_with(self, able: Mask) -> Mask:
        """Return the trees in which one of the providers is able."""
        if self.one_each:
            return able
        mask = np.zeros(self.trees, dtype=np.bool_)
        mask[self.tree[able]] = True
        return mask


@dataclass(frozen=True, slots=True)
class AnchoredProviders:
    """The providers that can serve a candidate of each tree: a row for each pair, sorted by tree."""

    provider: Rows
    anchor: Rows  # the root of the tree
    foreign: Mask  # the provider is in another tree, and shares with this one
    starts: Rows  # the first row of each tree

    roots: Rows  # the root of each tree

    def sums(self, values: NDArray[np.int64] | Mask) -> NDArray[np.int64]:
        """Return the sum over the rows of each tree."""
        if not self.starts.size:
            return np.zeros(0, dtype=np.int64)
        running = np.cumsum(values, dtype=np.int64)  # much faster than np.add.reduceat
        sums = np.empty(self.starts.size, dtype=np.int64)
        before = running[self.starts[1:] - 1]
        sums[:-1], sums[-1] = before, running[-1]
        sums[1:] -= before
        return sums

    def part(self, number: int) -> slice:
        """Return the rows of one tree."""
        last = number + 1 == self.starts.size
        return slice(self.starts.item(number), None if last else self.starts.item(number + 1))

    def part_of(self, root: int) -> slice:
        """Return the rows of the tree with this root; none if there is no such tree."""
        number = int(np.searchsorted(self.roots, root))
        found = number < self.roots.size and self.roots[number] == root
        return self.part(number) if found else slice(0, 0)

    def with_inventory(self, exists: Mask) -> ClassProviders:
        """Return the providers that have an inventory of a class."""
        number = self.starts.size
        has = exists[self.provider]
        tree = np.repeat(np.arange(number), np.diff(self.starts, append=self.provider.size))[has]
        return ClassProviders(self.provider[has], tree, number, np.array_equal(tree, np.arange(number)))

    def only(self, part: slice) -> "AnchoredProviders":
        """Return some of the rows; `starts` and `roots` stay as they are."""
        return replace(self, provider=self.provider[part], anchor=self.anchor[part], foreign=self.foreign[part])


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

    def with_any(self, rows: Mask) -> Mask:
        """Return these rows, and the roots of trees in which one of them serves."""
        anchored = self.anchored
        if not anchored.starts.size:
            return rows
        found = rows.copy()
        found[anchored.roots] |= anchored.sums(rows[anchored.provider]) > 0
        return found

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
        provider, anchor, foreign = provider[order], anchor[order], foreign[order]
        starts = np.flatnonzero(np.diff(anchor, prepend=NO_PROVIDER))
        return AnchoredProviders(provider, anchor, foreign, starts, anchor[starts])

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
