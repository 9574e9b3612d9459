"""Ask: what is wanted of a host, immutable."""

from dataclasses import dataclass, field

from covey.model.groups import GroupView
from covey.model.servers import HostRequirements

__all__ = ["HostRequirements", "RequestSpec"]


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """A number of equal servers to place: all of them, and at least a minimum, or none."""

    vcpus: int
    memory_mb: int
    disk_gb: int
    count: int = 1
    minimum: int = 1
    requirements: HostRequirements = field(default_factory=HostRequirements)
    group: GroupView = field(default_factory=GroupView)
    forced: bool = False  # an operator named the host: room is needed, nothing else is asked

    @property
    def amounts(self) -> tuple[int, int, int]:
        """What one server takes, in the order of the fleet's columns."""
        return self.vcpus, self.memory_mb, self.disk_gb
