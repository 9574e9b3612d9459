"""A flavor or an image may require traits of a host, and forbid others."""

from dataclasses import dataclass

import numpy as np

from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.reasons import Reason
from covey.scheduler.request_spec import RequestSpec


@dataclass(frozen=True, slots=True)
class Traits:
    """All the required ones, none of the forbidden."""

    def allows(self, spec: RequestSpec, fleet: Fleet) -> Mask | None:
        required, forbidden = spec.requirements.required_traits, spec.requirements.forbidden_traits
        if not required and not forbidden:
            return None
        fits = (required <= host.traits and not forbidden & host.traits for host in fleet.hosts)
        return np.fromiter(fits, dtype=np.bool_, count=len(fleet))

    def reasons(self, spec: RequestSpec, fleet: Fleet, lost: Mask) -> list[Reason]:
        required = spec.requirements.required_traits
        lacks = np.fromiter((not required <= h.traits for h in fleet.hosts), dtype=np.bool_, count=len(fleet)) & lost
        return [
            Reason(lacks, "lacks a required trait", "lack a required trait"),
            Reason(lost & ~lacks, "has a forbidden trait", "have a forbidden trait"),
        ]

    def why_not(self, spec: RequestSpec, fleet: Fleet, row: int) -> str:
        traits = fleet.hosts[row].traits
        missing = sorted(spec.requirements.required_traits - traits)
        if missing:
            return f"it lacks the required trait {', '.join(missing)}"
        return f"it has the forbidden trait {', '.join(sorted(spec.requirements.forbidden_traits & traits))}"
