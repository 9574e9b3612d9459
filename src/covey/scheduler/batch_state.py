"""What a batch of equal servers knows of its candidates: a column for what is a host's own, domains for what is shared.

All that soft policies say of a host becomes one number, its cost, in which the first policy has the highest digits:
no sum of later ones outweighs it. Each domain pays its part of the cost, and the host its own.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from covey.model.groups import HOST, PolicyKind
from covey.model.ids import ScopeId
from covey.scheduler import preferences
from covey.scheduler.constraints.room import times_it_fits
from covey.scheduler.fleet import NEVER, NO_DOMAIN, Domains, Fleet, Rows, counts_by_domain
from covey.scheduler.preferences.soft_policies import SoftPolicy
from covey.scheduler.request_spec import RequestSpec
from covey.scheduler.tie_breaking import Lots


@dataclass(slots=True)
class Domain:
    """A place with several hosts, as one policy sees it."""

    cost: int = 0  # of one more server here
    step: int = 0  # what each server that comes adds to the cost
    left: int = NEVER  # how many more may come


@dataclass(frozen=True, slots=True)
class Shared:
    """A policy that tells domains apart, not the hosts in them."""

    of: NDArray[np.intp]  # the domain of each candidate
    domains: list[Domain]


@dataclass(slots=True)
class State:
    """The candidates: hosts that may take the first server."""

    rows: Rows  # in the fleet
    lots: Lots
    fits: NDArray[np.int64]  # how many servers each takes, as far as it depends on the host alone
    value: NDArray[np.complex128]  # a part of the cost, negated; and in the imaginary part the weight, which ranks next
    own_step: int = 0  # what each server that comes adds to the real part of a host's value
    own_cost: int = 0  # what one in the real part stands for
    limits: list[Shared] = field(default_factory=list)
    tastes: list[Shared] = field(default_factory=list)
    together: list[NDArray[np.intp]] = field(default_factory=list)  # domains by hard affinity that has no member yet


def begin(spec: RequestSpec, fleet: Fleet, rows: Rows, lots: Lots) -> State:
    """As it is before the first placement."""
    value = np.zeros(rows.size, dtype=np.complex128)
    value.imag = fleet.weight[rows]
    state = State(rows, lots, times_it_fits(spec, fleet)[rows], value)
    if not spec.forced:
        _add_hard_policies(state, spec, fleet)
        _add_soft_policies(state, spec, fleet)
    return state


def _add_hard_policies(state: State, spec: RequestSpec, fleet: Fleet) -> None:
    for policy in spec.group.policies:
        if policy.target is not None or policy.kind.is_soft:
            continue  # what a target rules out, the constraint ruled out for good
        domains, counts = _counts(policy.scope.id, spec, fleet)
        of = domains.of_host[state.rows]
        if policy.kind is PolicyKind.AFFINITY:
            if not counts[:NO_DOMAIN].any():
                state.together.append(of)
        elif policy.scope == HOST:
            np.minimum(state.fits, policy.limit - counts[of], out=state.fits)
        else:
            state.limits.append(Shared(of, [Domain(left=left) for left in (policy.limit - counts).tolist()]))


def _add_soft_policies(state: State, spec: RequestSpec, fleet: Fleet) -> None:
    unit = 1
    for soft in reversed(preferences.of(spec)):
        unit *= _add_soft_policy(state, soft, unit, spec, fleet)


def _add_soft_policy(state: State, soft: SoftPolicy, unit: int, spec: RequestSpec, fleet: Fleet) -> int:
    """What the policy makes hosts cost, in units; returns how many of them are more than it can ever tell apart."""
    if soft.policy.target is not None:
        worse = soft.scores(spec, fleet)[state.rows] == 0
        state.tastes.append(Shared(worse.astype(np.intp), [Domain(), Domain(unit)]))
        return 2
    step = -1 if soft.policy.kind is PolicyKind.SOFT_AFFINITY else 1
    domains, counts = _counts(soft.policy.scope.id, spec, fleet)
    of, costs = domains.of_host[state.rows], step * counts
    least, most = int(costs.min()), int(costs.max())
    if soft.policy.scope == HOST:  # of several the first one listed stays, as hosts that tie by it tie by all
        state.value.real, state.own_step, state.own_cost = -costs[of], -step, unit
    else:
        of_domains = [Domain(cost * unit, step * unit) for cost in costs.tolist()]
        of_domains[NO_DOMAIN] = Domain((most + spec.count + 1) * unit)
        state.tastes.append(Shared(of, of_domains))
    return most - least + 2 * spec.count + 2


def _counts(scope: ScopeId | None, spec: RequestSpec, fleet: Fleet) -> tuple[Domains, NDArray[np.int64]]:
    domains = fleet.domains(scope)
    return domains, counts_by_domain(domains, fleet, spec.group.places)
