"""Violations: which policies of a group do not hold, where, and by which members; and objections to a new member."""

from collections.abc import Collection, Mapping, Sequence

from covey.model.groups import GroupPolicy, GroupView, PolicyKind
from covey.model.ids import HostId
from covey.scheduler.fleet import Fleet
from covey.scheduler.policies import hard_policies, kind_of
from covey.scheduler.policies.scopes import Violation, member_domains
from covey.scheduler.reasons import Reason

__all__ = ["Violation", "audit", "objections", "reasons_against", "violations"]


def violations(
    policies: Sequence[GroupPolicy],
    hosts: Mapping[str, HostId | None],
    fleet: Fleet,
    exempt: Collection[HostId] = frozenset(),
) -> list[Violation]:
    """Return what does not hold, policy by policy.

    Members without a host, and those on hosts that the fleet does not have, do not count. An exempt host is many
    machines: members there count for no policy that spreads a group over hosts.
    """
    return [
        violation
        for found in member_domains(policies, hosts, fleet, exempt)
        for violation in kind_of(found.policy).violations(found)
    ]


def audit(
    policies: Sequence[GroupPolicy],
    hosts: Mapping[str, HostId | None],
    fleet: Fleet,
    exempt: Collection[HostId] = frozenset(),
) -> list[Violation]:
    """Return the policies whose domain no longer exists, which no move repairs, and the violations."""
    return [*_missing_domains(policies, fleet), *violations(policies, hosts, fleet, exempt)]


def _missing_domains(policies: Sequence[GroupPolicy], fleet: Fleet) -> list[Violation]:
    missing = [
        policy
        for policy in policies
        if policy.target is not None and not fleet.domains(policy.scope.id).exists(policy.target)
    ]
    return [
        Violation(
            policy,
            policy.target,
            (),
            policy.kind.is_soft,
            f"the {policy.scope.name} that the policy names no longer exists",
        )
        for policy in missing
    ]


def objections(group: GroupView, host: HostId, fleet: Fleet) -> list[str]:
    """Return why the hard policies of a group do not admit one more member on a host, without naming the host."""
    return [f"its host {reason.one}" for reason in reasons_against(group, host, fleet)]


def reasons_against(group: GroupView, host: HostId, fleet: Fleet) -> list[Reason]:
    """Return the reasons of `objections`.

    Each kind of policy gives one: that of its first policy which rules the host out.
    """
    found: dict[PolicyKind, Reason] = {}
    here = fleet.mask_of([host])
    for kind, policy in hard_policies(group):
        rejected = here & ~kind.mask(policy, group, fleet)
        for reason in kind.reasons(policy, group, fleet, rejected):
            if reason.count:
                found.setdefault(kind.kind, reason)
    return list(found.values())
