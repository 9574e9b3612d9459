"""Policies that name a domain: `anti-affinity:rack:1` avoids it, `affinity:rack:1` requires it; soft kinds prefer."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from covey.model.groups import GroupPolicy
from covey.scheduler.batch_state import BatchState, DomainState, PolicyDomains
from covey.scheduler.fleet import NO_DOMAIN, Fleet, Mask
from covey.scheduler.policies.protocol import BatchCost
from covey.scheduler.policies.scopes import Counts, MemberDomains, ScopedPolicy, Violation, count_members

if TYPE_CHECKING:
    from covey.scheduler.rebalancing.flows import DomainFlows, Term


def inside(policy: GroupPolicy, fleet: Fleet) -> Mask:
    """Return the hosts in the named domain."""
    domains = fleet.domains(policy.scope.id)
    mask: Mask = domains.of_host == domains.number(policy.target or "")
    return mask


def outside(policy: GroupPolicy, fleet: Fleet) -> Mask:
    """Return the hosts outside the named domain: also those in no domain, but not those in two. All if none exists."""
    domains = fleet.domains(policy.scope.id)
    if not domains.exists(policy.target or ""):
        return np.ones(domains.of_host.size, dtype=np.bool_)
    return ~inside(policy, fleet) & ~domains.ambiguous


def members_inside(members: MemberDomains) -> Iterator[Violation]:
    """Yield the violations by members in the domain to avoid, and by those in two others; none if none exists."""
    target = members.scoped.target
    if target is None or target < 0:
        return
    wrong = members.inside(target)
    if wrong.any():
        sentence = f"{count_members(wrong)} in the {members.policy.scope.name} that the group avoids"
        yield members.violation(members.policy.target, wrong, sentence)
    yield from members.in_two_domains(members.ambiguous & ~wrong)


def members_outside(members: MemberDomains) -> Iterator[Violation]:
    """Yield the violations by members outside the required domain, and by those that are in two."""
    wrong = ~members.inside(members.scoped.target or 0) & ~members.ambiguous
    if wrong.any():
        sentence = f"{count_members(wrong)} outside the {members.policy.scope.name} that the group requires"
        yield members.violation(members.policy.target, wrong, sentence)
    yield from members.in_two_domains(members.ambiguous)


def count_inside(scoped: ScopedPolicy, counts: Counts) -> int:
    """Count the members in the named domain; where it is to be avoided, also those in two domains."""
    return int(counts[:NO_DOMAIN][scoped.target]) if scoped.target is not None and scoped.target >= 0 else 0


def flow_inside(scoped: ScopedPolicy, flows: "DomainFlows") -> "Term":
    """Return the members in the named domain after a rebalance."""
    return flows.after(scoped.target) if scoped.target is not None and scoped.target >= 0 else 0


def rank_batch(better: Mask, state: BatchState, batch: BatchCost) -> int:
    """Add one unit of cost to the candidates that are not among the better hosts."""
    worse = ~better[state.rows]
    state.preferences.append(PolicyDomains(worse.astype(np.intp), [DomainState(), DomainState(batch.unit)]))
    return 2
