"""Soft anti-affinity: prefer the domain that holds the fewest members, or any domain but the one that is named."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from covey.model.groups import GroupPolicy, GroupView, PolicyKind
from covey.scheduler.batch_state import BatchState
from covey.scheduler.fleet import NO_DOMAIN, Fleet, Mask, highest
from covey.scheduler.policies import member_counts, targets
from covey.scheduler.policies.protocol import BatchCost
from covey.scheduler.policies.scopes import Counts, MemberDomains, ScopedPolicy, Violation, in_one, in_target

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel

    from covey.scheduler.rebalancing.flows import DomainFlows, Term

_FEWER_IS_BETTER = -1


@dataclass(frozen=True, slots=True)
class SoftAntiAffinity:
    """Spread members evenly."""

    kind = PolicyKind.SOFT_ANTI_AFFINITY

    def describe(self, policy: GroupPolicy) -> str:
        if policy.target is not None:
            return f"not {in_target(policy)} if possible"
        return f"as few as possible {in_one(policy.scope.name)}"

    def best(self, policy: GroupPolicy, group: GroupView, fleet: Fleet, candidates: Mask) -> Mask:
        if policy.target is not None:
            return highest(targets.outside(policy, fleet).astype(float), candidates)
        return member_counts.best(policy, group, fleet, candidates, _FEWER_IS_BETTER)

    def rank_batch(
        self, policy: GroupPolicy, group: GroupView, fleet: Fleet, state: BatchState, batch: BatchCost
    ) -> int:
        if policy.target is not None:
            return targets.rank_batch(targets.outside(policy, fleet), state, batch)
        return member_counts.rank_batch(policy, group, fleet, state, batch, _FEWER_IS_BETTER)

    def violations(self, members: MemberDomains) -> Iterator[Violation]:
        if members.policy.target is not None:
            yield from targets.members_inside(members)
            return
        yield from members.without_domain()
        counts, scope = members.counts, members.policy.scope.name
        most, least = _most_and_least(members.scoped, counts)
        if most - least > 1:
            crowded = np.zeros(members.rows.size, dtype=np.bool_)
            for domain in np.flatnonzero(counts > least + 1).tolist():
                crowded |= members.inside(domain)
            sentence = f"the fullest {scope} holds {most} of the group; the emptiest usable one holds {least}"
            yield members.violation(int(counts.argmax()), crowded, sentence)

    def penalty(self, scoped: ScopedPolicy, counts: Counts) -> int:
        if scoped.target is not None:
            return targets.count_inside(scoped, counts)
        most, least = _most_and_least(scoped, counts[:NO_DOMAIN])
        return int(counts[NO_DOMAIN]) + max(0, most - least - 1)

    def penalty_term(self, model: "CpModel", scoped: ScopedPolicy, flows: "DomainFlows", *, monotonic: bool) -> "Term":
        del monotonic  # a move from a fuller domain to an emptier one never makes the spread less even
        if scoped.target is not None:
            return targets.flow_inside(scoped, flows)
        total, usable = int(flows.counts.sum()), int(scoped.usable.sum())
        most, beyond = model.new_int_var(0, total, ""), model.new_int_var(0, total, "")
        least = model.new_int_var(0, total // usable if usable else total, "")
        idle = scoped.usable.copy()
        for domain in flows.busy:
            model.add(most >= flows.after(domain))
            if scoped.usable[domain]:
                model.add(least <= flows.after(domain))
            idle[domain] = False
        for host_class, variables in flows.host_classes:
            model.add(host_class.rows.size * most >= sum(variables))
            model.add(host_class.rows.size * least <= sum(variables))
            idle[host_class.rows] = False
        if idle.any():
            model.add(least == 0)
        # Implied by the rest; it gives the solver a first bound.
        model.add(most * len(scoped.domains.names) >= flows.members - flows.after(NO_DOMAIN))
        model.add(beyond >= most - least - 1)
        return beyond + flows.after(NO_DOMAIN)


def _most_and_least(scoped: ScopedPolicy, counts: Counts) -> tuple[int, int]:
    """Return how many members the fullest domain holds, and the emptiest one with an available host."""
    most = int(counts.max(initial=0))
    return most, int(counts[scoped.usable].min(initial=most))
