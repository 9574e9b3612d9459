"""Apart: never more of a group in one domain than its policy allows, and never in a domain to be avoided."""

from dataclasses import dataclass

import numpy as np

from covey.model.groups import HOST, GroupPolicy, PolicyKind
from covey.scheduler.constraints.nowhere import nowhere_reasons, why_nowhere
from covey.scheduler.fleet import NO_DOMAIN, Fleet, Mask, counts_by_domain, places_by_row
from covey.scheduler.reasons import Reason
from covey.scheduler.request_spec import RequestSpec


@dataclass(frozen=True, slots=True)
class AntiAffinity:
    """Every hard anti-affinity policy of the group."""

    def allows(self, spec: RequestSpec, fleet: Fleet) -> Mask | None:
        policies = _policies(spec)
        if not policies:
            return None
        may = _allows(policies[0], spec, fleet)
        for policy in policies[1:]:
            may = may & _allows(policy, spec, fleet)
        return may

    def reasons(self, spec: RequestSpec, fleet: Fleet, lost: Mask) -> list[Reason]:
        found, rest = [], lost
        for policy in _policies(spec):
            mine = rest & ~_allows(policy, spec, fleet)
            rest = rest & ~mine
            place = policy.scope.name
            nowhere = mine & (fleet.domains(policy.scope.id).of_host == NO_DOMAIN)
            found += nowhere_reasons(fleet.domains(policy.scope.id), place, nowhere)
            if policy.target is not None:
                avoided = f"in the {place} that the group avoids"
                found.append(Reason(mine & ~nowhere, f"is {avoided}", f"are {avoided}"))
            else:
                held = f"{policy.limit} of the group"
                one, many = _words(place)
                found.append(Reason(mine & ~nowhere, f"already holds {held}{one}", f"already hold {held}{many}"))
        return found

    def why_not(self, spec: RequestSpec, fleet: Fleet, row: int) -> str:
        policy = next(p for p in _policies(spec) if not _allows(p, spec, fleet)[row])
        domains = fleet.domains(policy.scope.id)
        domain = domains.of_host[row]
        if domain == NO_DOMAIN:
            return why_nowhere(domains, policy.scope.name, row)
        if policy.target is not None:
            return f"the group avoids the {policy.scope.name} {policy.target}"
        count = counts_by_domain(domains, fleet, spec.group.places)[domain]
        return f"the {policy.scope.name} {domains.names[domain]} holds {count} of the group, at most {policy.limit} may"


def _policies(spec: RequestSpec) -> list[GroupPolicy]:
    return [policy for policy in spec.group.policies if policy.kind is PolicyKind.ANTI_AFFINITY]


def _allows(policy: GroupPolicy, spec: RequestSpec, fleet: Fleet) -> Mask:
    domains = fleet.domains(policy.scope.id)
    if policy.target is not None:
        # Being in no domain at all is being outside of this one.
        avoided = domains.number(policy.target)
        outside: Mask = (domains.of_host != avoided) & ~domains.ambiguous
        return outside
    if policy.scope == HOST:  # the common case touches the members' hosts alone
        may = np.ones(len(fleet), dtype=np.bool_)
        rows, held = places_by_row(fleet, spec.group.places)
        may[rows[held >= policy.limit]] = False
        return may
    counts = counts_by_domain(domains, fleet, spec.group.places)
    room = counts < policy.limit
    room[NO_DOMAIN] = False
    return domains.spread(room)


def _words(place: str) -> tuple[str, str]:
    return ("", "") if place == "host" else (f" in its {place}", f" in their {place}")
