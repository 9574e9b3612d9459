"""Flavors: the sizes that servers come in."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from covey.model.ids import FlavorId, ProjectId


@dataclass(frozen=True, slots=True)
class Flavor:
    """A size, with extra specs; a private one is for the projects on its list only."""

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
    """Which flavors a listing wants; None means no matter."""

    is_public: bool | None = True
    visible_to: ProjectId | None = None  # private ones only if this project is on their list
    min_memory_mb: int = 0
    min_disk_gb: int = 0
