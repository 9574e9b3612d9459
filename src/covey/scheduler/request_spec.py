"""RequestSpec: what a request asks of hosts; immutable."""

from dataclasses import dataclass, field

from covey.model.groups import GroupView
from covey.model.servers import HostRequirements

__all__ = ["HostRequirements", "RequestSpec"]


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """Equal servers to place: as many as fit up to `count`, or none if fewer than `minimum` fit."""

    vcpus: int
    memory_mb: int
    disk_gb: int
    count: int = 1
    minimum: int = 1
    requirements: HostRequirements = field(default_factory=HostRequirements)
    group: GroupView = field(default_factory=GroupView)
    forced: bool = False  # an operator forces the host: only its room is checked

    @property
    def amounts(self) -> tuple[int, int, int]:
        """What one server takes, in the order of RESOURCES."""
        return self.vcpus, self.memory_mb, self.disk_gb
