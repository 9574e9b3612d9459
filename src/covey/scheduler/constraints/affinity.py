"""Together: all of a group in one domain, or in the very domain that its policy names."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey.model.groups import GroupPolicy, PolicyKind
from covey.model.ids import HostId
from covey.scheduler.constraints.nowhere import nowhere_reasons, why_nowhere
from covey.scheduler.fleet import NO_DOMAIN, Domains, Fleet, Mask, counts_by_domain
from covey.scheduler.reasons import Reason
from covey.scheduler.request_spec import RequestSpec


@dataclass(frozen=True, slots=True)
class Affinity:
    """Every hard affinity policy of the group."""

    def allows(self, spec: RequestSpec, fleet: Fleet) -> Mask | None:
        policies = _policies(spec)
        if not policies:
            return None
        may = np.ones(len(fleet), dtype=np.bool_)
        for policy in policies:
            may &= _allows(policy, spec, fleet)
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
                wanted = f"outside the {place} that the group asks for"
                found.append(Reason(mine & ~nowhere, f"is {wanted}", f"are {wanted}"))
            else:
                unsure = mine & ~nowhere & _holds_some(policy, spec, fleet)
                found.append(Reason(mine & ~nowhere & ~unsure, *_elsewhere(place)))
                found.append(Reason(unsure, *_unsure(place)))
        return found

    def why_not(self, spec: RequestSpec, fleet: Fleet, row: int) -> str:
        policy = next(p for p in _policies(spec) if not _allows(p, spec, fleet)[row])
        domains = fleet.domains(policy.scope.id)
        if domains.of_host[row] == NO_DOMAIN:
            return why_nowhere(domains, policy.scope.name, row)
        if policy.target is not None:
            return f"the group asks for the {policy.scope.name} {policy.target}"
        if _holds_some(policy, spec, fleet)[row]:
            place = domains.names[domains.of_host[row]]
            return f"the {policy.scope.name} {place} holds only members of the group that are moving"
        counts = counts_by_domain(domains, fleet, spec.group.places)[:NO_DOMAIN]
        theirs = ", ".join(domains.names[domain] for domain in np.flatnonzero(counts))
        return f"the group is in the {policy.scope.name} {theirs}"


def _policies(spec: RequestSpec) -> list[GroupPolicy]:
    return [policy for policy in spec.group.policies if policy.kind is PolicyKind.AFFINITY]


def _allows(policy: GroupPolicy, spec: RequestSpec, fleet: Fleet) -> Mask:
    domains = fleet.domains(policy.scope.id)
    if policy.target is not None:
        wanted = domains.number(policy.target)
        inside: Mask = domains.of_host == wanted
        return inside
    return domains.spread(_theirs(domains, spec, fleet))


def _theirs(domains: Domains, spec: RequestSpec, fleet: Fleet) -> Mask:
    """The domains where one more is together with the group, whatever its members' moves come to."""
    counts = counts_by_domain(domains, fleet, spec.group.places)
    theirs = counts - _unsettled(domains, spec, fleet) > 0
    if not theirs[:NO_DOMAIN].any():
        theirs = counts > 0  # nobody is sure to stay: where all may end up, if that is one place
        if np.count_nonzero(theirs[:NO_DOMAIN]) != 1:
            theirs[:] = not theirs[:NO_DOMAIN].any()  # the first of the group may go anywhere that is somewhere
    theirs[NO_DOMAIN] = False
    return theirs


def _unsettled(domains: Domains, spec: RequestSpec, fleet: Fleet) -> NDArray[np.int64]:
    """How many places in each domain are of members that are on the way between two domains."""
    of = [[_domain(domains, fleet, host) for host in mover] for mover in spec.group.movers]
    places = [domain for first, second in of if first != second for domain in (first, second)]
    found = np.zeros(len(domains.names) + 1, dtype=np.int64)
    np.add.at(found, np.array(places, dtype=np.intp), 1)
    return found


def _domain(domains: Domains, fleet: Fleet, host: int) -> int:
    row = fleet.row_of.get(HostId(host))
    return NO_DOMAIN if row is None else int(domains.of_host[row])


def _holds_some(policy: GroupPolicy, spec: RequestSpec, fleet: Fleet) -> Mask:
    """Where members of the group hold places, if only until they have moved."""
    domains = fleet.domains(policy.scope.id)
    return domains.spread(counts_by_domain(domains, fleet, spec.group.places) > 0)


def _elsewhere(place: str) -> tuple[str, str]:
    where = "the group's host" if place == "host" else f"in the {place} of the group"
    return f"is not {where}", f"are not {where}"


def _unsure(place: str) -> tuple[str, str]:
    held = "only members of the group that are moving"
    if place == "host":
        return f"holds {held}", f"hold {held}"
    return f"is in a {place} that holds {held}", f"are in a {place} that holds {held}"
