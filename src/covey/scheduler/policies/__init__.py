"""Group policies: each kind is one module here, and everything that depends on the kind is in it.

To add a kind, write its module and add one line to HARD or to SOFT; `protocol` lists what a kind offers.
"""

from collections.abc import Iterable, Iterator

from covey.model.groups import GroupPolicy, GroupView
from covey.scheduler.policies.affinity import Affinity
from covey.scheduler.policies.anti_affinity import AntiAffinity
from covey.scheduler.policies.protocol import HardPolicy, Policy, SoftPolicy
from covey.scheduler.policies.soft_affinity import SoftAffinity
from covey.scheduler.policies.soft_anti_affinity import SoftAntiAffinity

HARD: tuple[HardPolicy, ...] = (AntiAffinity(), Affinity())  # in the order in which they explain a refusal
SOFT: tuple[SoftPolicy, ...] = (SoftAntiAffinity(), SoftAffinity())


def kind_of(policy: GroupPolicy) -> Policy:
    """Return the kind of a policy."""
    kinds: tuple[Policy, ...] = (*HARD, *SOFT)
    return next(each for each in kinds if each.kind is policy.kind)


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
    """Put a group's policies into words: at most 2 in one rack; behind one switch if possible."""
    return "; ".join(kind_of(policy).describe(policy) for policy in policies)
