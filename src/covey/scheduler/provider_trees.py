"""Provider trees: which providers serve an allocation candidate together, in one tree or by sharing with it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from covey.scheduler.columns import Mask, Rows
from covey.scheduler.labels import Labels

SHARES = "MISC_SHARES_VIA_AGGREGATE"
NO_PROVIDER = -1  # the parent row of a root


@dataclass(frozen=True, slots=True)
class AnchoredProviders:
    """The providers that can serve a candidate of each tree: a row for each pair, sorted by tree."""

    provider: Rows
    anchor: Rows  # the root of the tree
    foreign: Mask  # the provider is in another tree, and shares with this one
    starts: Rows  # the first row of each tree


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
        found[anchored.anchor[anchored.starts]] |= np.logical_or.reduceat(rows[anchored.provider], anchored.starts)
        return found

    @cached_property
    def standalone(self) -> Mask:
        """Trees of one provider that neither share with another tree nor use a sharing provider."""
        mask: Mask = (np.bincount(self.root, minlength=self.root.size) == 1)[self.root] & self.present
        sharing, trees = self._shared
        mask[sharing] = False
        mask[trees] = False  # other rows are not standalone either
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
        return AnchoredProviders(provider, anchor, foreign, starts)

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
