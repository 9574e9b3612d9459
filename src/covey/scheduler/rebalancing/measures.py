"""How badly a group's policies are broken, each as one number; it is zero exactly where `verdicts` finds nothing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey.model.groups import GroupPolicy, PolicyKind
from covey.scheduler.fleet import NO_DOMAIN, Domains, Fleet, Mask

Counts = NDArray[np.int64]  # of members in each domain, and at the end of those that are nowhere


@dataclass(frozen=True, slots=True)
class Measure:
    """How many members one policy finds in the wrong place; for an even spread, by how many it is uneven."""

    policy: GroupPolicy
    domains: Domains
    usable: Mask  # domains that have a host that takes servers

    @property
    def target(self) -> int | None:
        """The number of the domain that the policy names, if it names one."""
        return None if self.policy.target is None else self.domains.number(self.policy.target)

    @property
    def apart(self) -> bool:
        return self.policy.kind in {PolicyKind.ANTI_AFFINITY, PolicyKind.SOFT_ANTI_AFFINITY}

    def counts(self, rows: NDArray[np.intp]) -> Counts:
        """Where members on those hosts are."""
        counts = np.zeros(len(self.domains.names) + 1, dtype=np.int64)
        np.add.at(counts, self.domains.of_host[rows], 1)
        return counts

    def of(self, counts: Counts) -> int:
        """Zero if the policy holds."""
        inside, total = counts[:NO_DOMAIN], int(counts.sum())
        if self.target is not None:
            there = int(inside[self.target]) if self.target >= 0 else 0
            return there if self.apart else total - there
        if not self.apart:
            return total - int(inside.max(initial=0))
        lost = int(counts[NO_DOMAIN])
        if self.policy.kind is PolicyKind.ANTI_AFFINITY:
            return lost + int(np.maximum(inside - self.policy.limit, 0).sum())
        most = int(inside.max(initial=0))
        return lost + max(0, most - int(inside[self.usable].min(initial=most)) - 1)


def measures_of(policies: Iterable[GroupPolicy], fleet: Fleet) -> tuple[Measure, ...]:
    """One for each policy, in their order."""
    takes = np.array([host.enabled and host.up for host in fleet.hosts], dtype=np.bool_)
    found = []
    for policy in policies:
        domains = fleet.domains(policy.scope.id)
        usable = np.zeros(len(domains.names) + 1, dtype=np.bool_)
        usable[domains.of_host[takes]] = True
        found.append(Measure(policy, domains, usable[:NO_DOMAIN]))
    return tuple(found)


def ranked(measures: Sequence[Measure], values: Sequence[int]) -> tuple[int, ...]:
    """What comes first: the hard ones together, then the soft ones in their order."""
    pairs = list(zip(measures, values, strict=True))
    hard = sum(value for measure, value in pairs if not measure.policy.kind.is_soft)
    return hard, *(value for measure, value in pairs if measure.policy.kind.is_soft)
