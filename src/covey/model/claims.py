"""What a claim writes: servers with their places, or with the reason why they have none."""

from dataclasses import dataclass
from datetime import datetime

from covey.model.flavors import Flavor
from covey.model.servers import Server


@dataclass(frozen=True, slots=True)
class Booking:
    """A new server, with a host and so a claim on its room; or without one, and then with a fault."""

    server: Server
    request_id: str

    @property
    def amounts(self) -> tuple[int, int, int]:
        """What it takes of a host: VCPUs, MB of memory, GB of disk."""
        return amounts_of(self.server.flavor)

    @property
    def stamp(self) -> datetime:
        """When it was asked for."""
        return self.server.created_at


def amounts_of(flavor: Flavor) -> tuple[int, int, int]:
    """What a server of that size takes: VCPUs, MB of memory, GB of disk with ephemeral and swap."""
    return flavor.vcpus, flavor.memory_mb, flavor.disk_gb + flavor.ephemeral_gb + -(-flavor.swap_mb // 1024)
