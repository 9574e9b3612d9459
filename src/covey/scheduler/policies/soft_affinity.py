"""Soft affinity: prefer the domain that holds the most members, or the domain that the policy names."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.model.groups import GroupPolicy, GroupView, PolicyKind
from covey.scheduler.batch_state import BatchState
from covey.scheduler.fleet import Fleet, Mask, highest
from covey.scheduler.policies import member_counts, targets
from covey.scheduler.policies.affinity import count_scattered, scattered_members, scattered_term
from covey.scheduler.policies.protocol import BatchCost
from covey.scheduler.policies.scopes import Counts, MemberDomains, ScopedPolicy, Violation, in_one, in_target

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel

    from covey.scheduler.rebalancing.flows import DomainFlows, Term

_MORE_IS_BETTER = 1


@dataclass(frozen=True, slots=True)
class SoftAffinity:
    """Keep members together if possible."""

    kind = PolicyKind.SOFT_AFFINITY

    def describe(self, policy: GroupPolicy) -> str:
        place = in_one(policy.scope.name) if policy.target is None else in_target(policy)
        return f"{place} if possible"

    def best(self, policy: GroupPolicy, group: GroupView, fleet: Fleet, candidates: Mask) -> Mask:
        if policy.target is not None:
            return highest(targets.inside(policy, fleet).astype(float), candidates)
        return member_counts.best(policy, group, fleet, candidates, _MORE_IS_BETTER)

    def rank_batch(
        self, policy: GroupPolicy, group: GroupView, fleet: Fleet, state: BatchState, batch: BatchCost
    ) -> int:
        if policy.target is not None:
            return targets.rank_batch(targets.inside(policy, fleet), state, batch)
        return member_counts.rank_batch(policy, group, fleet, state, batch, _MORE_IS_BETTER)

    def violations(self, members: MemberDomains) -> Iterator[Violation]:
        return scattered_members(members)

    def penalty(self, scoped: ScopedPolicy, counts: Counts) -> int:
        return count_scattered(scoped, counts)

    def penalty_term(self, model: "CpModel", scoped: ScopedPolicy, flows: "DomainFlows", *, monotonic: bool) -> "Term":
        return scattered_term(model, scoped, flows, monotonic=monotonic)
