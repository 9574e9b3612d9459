"""Violations: which policies of a group do not hold, where, and by which members; and objections to a new member."""

from collections.abc import Mapping, Sequence

from covey.model.groups import GroupPolicy, GroupView, PolicyKind
from covey.model.ids import HostId
from covey.scheduler.fleet import Fleet
from covey.scheduler.policies import hard_policies, kind_of
from covey.scheduler.policies.scopes import Violation, member_places

__all__ = ["Violation", "objections", "violations"]


def violations(policies: Sequence[GroupPolicy], hosts: Mapping[str, HostId], fleet: Fleet) -> list[Violation]:
    """Return what does not hold, policy by policy; members on hosts that the fleet does not have do not count."""
    return [
        violation
        for places in member_places(policies, hosts, fleet)
        for violation in kind_of(places.policy).violations(places)
    ]


def objections(group: GroupView, host: HostId, fleet: Fleet) -> list[str]:
    """Return why the hard policies of a group do not admit one more member on a host, without naming the host.

    Each kind of policy gives one reason: that of its first policy which rules the host out.
    """
    found: dict[PolicyKind, str] = {}
    here = fleet.mask_of([host])
    for kind, policy in hard_policies(group):
        rejected = here & ~kind.mask(policy, group, fleet)
        for reason in kind.reasons(policy, group, fleet, rejected):
            if reason.count:
                found.setdefault(kind.kind, f"its host {reason.one}")
    return list(found.values())
