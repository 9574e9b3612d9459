"""A group's soft policies: never a no, always an order."""

from dataclasses import dataclass

import numpy as np

from covey.model.groups import GroupPolicy, PolicyKind
from covey.scheduler.fleet import NO_DOMAIN, Column, Fleet, Mask, counts_by_domain, highest
from covey.scheduler.request_spec import RequestSpec

WORST = -np.inf


@dataclass(frozen=True, slots=True)
class SoftPolicy:
    """Together: more members in the host's domain is better. Apart: fewer is. A host in no domain is worst."""

    policy: GroupPolicy

    def scores(self, spec: RequestSpec, fleet: Fleet) -> Column:
        domains = fleet.domains(self.policy.scope.id)
        if self.policy.target is not None:
            inside = domains.of_host == domains.number(self.policy.target)
            better = inside if self._together else ~inside & ~domains.ambiguous
            wanted: Column = better.astype(np.float64)
            return wanted
        return domains.spread(self.of_counts(counts_by_domain(domains, fleet, spec.group.places)))

    def best(self, spec: RequestSpec, fleet: Fleet, may: Mask) -> Mask:
        if self.policy.target is not None:
            return highest(self.scores(spec, fleet), may)
        domains = fleet.domains(self.policy.scope.id)
        return domains.highest(self.of_counts(counts_by_domain(domains, fleet, spec.group.places)), may)

    def of_counts(self, counts: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Column:
        """The score of each domain that holds so many members."""
        scores = counts.astype(np.float64) if self._together else -counts.astype(np.float64)
        scores[NO_DOMAIN] = WORST
        return scores

    @property
    def _together(self) -> bool:
        return self.policy.kind is PolicyKind.SOFT_AFFINITY
