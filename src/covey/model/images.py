"""Images: catalogue records with properties, and the digest of their data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from covey.model.errors import Invalid, OverQuota
from covey.model.ids import ImageId, ProjectId
from covey.model.quotas import UNLIMITED

MAX_PROPERTY_CHARACTERS = 65_536  # keys and values of an image together


class Visibility(StrEnum):
    """Which projects besides the owner may see an image."""

    PUBLIC = "public"
    COMMUNITY = "community"
    SHARED = "shared"
    PRIVATE = "private"


class ImageStatus(StrEnum):
    """An image is queued until its data is uploaded, saving during the upload, then active."""

    QUEUED = "queued"
    SAVING = "saving"
    ACTIVE = "active"


@dataclass(frozen=True, slots=True)
class DataDigest:
    """Size and hashes of an image's data."""

    size_bytes: int
    md5: str
    sha512: str


@dataclass(frozen=True, slots=True)
class Image:
    """A record of the image catalogue."""

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
    md5: str | None = None
    sha512: str | None = None  # None until data was uploaded
    protected: bool = False
    hidden: bool = False
    tags: frozenset[str] = frozenset()
    properties: Mapping[str, str] = field(default_factory=dict)

    def visible_to(self, project: ProjectId | None) -> bool:
        """Return whether members of the project may see the image; None is a caller without a project."""
        return (project is not None and self.owner == project) or self.is_shared_with_all

    @property
    def is_shared_with_all(self) -> bool:
        """Whether members of every project may see the image."""
        return self.visibility in {Visibility.PUBLIC, Visibility.COMMUNITY}


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """How many images a project may have, and how much each."""

    images: int = UNLIMITED
    properties: int = 128
    tags: int = 128
    data_bytes: int = UNLIMITED  # of all images of a project together

    def check(self, image: Image) -> None:
        """Raises OverQuota for an image with too many properties or tags."""
        size = sum(len(key) + len(value) for key, value in image.properties.items())
        for what, number, limit in (
            ("properties", len(image.properties), self.properties),
            ("characters of properties", size, MAX_PROPERTY_CHARACTERS),
            ("tags", len(image.tags), self.tags),
        ):
            if number > limit:
                raise OverQuota(f"The image has {number} {what}; the limit is {limit}.")


@dataclass(frozen=True, slots=True)
class ImageFilter:
    """The filters, order and page of an image listing; None matches every image."""

    visible_to: ProjectId | None = None  # its own and public images, community ones on request; None: all
    public_only: bool = False  # no project's own images
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


def boot_image(image: str | None, devices: Sequence[Mapping[str, object]]) -> tuple[str | None, bool]:
    """Return the image that a server boots, and whether it boots it from a volume. Raises Invalid.

    `devices` are a request's block_device_mapping_v2. The device with boot index 0 is booted. A new volume has the
    image that it is made of; a blank one has none. Covey has no volume service, so the image of any other volume is
    unknown, and its traits could not count.
    """
    booted = [device for device in devices if str(device.get("boot_index")) == "0"]
    if not booted and image is not None:
        return image, False
    if len(booted) != 1:
        raise Invalid(_NO_BOOT_SEQUENCE)
    source, uuid = booted[0].get("source_type"), booted[0].get("uuid")
    if image is not None:
        if source != "image" or uuid != image:
            raise Invalid(_NO_BOOT_SEQUENCE)
        return image, booted[0].get("destination_type") == "volume"
    if source == "blank":
        return None, True
    if source != "image" or not uuid:
        raise Invalid(
            f"The server can't boot from the {source or 'device'} {uuid}: its image is unknown, because Covey has no "
            "volume service. Boot from a device with source_type image, which names the image."
        )
    return str(uuid), True


_NO_BOOT_SEQUENCE = (
    "Block Device Mapping is Invalid: Boot sequence for the instance and image/block device mapping combination is "
    "not valid."
)
