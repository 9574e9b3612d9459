"""Data of the dashboard that the public APIs do not provide, under the same access rules and obfuscation."""

from dataclasses import dataclass
from typing import Self

from covey.ports import Access, Clock
from covey.services.clustering.engines import Engines
from covey.services.dashboard.change_poller import ChangePoller
from covey.services.dashboard.fleet_map import FleetMaps
from covey.services.dashboard.groups import DashboardGroups
from covey.services.dashboard.health import HealthChecks
from covey.services.dashboard.refusals import Refusals
from covey.services.groups import Groups
from covey.services.live_fleet import LiveFleet
from covey.services.servers import Servers
from covey.storage.store import Store


@dataclass(frozen=True, slots=True)
class Dashboard:
    """The dashboard's services by subject."""

    fleet: FleetMaps
    groups: DashboardGroups
    health: HealthChecks
    changes: ChangePoller
    refusals: Refusals

    @classmethod
    def build(
        cls,
        store: Store,
        access: Access,
        clock: Clock,
        live: LiveFleet,
        groups: Groups,
        servers: Servers,
        detail: str,
        *,
        isolate_aggregates: bool,
    ) -> Self:
        """Build the services on one store.

        `detail` is how much tenants see of refusals; `isolate_aggregates` says whether
        aggregates with required traits reject other requests.
        """
        return cls(
            fleet=FleetMaps(store, access, live),
            groups=DashboardGroups(store, access, live, groups),
            health=HealthChecks(store, access, Engines(store, access, clock), isolate_aggregates),
            changes=ChangePoller(store, access),
            refusals=Refusals(store, access, live, servers, detail),
        )
