"""What the dashboard shows beyond the public APIs: by the same rules, and through the same disguise."""

from dataclasses import dataclass
from typing import Self

from covey.ports import Access, Clock
from covey.services.clustering.engines import Engines
from covey.services.dashboard.fleet_map import FleetMaps
from covey.services.dashboard.group_pages import GroupPages
from covey.services.dashboard.health import HealthChecks
from covey.services.dashboard.refusals import Refusals
from covey.services.dashboard.watch import Watch
from covey.services.groups import Groups
from covey.services.live_fleet import LiveFleet
from covey.services.servers import Servers
from covey.storage.store import Store


@dataclass(frozen=True, slots=True)
class Dashboard:
    """All of it, by subject."""

    fleet: FleetMaps
    groups: GroupPages
    health: HealthChecks
    watch: Watch
    refusals: Refusals

    @classmethod
    def on(
        cls,
        store: Store,
        access: Access,
        clock: Clock,
        live: LiveFleet,
        groups: Groups,
        servers: Servers,
        tells: str,
        *,
        isolates: bool,
    ) -> Self:
        """`tells` is how much tenants learn of refusals; `isolates` says whether aggregates keep requests out."""
        return cls(
            fleet=FleetMaps(store, access, live),
            groups=GroupPages(store, access, live, groups),
            health=HealthChecks(store, access, Engines(store, access, clock), isolates),
            watch=Watch(store, access),
            refusals=Refusals(store, access, live, servers, tells),
        )
