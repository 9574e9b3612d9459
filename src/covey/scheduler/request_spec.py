"""RequestSpec: what a request asks of hosts; immutable."""

from dataclasses import dataclass, field

from covey.model.flavors import Flavor
from covey.model.groups import NO_GROUP, GroupView
from covey.model.resources import GranularGroup, Resources, resource_request, total_of
from covey.model.servers import HostRequirements

__all__ = ["HostRequirements", "RequestSpec"]


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """Equal servers to place: as many as fit up to `count`, or none if fewer than `minimum` fit."""

    amounts: Resources  # of one server, which providers of one tree may serve together
    count: int = 1
    minimum: int = 1
    requirements: HostRequirements = field(default_factory=HostRequirements)
    group: GroupView = NO_GROUP
    forced: bool = False  # an operator forces the host: its room and isolation are checked
    granular: tuple[GranularGroup, ...] = ()  # of one server, each of which one provider serves
    isolate: bool = False  # no provider serves two granular groups

    @classmethod
    def for_flavor(
        cls, flavor: Flavor, requirements: HostRequirements, group: GroupView | None = None, *, forced: bool = False
    ) -> "RequestSpec":
        """Return the request for one server of a flavor. Raises Invalid for an extra spec that Covey cannot follow."""
        requested = resource_request(flavor)
        return cls(
            requested.amounts,
            requirements=requirements,
            group=group or NO_GROUP,
            forced=forced,
            granular=requested.groups,
            isolate=requested.isolate,
        )

    @property
    def total(self) -> Resources:
        """All that one server takes."""
        return total_of(self.amounts, self.granular)
