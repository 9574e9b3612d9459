"""All group members in columns, to compute the skew of all groups without a loop."""

import numpy as np
from numpy.typing import NDArray

from covey.model.ids import ScopeId
from covey.scheduler.fleet import NO_DOMAIN, Fleet, Mask

REMOVED = -1


class MemberTable:
    """One row for each member: its group's number, and its host's row in the fleet, or REMOVED."""

    def __init__(self) -> None:
        self._group = np.empty(1024, dtype=np.int64)
        self._row = np.empty(1024, dtype=np.int64)
        self._size = 0

    def add(self, group: int, row: int) -> int:
        """Add a member and return its number."""
        if self._size == self._row.size:
            self._group, self._row = np.resize(self._group, 2 * self._size), np.resize(self._row, 2 * self._size)
        number = self._size
        self._group[number], self._row[number] = group, row
        self._size += 1
        return number

    def remove(self, number: int) -> None:
        self._row[number] = REMOVED

    def skews(self, selected: Mask, fleet: Fleet, scope: ScopeId | None) -> NDArray[np.int64]:
        """Return the skew of each selected group: members in its fullest domain minus those in its emptiest.

        As in an audit, a domain without an available host does not count as the emptiest.
        """
        domains = fleet.domains(scope)
        group, row = self._group[: self._size], self._row[: self._size]
        present = np.flatnonzero(row != REMOVED)
        present = present[selected[group[present]]]
        domain = domains.of_host[row[present]]
        group, domain = group[present][domain != NO_DOMAIN], domain[domain != NO_DOMAIN]
        number = len(domains.names)
        if not group.size:
            return np.empty(0, dtype=np.int64)
        usable = np.zeros(number, dtype=np.bool_)
        usable[domains.of_host[fleet.available & (domains.of_host != NO_DOMAIN)]] = True
        pairs, counts = np.unique(group * number + domain, return_counts=True)
        starts = np.flatnonzero(np.diff(pairs // number, prepend=-1))
        most = np.maximum.reduceat(counts, starts)
        is_usable = usable[pairs % number]
        least = np.minimum.reduceat(np.where(is_usable, counts, counts.max()), starts)
        used = np.add.reduceat(is_usable.astype(np.int64), starts)
        least[used < np.count_nonzero(usable)] = 0
        skews: NDArray[np.int64] = np.maximum(most - least, 0)
        return skews
