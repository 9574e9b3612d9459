"""Ranks given hosts by the policies of a group alone, for a scheduler that weighs everything else itself."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from covey.model.groups import GroupView
from covey.model.resources import Resources
from covey.scheduler.columns import Column, Mask
from covey.scheduler.fleet import Fleet
from covey.scheduler.policies import GroupPolicies, soft_policies
from covey.scheduler.reasons import Reason
from covey.scheduler.request_spec import RequestSpec

_POLICIES = GroupPolicies()


@dataclass(frozen=True, slots=True)
class HostRanking:
    """Which hosts the hard policies admit, how the soft ones weigh these, and why the others are refused."""

    admitted: Mask
    weights: Column  # 1 for the best hosts down to almost 0; equal for hosts between which no policy decides
    refused: tuple[Reason, ...]


def rank_hosts(group: GroupView, fleet: Fleet, hosts: Mask) -> HostRanking:
    """Rank hosts for one more member of the group."""
    spec = RequestSpec(Resources({}), group=group)
    allowed = _POLICIES.allows(spec, fleet)
    admitted = hosts if allowed is None else hosts & allowed
    reasons = _POLICIES.reasons(spec, fleet, hosts & ~admitted)
    levels = list(_levels(group, fleet, admitted))
    weights = np.zeros(len(fleet), dtype=np.float64)
    for number, level in enumerate(levels):
        weights[level] = 1 - number / len(levels)
    refused = sorted((reason for reason in reasons if reason.count), key=lambda reason: -reason.count)
    return HostRanking(admitted, weights, tuple(refused))


def _levels(group: GroupView, fleet: Fleet, candidates: Mask) -> Iterator[Mask]:
    """Yield the hosts that rank equally, the best first."""
    policies = soft_policies(group)
    while candidates.any():
        best = candidates
        for kind, policy in policies:
            best = kind.best(policy, group, fleet, best)
        yield best
        candidates = candidates & ~best
