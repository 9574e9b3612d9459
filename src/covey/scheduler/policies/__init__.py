"""Group policies: each kind is one module here, which has everything that depends on the kind.

To add a kind, name it in `covey.model.groups`, write its module, and add one line to HARD or to SOFT; `protocol` lists
what a kind offers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from covey.model.groups import GroupPolicy, GroupView
from covey.scheduler.fleet import Fleet, Mask, Rows
from covey.scheduler.policies.affinity import Affinity
from covey.scheduler.policies.anti_affinity import AntiAffinity
from covey.scheduler.policies.protocol import HardPolicy, Policy, SoftPolicy
from covey.scheduler.policies.soft_affinity import SoftAffinity
from covey.scheduler.policies.soft_anti_affinity import SoftAntiAffinity
from covey.scheduler.reasons import Reason, Sentences
from covey.scheduler.request_spec import RequestSpec

HARD: tuple[HardPolicy, ...] = (AntiAffinity(), Affinity())  # in the order in which they explain a refusal
SOFT: tuple[SoftPolicy, ...] = (SoftAntiAffinity(), SoftAffinity())


def kind_of(policy: GroupPolicy) -> Policy:
    """Return the kind of a policy."""
    kinds: tuple[Policy, ...] = (*HARD, *SOFT)
    return next(kind for kind in kinds if kind.kind is policy.kind)


def hard_policies(group: GroupView) -> Iterator[tuple[HardPolicy, GroupPolicy]]:
    """Yield the hard policies of a group with their kinds, kind by kind."""
    for kind in HARD:
        for policy in group.policies:
            if policy.kind is kind.kind:
                yield kind, policy


def soft_policies(group: GroupView) -> list[tuple[SoftPolicy, GroupPolicy]]:
    """Return the soft policies of a group with their kinds, as the group lists them: the first one counts most."""
    return [(kind, policy) for policy in group.policies for kind in SOFT if policy.kind is kind.kind]


def describe(policies: Iterable[GroupPolicy]) -> str:
    """Return a group's policies in words: at most 2 in one rack; behind one switch if possible."""
    return "; ".join(kind_of(policy).describe(policy) for policy in policies)


@dataclass(frozen=True, slots=True)
class GroupPolicies:
    """The constraint that each hard policy of the group admits the host."""

    def allows(self, spec: RequestSpec, fleet: Fleet) -> Mask | None:
        mask: Mask | None = None
        for kind, policy in hard_policies(spec.group):
            admitted = kind.mask(policy, spec.group, fleet)
            mask = admitted if mask is None else mask & admitted
        return mask

    def reasons(self, spec: RequestSpec, fleet: Fleet, rejected: Mask) -> list[Reason]:
        all_reasons: list[Reason] = []
        for kind, policy in hard_policies(spec.group):
            rejected_here = rejected & ~kind.mask(policy, spec.group, fleet)
            rejected = rejected & ~rejected_here
            all_reasons += kind.reasons(policy, spec.group, fleet, rejected_here)
        return all_reasons

    def explain_hosts(self, spec: RequestSpec, fleet: Fleet, rows: Rows) -> Sentences:
        for kind, policy in hard_policies(spec.group):
            admitted = kind.mask(policy, spec.group, fleet)[rows]
            yield from kind.explain_hosts(policy, spec.group, fleet, rows[~admitted])
            rows = rows[admitted]
