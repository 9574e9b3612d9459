"""What is wrong with a group as it stands: each of its policies that its members' places break, and who breaks it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey.model.groups import GroupPolicy, GroupView, PolicyKind
from covey.model.ids import HostId
from covey.scheduler.constraints.affinity import Affinity
from covey.scheduler.constraints.anti_affinity import AntiAffinity
from covey.scheduler.fleet import NO_DOMAIN, Domains, Fleet
from covey.scheduler.request_spec import RequestSpec

_APART = {PolicyKind.ANTI_AFFINITY, PolicyKind.SOFT_ANTI_AFFINITY}


@dataclass(frozen=True, slots=True)
class Violation:
    """A policy that does not hold: where, by whom, and in words that name no host."""

    policy: GroupPolicy
    domain: str | None  # the real identifier of the place in question; None where it is no single one
    members: tuple[str, ...]
    soft: bool
    sentence: str


@dataclass(frozen=True, slots=True)
class _GroupPlaces:
    """Where the members stand in one scope: a domain each, and how many each domain has."""

    members: NDArray[np.object_]
    domain_of: NDArray[np.intp]
    ambiguous: NDArray[np.bool_]  # members whose host outside hands put in two domains
    counts: NDArray[np.int64]
    domains: Domains
    usable: NDArray[np.bool_]  # domains that have a host that takes servers

    def who(self, chosen: NDArray[np.bool_]) -> tuple[str, ...]:
        return tuple(self.members[chosen].tolist())

    def at(self, domain: int) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = self.domain_of == domain
        return mask


def violations(policies: Sequence[GroupPolicy], places: Mapping[str, HostId], fleet: Fleet) -> list[Violation]:
    """Everything that does not hold, policy by policy; a host that is not in the fleet is nobody's concern."""
    known = {member: host for member, host in places.items() if host in fleet.row_of}
    members = np.array(list(known), dtype=object)
    rows = fleet.rows(known.values())
    return [
        violation
        for policy in policies
        for violation in _judge(policy, _group_places(fleet.domains(policy.scope.id), members, rows, fleet))
    ]


def objections(group: GroupView, host: HostId, fleet: Fleet) -> list[str]:
    """What the hard policies of a group have against one more member on a host, in words that do not name it."""
    spec, here = RequestSpec(0, 0, 0, group=group), fleet.mask_of([host])
    found: list[str] = []
    for constraint in (AntiAffinity(), Affinity()):
        column = constraint.allows(spec, fleet)
        lost = here if column is None else here & ~column
        if column is not None and lost.any():
            found += [f"its host {reason.one}" for reason in constraint.reasons(spec, fleet, lost) if reason.count]
    return found


def _group_places(domains: Domains, members: NDArray[np.object_], rows: NDArray[np.intp], fleet: Fleet) -> _GroupPlaces:
    domain_of = domains.of_host[rows]
    counts = np.bincount(domain_of[domain_of != NO_DOMAIN], minlength=len(domains.names))
    usable = np.zeros(len(domains.names), dtype=np.bool_)
    usable[domains.of_host[fleet.takes & (domains.of_host != NO_DOMAIN)]] = True
    return _GroupPlaces(members, domain_of, domains.ambiguous[rows], counts, domains, usable)


def _judge(policy: GroupPolicy, group: _GroupPlaces) -> Iterator[Violation]:
    if not group.members.size:
        return
    if policy.target is not None:
        yield from _targeted(policy, group)
        return
    lost = group.at(NO_DOMAIN)
    if lost.any():
        yield _violation(policy, None, group.who(lost), f"{_count(lost)} in no {policy.scope.name}")
    yield from _JUDGES[policy.kind](policy, group)


def _targeted(policy: GroupPolicy, group: _GroupPlaces) -> Iterator[Violation]:
    inside = group.at(group.domains.number(policy.target or ""))
    apart = policy.kind in _APART
    wrong = inside | group.ambiguous if apart else ~inside
    if wrong.any():
        words = "in" if apart else "outside of"
        request = "avoids" if apart else "keeps to"
        sentence = f"{_count(wrong)} {words} the {policy.scope.name} that the group {request}"
        yield _violation(policy, policy.target, group.who(wrong), sentence)


def _crowded(policy: GroupPolicy, group: _GroupPlaces) -> Iterator[Violation]:
    for domain in np.flatnonzero(group.counts > policy.limit).tolist():
        here = group.at(domain)
        sentence = f"{_count(here)} in one {policy.scope.name}, which may hold {policy.limit} at the most"
        yield _violation(policy, group.domains.names[domain], group.who(here), sentence)


def _scattered(policy: GroupPolicy, group: _GroupPlaces) -> Iterator[Violation]:
    if np.count_nonzero(group.counts) < 2:  # noqa: PLR2004 -- all are together
        return
    fullest = int(group.counts.argmax())
    away = ~group.at(fullest) & ~group.at(NO_DOMAIN)
    sentence = f"{_count(away)} outside of the {policy.scope.name} where most of the group are"
    yield _violation(policy, group.domains.names[fullest], group.who(away), sentence)


def _uneven(policy: GroupPolicy, group: _GroupPlaces) -> Iterator[Violation]:
    if not group.counts.size:  # a scope without domains
        return
    fullest = int(group.counts.argmax())
    most = int(group.counts[fullest])
    least = int(group.counts[group.usable].min(initial=most))
    if most - least > 1:
        crowded = np.isin(group.domain_of, np.flatnonzero(group.counts > least + 1))
        place = policy.scope.name
        sentence = f"the fullest {place} holds {most} of the group, the emptiest that could take some {least}"
        yield _violation(policy, group.domains.names[fullest], group.who(crowded), sentence)


_JUDGES: Mapping[PolicyKind, Callable[[GroupPolicy, _GroupPlaces], Iterator[Violation]]] = {
    PolicyKind.ANTI_AFFINITY: _crowded,
    PolicyKind.AFFINITY: _scattered,
    PolicyKind.SOFT_ANTI_AFFINITY: _uneven,
    PolicyKind.SOFT_AFFINITY: _scattered,
}


def _violation(policy: GroupPolicy, domain: str | None, members: tuple[str, ...], sentence: str) -> Violation:
    return Violation(policy, domain, members, policy.kind.is_soft, sentence)


def _count(chosen: NDArray[np.bool_]) -> str:
    number = int(np.count_nonzero(chosen))
    return "1 member is" if number == 1 else f"{number} members are"
