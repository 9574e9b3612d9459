"""Together: all of a group in one domain, or in the very domain that its policy names."""

from dataclasses import dataclass

import numpy as np

from covey.model.groups import GroupPolicy, PolicyKind
from covey.scheduler.ask import Ask
from covey.scheduler.constraints.nowhere import nowhere_reasons, why_nowhere
from covey.scheduler.fleet import NOWHERE, Fleet, Mask, counts_by_domain
from covey.scheduler.reasons import Reason


@dataclass(frozen=True, slots=True)
class Affinity:
    """Every hard affinity policy of the group."""

    def allows(self, ask: Ask, fleet: Fleet) -> Mask | None:
        policies = _policies(ask)
        if not policies:
            return None
        may = np.ones(len(fleet), dtype=np.bool_)
        for policy in policies:
            may &= _allows(policy, ask, fleet)
        return may

    def reasons(self, ask: Ask, fleet: Fleet, lost: Mask) -> list[Reason]:
        found, rest = [], lost
        for policy in _policies(ask):
            mine = rest & ~_allows(policy, ask, fleet)
            rest = rest & ~mine
            place = policy.scope.name
            nowhere = mine & (fleet.domains(policy.scope.id).of_host == NOWHERE)
            found += nowhere_reasons(fleet.domains(policy.scope.id), place, nowhere)
            if policy.target is not None:
                wanted = f"outside the {place} that the group asks for"
                found.append(Reason(mine & ~nowhere, f"is {wanted}", f"are {wanted}"))
            else:
                found.append(
                    Reason(
                        mine & ~nowhere, f"is not in the {place} of the group", f"are not in the {place} of the group"
                    )
                    if place != "host"
                    else Reason(mine & ~nowhere, "is not the group's host", "are not the group's host")
                )
        return found

    def why_not(self, ask: Ask, fleet: Fleet, row: int) -> str:
        policy = next(p for p in _policies(ask) if not _allows(p, ask, fleet)[row])
        domains = fleet.domains(policy.scope.id)
        if domains.of_host[row] == NOWHERE:
            return why_nowhere(domains, policy.scope.name, row)
        if policy.target is not None:
            return f"the group asks for the {policy.scope.name} {policy.target}"
        counts = counts_by_domain(domains, fleet, ask.group.places)[:NOWHERE]
        theirs = ", ".join(domains.names[domain] for domain in np.flatnonzero(counts))
        return f"the group is in the {policy.scope.name} {theirs}"


def _policies(ask: Ask) -> list[GroupPolicy]:
    return [policy for policy in ask.group.policies if policy.kind is PolicyKind.AFFINITY]


def _allows(policy: GroupPolicy, ask: Ask, fleet: Fleet) -> Mask:
    domains = fleet.domains(policy.scope.id)
    if policy.target is not None:
        wanted = domains.number(policy.target)
        inside: Mask = domains.of_host == wanted
        return inside
    counts = counts_by_domain(domains, fleet, ask.group.places)
    theirs = counts > 0
    if not theirs[:NOWHERE].any():
        theirs[:] = True  # the first of the group may go anywhere that is somewhere
    theirs[NOWHERE] = False
    return domains.spread(theirs)
