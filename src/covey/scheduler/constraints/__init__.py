"""Constraints: each returns the hosts that it admits as a boolean column. To add one, name it in a tuple below."""

from typing import Protocol

from covey.scheduler.constraints.static import (
    Enabled,
    ForbiddenAggregates,
    NamedHosts,
    TenantIsolation,
    Traits,
    Up,
    Zone,
)
from covey.scheduler.fleet import Fleet, Mask, Rows
from covey.scheduler.policies import GroupPolicies
from covey.scheduler.reasons import Reason, Sentences
from covey.scheduler.request_spec import RequestSpec
from covey.scheduler.room import Room


class Constraint(Protocol):
    """A filter of hosts: stateless, and evaluated for all hosts at once."""

    def allows(self, spec: RequestSpec, fleet: Fleet) -> Mask | None:
        """Return the hosts that the constraint admits; None when it admits all."""

    def reasons(self, spec: RequestSpec, fleet: Fleet, rejected: Mask) -> list[Reason]:
        """Explain why the rejected hosts are ruled out: each rejected host is in one reason."""

    def explain_hosts(self, spec: RequestSpec, fleet: Fleet, rows: Rows) -> Sentences:
        """Explain hosts that are ruled out, with their numbers, for an administrator: each host in one sentence."""


# These hold until the fleet's structure changes: their product is cached for each HostRequirements.
STATIC: tuple[Constraint, ...] = (
    Enabled(),
    Up(),
    NamedHosts(),
    Zone(),
    TenantIsolation(),
    ForbiddenAggregates(),
    Traits(),
)
# These change with every server that is placed, moved or deleted.
DYNAMIC: tuple[Constraint, ...] = (Room(), GroupPolicies())
WITHOUT_GROUP: tuple[Constraint, ...] = (Room(),)
# An operator who forces a host skips all others.
FORCED: tuple[Constraint, ...] = (NamedHosts(), TenantIsolation(), ForbiddenAggregates(), Room())
