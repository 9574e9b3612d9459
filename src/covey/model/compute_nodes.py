"""Compute nodes of Nova: resource providers that run instances and are no hosts of Covey's."""

from dataclasses import dataclass

from covey.model.ids import HostId


@dataclass(frozen=True, slots=True)
class ComputeNode:
    """A root resource provider with the state of its compute service, if the mirror of Nova has it."""

    id: HostId  # of the resource provider: hosts of members have such ids as well
    uuid: str
    name: str
    zone: str | None = None
    disabled: bool = False
    disabled_reason: str | None = None
    up: bool = True
    service_host: str | None = None  # the name of its compute service; None if the mirror does not have the node

    @property
    def is_mirrored(self) -> bool:
        """Whether the mirror has the node; otherwise its state is unknown."""
        return self.service_host is not None
