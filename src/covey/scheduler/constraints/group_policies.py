"""The hard policies of a server group; `covey.scheduler.policies` has a module for each kind."""

from dataclasses import dataclass

from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.policies import hard_policies
from covey.scheduler.reasons import Reason
from covey.scheduler.request_spec import RequestSpec


@dataclass(frozen=True, slots=True)
class GroupPolicies:
    """Each hard policy of the group admits the host."""

    def allows(self, spec: RequestSpec, fleet: Fleet) -> Mask | None:
        mask: Mask | None = None
        for kind, policy in hard_policies(spec.group):
            admitted = kind.mask(policy, spec.group, fleet)
            mask = admitted if mask is None else mask & admitted
        return mask

    def reasons(self, spec: RequestSpec, fleet: Fleet, lost: Mask) -> list[Reason]:
        found: list[Reason] = []
        for kind, policy in hard_policies(spec.group):
            lost_here = lost & ~kind.mask(policy, spec.group, fleet)
            lost = lost & ~lost_here
            found += kind.reasons(policy, spec.group, fleet, lost_here)
        return found

    def why_not(self, spec: RequestSpec, fleet: Fleet, row: int) -> str:
        return next(
            kind.why_not(policy, spec.group, fleet, row)
            for kind, policy in hard_policies(spec.group)
            if not kind.mask(policy, spec.group, fleet)[row]
        )
