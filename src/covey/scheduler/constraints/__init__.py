"""Which hosts may? A boolean column each. To add one, write it beside these and name it here."""

from typing import Protocol

from covey.scheduler.constraints.affinity import Affinity
from covey.scheduler.constraints.anti_affinity import AntiAffinity
from covey.scheduler.constraints.isolation import ForbiddenAggregates, TenantIsolation
from covey.scheduler.constraints.named_hosts import NamedHosts
from covey.scheduler.constraints.room import Room
from covey.scheduler.constraints.state import Enabled, Up
from covey.scheduler.constraints.traits import Traits
from covey.scheduler.constraints.zone import Zone
from covey.scheduler.fleet import Fleet, Mask
from covey.scheduler.reasons import Reason
from covey.scheduler.request_spec import RequestSpec


class Constraint(Protocol):
    """Looks at nothing but its arguments, answers for all hosts at once, and can say why."""

    def allows(self, spec: RequestSpec, fleet: Fleet) -> Mask | None:
        """Who may; None when it has nothing against anybody."""

    def reasons(self, spec: RequestSpec, fleet: Fleet, lost: Mask) -> list[Reason]:
        """Why the lost ones may not: every lost host in one reason."""

    def why_not(self, spec: RequestSpec, fleet: Fleet, row: int) -> str:
        """The same for one host that was refused, with its numbers, for an administrator."""


# These hold until the fleet's structure changes, so their product is remembered for each Standing.
STATIC: tuple[Constraint, ...] = (
    Enabled(),
    Up(),
    NamedHosts(),
    Zone(),
    TenantIsolation(),
    ForbiddenAggregates(),
    Traits(),
)
# These change with every server that comes or goes.
DYNAMIC: tuple[Constraint, ...] = (Room(), AntiAffinity(), Affinity())
