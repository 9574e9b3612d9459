"""What the policy kinds share: a policy with the domains of its scope, and the reasons of hosts without a domain."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covey.model.groups import HOST, Direction, GroupPolicy
from covey.model.ids import HostId
from covey.scheduler.fleet import NO_DOMAIN, Domains, Fleet, Mask, Rows
from covey.scheduler.reasons import Reason, Sentences

Counts = NDArray[np.int64]  # members in each domain; the last entry counts those in no domain, or in two

_NO_ROWS: Rows = np.empty(0, dtype=np.intp)
_PREPOSITIONS = {"host": "on", "switch": "behind"}  # every other scope: in


@dataclass(frozen=True, slots=True)
class ScopedPolicy:
    """A policy and the domains of its scope."""

    policy: GroupPolicy
    domains: Domains
    usable: Mask  # domains that have an available host
    exempt: Rows  # hosts on which the policy does not count members: it spreads over single machines
    several: Mapping[int, tuple[int, ...]]  # of each host in two domains: those in which the policy limits its members

    @property
    def target(self) -> int | None:
        """The number of the domain that the policy names; None if it names none."""
        return None if self.policy.target is None else self.domains.number(self.policy.target)

    def counts(self, rows: NDArray[np.intp]) -> Counts:
        """Count members by domain; `rows` holds the host of each member.

        One on a host in two domains counts as in no domain. Policies that spread a group also count it in both.
        """
        counts = np.zeros(len(self.domains.names) + 1, dtype=np.int64)
        np.add.at(counts, self.domains.of_host[rows], 1)
        if self.several:
            np.add.at(counts, [domain for row in rows.tolist() for domain in self.several.get(row, ())], 1)
        counts[self.domains.of_host[self.exempt]] = 0
        return counts

    def counted_in(self, row: int) -> tuple[int, ...]:
        """Return the entries of `counts` that a member on a host adds to."""
        return (int(self.domains.of_host[row]), *self.several.get(row, ()))


@dataclass(frozen=True, slots=True)
class Violation:
    """A policy that does not hold: in which domain, by which members, and a sentence that names no host."""

    policy: GroupPolicy
    domain: str | None  # the real identifier of the domain; None where no single domain is meant
    members: tuple[str, ...]
    soft: bool
    sentence: str


@dataclass(frozen=True, slots=True)
class MemberDomains:
    """The members of a group in the domains of one policy's scope."""

    scoped: ScopedPolicy
    members: NDArray[np.object_]
    rows: NDArray[np.intp]  # of each member's host

    @property
    def policy(self) -> GroupPolicy:
        return self.scoped.policy

    @property
    def counts(self) -> Counts:
        """Members in each domain, as the policy counts them; those in no domain are left out."""
        return self.scoped.counts(self.rows)[:NO_DOMAIN]

    @property
    def ambiguous(self) -> NDArray[np.bool_]:
        """Members whose host belongs to two domains."""
        return self.scoped.domains.ambiguous[self.rows]

    def inside(self, domain: int) -> NDArray[np.bool_]:
        """Return the members in a domain, as a mask. Those on a host in two domains are in both."""
        domains = self.scoped.domains
        mask: NDArray[np.bool_] = domains.of_host[self.rows] == domain
        for row in (row for row, several in domains.several.items() if domain in several):
            mask |= self.rows == row
        return mask

    def violation(self, domain: int | str | None, members: NDArray[np.bool_], sentence: str) -> Violation:
        """Return the violation by these members; a domain is given by its number or its identifier."""
        name = self.scoped.domains.names[domain] if isinstance(domain, int) else domain
        return Violation(self.policy, name, tuple(self.members[members].tolist()), self.policy.kind.is_soft, sentence)

    def without_domain(self) -> Iterator[Violation]:
        """Yield the violations by members that are in no domain of the scope, or in two, if any."""
        outside = self.inside(NO_DOMAIN) & ~self.ambiguous
        if outside.any():
            yield self.violation(None, outside, f"{count_members(outside)} in no {self.policy.scope.name}")
        yield from self.in_two_domains(self.ambiguous)

    def in_two_domains(self, members: NDArray[np.bool_]) -> Iterator[Violation]:
        """Yield the violation by these members, which are in two domains of the scope, if any."""
        if members.any():
            yield self.violation(None, members, f"{count_members(members)} in two {self.policy.scope.name} domains")


def scoped(policy: GroupPolicy, fleet: Fleet, exempt: Iterable[HostId] = ()) -> ScopedPolicy:
    """Return the policy with the domains of its scope.

    An exempt host is many machines: members there count for no policy that spreads a group over hosts.
    """
    domains = fleet.domains(policy.scope.id)
    spreads = policy.scope == HOST and policy.target is None and policy.kind.direction is Direction.SPREAD
    uncounted = fleet.rows(exempt) if spreads else _NO_ROWS
    usable = np.zeros(len(domains.names) + 1, dtype=np.bool_)
    usable[domains.of_host[fleet.available]] = True
    usable[domains.of_host[uncounted]] = False
    return ScopedPolicy(policy, domains, usable[:NO_DOMAIN], uncounted, _limiting_domains(policy, domains))


def _limiting_domains(policy: GroupPolicy, domains: Domains) -> Mapping[int, tuple[int, ...]]:
    """Return the domains in which the policy limits members on hosts in two domains: both, or the one to avoid."""
    if not domains.several or policy.kind.direction is Direction.GATHER:
        return {}
    if policy.target is None:
        return domains.several
    avoided = domains.number(policy.target)
    return dict.fromkeys(domains.several, (avoided,)) if avoided >= 0 else {}


def member_domains(
    policies: Sequence[GroupPolicy],
    hosts: Mapping[str, HostId | None],
    fleet: Fleet,
    exempt: Collection[HostId] = frozenset(),
) -> Iterator[MemberDomains]:
    """Yield the members in their domains, policy by policy.

    Members without a host, and those on hosts that the fleet does not have, are left out.
    """
    known = {member: host for member, host in hosts.items() if host is not None and host in fleet.row_of}
    members, rows = np.array(list(known), dtype=object), fleet.rows(known.values())
    return (MemberDomains(scoped(policy, fleet, exempt), members, rows) for policy in policies if known)


def reasons_without_domain(domains: Domains, scope: str, rejected: Mask) -> list[Reason]:
    """Return why hosts that are in no domain, or in two, are ruled out."""
    return [
        Reason(rejected & ~domains.ambiguous, f"is in no {scope}", f"are in no {scope}"),
        Reason(rejected & domains.ambiguous, f"is in two {scope} domains", f"are in two {scope} domains"),
    ]


def explain_without_domain(domains: Domains, scope: str, rows: Rows) -> Sentences:
    """Explain to an administrator why hosts that are in no domain, or in two, are ruled out."""
    ambiguous = domains.ambiguous[rows]
    yield rows[ambiguous], f"it is in two {scope} domains at once"
    yield rows[~ambiguous], f"it is in no {scope}"


def in_one(scope: str) -> str:
    """Return the phrase for one domain of a scope: on one host, in one rack."""
    return f"{_PREPOSITIONS.get(scope, 'in')} one {scope}"


def in_target(policy: GroupPolicy) -> str:
    """Return the phrase for the domain that the policy names: behind switch 7, in rack 3."""
    return f"{_PREPOSITIONS.get(policy.scope.name, 'in')} {policy.scope.name} {policy.target}"


def count_members(members: NDArray[np.bool_]) -> str:
    """Return the beginning of a sentence: 1 member is, 3 members are."""
    number = int(np.count_nonzero(members))
    return "1 member is" if number == 1 else f"{number} members are"
