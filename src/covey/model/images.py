"""Images: catalogue records with properties. Covey keeps no image data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from covey.model.ids import ImageId, ProjectId


class Visibility(StrEnum):
    """Who may see an image besides its owner."""

    PUBLIC = "public"
    COMMUNITY = "community"
    SHARED = "shared"
    PRIVATE = "private"


class ImageStatus(StrEnum):
    """Queued until data was sent, then active."""

    QUEUED = "queued"
    ACTIVE = "active"


@dataclass(frozen=True, slots=True)
class Image:
    """A record of the catalogue."""

    id: ImageId
    name: str | None
    owner: ProjectId
    created_at: datetime
    updated_at: datetime
    status: ImageStatus = ImageStatus.QUEUED
    visibility: Visibility = Visibility.SHARED
    disk_format: str | None = None
    container_format: str | None = None
    min_disk_gb: int = 0
    min_ram_mb: int = 0
    size_bytes: int | None = None
    protected: bool = False
    hidden: bool = False
    tags: frozenset[str] = frozenset()
    properties: Mapping[str, str] = field(default_factory=dict)

    def visible_to(self, project: ProjectId) -> bool:
        """Whether a member of the project may see it at all."""
        return self.owner == project or self.visibility in {Visibility.PUBLIC, Visibility.COMMUNITY}


@dataclass(frozen=True, slots=True)
class ImageFilter:
    """Which images a listing wants; None means no matter."""

    visible_to: ProjectId | None = None  # own and public ones, community ones if asked for; None: everybody's
    ids: tuple[str, ...] | None = None
    names: tuple[str, ...] | None = None
    statuses: tuple[str, ...] | None = None
    owner: str | None = None
    visibility: Visibility | None = None
    hidden: bool | None = False
    tags: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    after: ImageId | None = None
    limit: int | None = None
    sort_key: str = "created_at"
    descending: bool = True
