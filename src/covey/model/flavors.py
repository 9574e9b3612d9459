"""Flavors: the sizes of servers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from covey.model.ids import FlavorId, ProjectId


@dataclass(frozen=True, slots=True)
class Flavor:
    """A size with extra specs. A private flavor is usable only by the projects on its access list."""

    id: FlavorId
    name: str
    vcpus: int
    memory_mb: int
    disk_gb: int
    ephemeral_gb: int = 0
    swap_mb: int = 0
    rxtx_factor: float = 1.0
    is_public: bool = True
    description: str | None = None
    extra_specs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FlavorFilter:
    """The filters of a flavor listing; None matches every flavor."""

    is_public: bool | None = True
    visible_to: ProjectId | None = None  # includes private flavors that this project has access to
    min_memory_mb: int = 0
    min_disk_gb: int = 0
