"""Images: catalog records with properties. Covey stores no image data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from covey.model.ids import ImageId, ProjectId


class Visibility(StrEnum):
    """Which projects besides the owner may see an image."""

    PUBLIC = "public"
    COMMUNITY = "community"
    SHARED = "shared"
    PRIVATE = "private"


class ImageStatus(StrEnum):
    """An image is queued until its data is uploaded, then active."""

    QUEUED = "queued"
    ACTIVE = "active"


@dataclass(frozen=True, slots=True)
class Image:
    """A record of the image catalog."""

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
        """Return whether members of the project may see the image."""
        return self.owner == project or self.visibility in {Visibility.PUBLIC, Visibility.COMMUNITY}


@dataclass(frozen=True, slots=True)
class ImageFilter:
    """The filters, order and page of an image listing; None matches every image."""

    visible_to: ProjectId | None = None  # its own and public images, community ones on request; None: all
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
