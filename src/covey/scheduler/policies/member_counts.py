"""Ranking domains by how many members they hold: what soft affinity and soft anti-affinity share."""

import numpy as np

from covey.model.groups import HOST, GroupPolicy, GroupView
from covey.scheduler.batch_state import BatchState, DomainState, PolicyDomains
from covey.scheduler.fleet import NO_DOMAIN, Fleet, Mask, counts_by_domain
from covey.scheduler.policies.protocol import BatchCost


def best(policy: GroupPolicy, group: GroupView, fleet: Fleet, candidates: Mask, sign: int) -> Mask:
    """Return the candidates whose domain holds the most members (sign 1) or the fewest (-1); no domain is worst."""
    domains = fleet.domains(policy.scope.id)
    scores = counts_by_domain(domains, fleet, group.members_by_host).astype(np.float64)
    if sign < 0:
        scores = -scores
    scores[NO_DOMAIN] = -np.inf
    return domains.highest(scores, candidates)


def rank_batch(
    policy: GroupPolicy, group: GroupView, fleet: Fleet, state: BatchState, batch: BatchCost, sign: int
) -> int:
    """Add the ranking of `best` to a batch's state: each server changes the cost of its domain by one unit."""
    domains = fleet.domains(policy.scope.id)
    of, costs = domains.of_host[state.rows], -sign * counts_by_domain(domains, fleet, group.members_by_host)
    least, most = int(costs.min()), int(costs.max())
    if policy.scope == HOST:  # of several such policies the first one stays: hosts that tie by it tie by all
        state.value.real, state.own_step, state.own_cost = -costs[of], sign, batch.unit
    else:
        states = [DomainState(cost * batch.unit, -sign * batch.unit) for cost in costs.tolist()]
        states[NO_DOMAIN] = DomainState((most + batch.servers + 1) * batch.unit)
        state.preferences.append(PolicyDomains(of, states))
    return most - least + 2 * batch.servers + 2
