"""RequestSpec: what a request asks of hosts; immutable."""

from dataclasses import dataclass, field

from covey.model.groups import GroupView
from covey.model.resources import Resources
from covey.model.servers import HostRequirements

__all__ = ["HostRequirements", "RequestSpec"]


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """Equal servers to place: as many as fit up to `count`, or none if fewer than `minimum` fit."""

    amounts: Resources  # of one server
    count: int = 1
    minimum: int = 1
    requirements: HostRequirements = field(default_factory=HostRequirements)
    group: GroupView = field(default_factory=GroupView)
    forced: bool = False  # an operator forces the host: only its room is checked
