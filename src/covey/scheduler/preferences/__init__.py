"""Which hosts are better? A number column each; the first decides, the next ones break its ties."""

from typing import Protocol

from covey.scheduler.fleet import Column, Fleet, Mask, Rows, best_rows
from covey.scheduler.preferences.soft_policies import SoftPolicy
from covey.scheduler.request_spec import RequestSpec


class Preference(Protocol):
    """Looks at nothing but its arguments and answers for all hosts at once."""

    def scores(self, spec: RequestSpec, fleet: Fleet) -> Column:
        """How good each host is; more is better."""

    def best(self, spec: RequestSpec, fleet: Fleet, may: Mask) -> Mask:
        """Those of the hosts that may which no other beats."""


def of(spec: RequestSpec) -> tuple[SoftPolicy, ...]:
    """The soft policies of the ask's group, in the order in which the tenant listed them."""
    return tuple(SoftPolicy(policy) for policy in spec.group.policies if policy.kind.is_soft)


def best(spec: RequestSpec, fleet: Fleet, may: Mask) -> Rows:
    """Those that no other beats, by the soft policies and then by the operator's weighers; somebody must be allowed."""
    for preference in of(spec):
        may = preference.best(spec, fleet, may)
    return best_rows(fleet.weight, may)
