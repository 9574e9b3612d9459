"""A synthetic fleet: equal hosts in racks in zones."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from string import ascii_lowercase

import numpy as np

from covey.model.ids import HostId, ScopeId
from covey.scheduler.fleet import AggregateRecord, HostRecord
from covey.simulation.initial_state import Amounts, InitialState, Size

HOSTS_PER_RACK = 40
SIZES = (
    Size((1, 2048, 20)),
    Size((2, 4096, 40)),
    Size((4, 8192, 80)),
    Size((8, 16384, 160)),
    Size((16, 32768, 320)),
)


@dataclass(frozen=True, slots=True)
class Synthetic:
    """The parameters of a synthetic fleet; the capacity of a host includes its overcommit."""

    hosts: int = 1000
    zones: int = 3
    racks_per_zone: int | None = None  # None: racks of about 40 hosts
    capacity: Amounts = (128, 65536, 2000)

    def start(self) -> InitialState:
        """Return the empty fleet. Consecutive hosts share a rack, and consecutive racks share a zone."""
        racks_per_zone = self.racks_per_zone or max(1, round(self.hosts / self.zones / HOSTS_PER_RACK))
        zones = [f"zone-{_letters(number)}" for number in range(self.zones)]
        racks = [f"rack-{number + 1}" for number in range(self.zones * racks_per_zone)]
        width = len(str(self.hosts))
        zone_of = (np.arange(self.hosts) * len(zones) // self.hosts).tolist()
        hosts = [
            HostRecord(HostId(i + 1), f"host-{i + 1:0{width}}", self.capacity, (0, 0, 0), zone=zones[zone])
            for i, zone in enumerate(zone_of)
        ]
        domains = [*self._domains("zone", len(zones), 1), *self._domains("rack", len(racks), 1 + len(zones))]
        names = dict(enumerate([*zones, *racks], start=1))
        scopes = {name: ScopeId(name) for name in ("rack", "zone")}
        return InitialState(hosts, domains, names, scopes, SIZES)

    def _domains(self, scope: str, number: int, first: int) -> Iterator[AggregateRecord]:
        edges = [-(-self.hosts * i // number) for i in range(number + 1)]
        for i, (begin, end) in enumerate(pairwise(edges)):
            ids = frozenset(HostId(host) for host in range(begin + 1, end + 1))
            yield AggregateRecord(first + i, f"{scope}-{first + i}", ids, ScopeId(scope))


def _letters(number: int) -> str:
    """Return a to z, then aa, ab and so on."""
    more, last = divmod(number, len(ascii_lowercase))
    return (_letters(more - 1) if more else "") + ascii_lowercase[last]
