"""The state of a batch of equal servers: a column for what is a host's own, domains for what hosts share.

The soft policies give each host one number, its cost, in which the first policy has the highest digits: no sum of
later ones outweighs it. Each domain contributes its part of the cost, and the host its own.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from covey.scheduler.fleet import UNLIMITED, Rows
from covey.scheduler.tie_breaking import TieKeys


@dataclass(slots=True)
class DomainState:
    """One domain, as one policy sees it."""

    cost: int = 0  # of one more server here
    step: int = 0  # what each server placed here adds to the cost
    left: int = UNLIMITED  # how many more servers fit


@dataclass(frozen=True, slots=True)
class PolicyDomains:
    """The domains of a policy that distinguishes domains, but not the hosts in them."""

    of: NDArray[np.intp]  # the domain of each candidate
    domains: list[DomainState]


@dataclass(slots=True)
class BatchState:
    """The candidates: hosts that admit the first server."""

    rows: Rows  # in the fleet
    tie_keys: TieKeys
    fits: NDArray[np.int64]  # how many servers each host takes, as far as it depends on the host alone
    value: NDArray[np.complex128]  # real: a part of the cost, negated; imaginary: the weight, which ranks next
    own_step: int = 0  # what each server placed on a host adds to the real part of its value
    own_cost: int = 0  # the cost of one unit of the real part
    limits: list[PolicyDomains] = field(default_factory=list)
    preferences: list[PolicyDomains] = field(default_factory=list)
    affinity_domains: list[NDArray[np.intp]] = field(default_factory=list)  # of policies without a member yet
