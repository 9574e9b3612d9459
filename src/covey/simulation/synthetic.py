"""A synthetic fleet: equal hosts in racks in zones."""

from dataclasses import dataclass
from string import ascii_lowercase

import numpy as np

from covey.model.fleet_records import AggregateRecord, HostRecord
from covey.model.ids import HostId, ScopeId
from covey.model.providers import InventoryRecord, ProviderRecord
from covey.model.resources import Resources, server_resources
from covey.simulation.initial_state import InitialState, Size

HOSTS_PER_RACK = 40
SIZES = (
    Size(server_resources(1, 2048, 20)),
    Size(server_resources(2, 4096, 40)),
    Size(server_resources(4, 8192, 80)),
    Size(server_resources(8, 16384, 160)),
    Size(server_resources(16, 32768, 320)),
)


CAPACITY = server_resources(128, 65536, 2000)


@dataclass(frozen=True, slots=True)
class Synthetic:
    """The parameters of a synthetic fleet; the capacity of a host includes its overcommit."""

    hosts: int = 1000
    zones: int = 3
    racks_per_zone: int | None = None  # None: racks of about 40 hosts
    capacity: Resources = CAPACITY

    def start(self) -> InitialState:
        """Return the empty fleet. Consecutive hosts share a rack, and consecutive racks share a zone."""
        racks_per_zone = self.racks_per_zone or max(1, round(self.hosts / self.zones / HOSTS_PER_RACK))
        zones = [f"zone-{_letters(number)}" for number in range(self.zones)]
        racks = [f"rack-{number + 1}" for number in range(self.zones * racks_per_zone)]
        width = len(str(self.hosts))
        zone_of, rack_of = ((np.arange(self.hosts) * len(each) // self.hosts).tolist() for each in (zones, racks))
        first_rack = len(zones) + 1
        hosts = [
            HostRecord(
                HostId(i), f"host-{i:0{width}}", zone=zones[zone], aggregates=frozenset({zone + 1, rack + first_rack})
            )
            for i, zone, rack in zip(range(1, self.hosts + 1), zone_of, rack_of, strict=True)
        ]
        inventories = {name: InventoryRecord(amount) for name, amount in self.capacity.items()}
        providers = [ProviderRecord(host.id, host.name, host.name, None, None, 0, inventories) for host in hosts]
        names = dict(enumerate([*zones, *racks], start=1))
        kinds = ["zone"] * len(zones) + ["rack"] * len(racks)
        domains = [AggregateRecord(i, names[i], ScopeId(kind)) for i, kind in enumerate(kinds, start=1)]
        scopes = {name: ScopeId(name) for name in ("rack", "zone")}
        return InitialState(providers, hosts, domains, names, scopes, SIZES)


def _letters(number: int) -> str:
    """Return a to z, then aa, ab and so on."""
    more, last = divmod(number, len(ascii_lowercase))
    return (_letters(more - 1) if more else "") + ascii_lowercase[last]
