"""The image catalogue: records, their properties and their tags."""

from collections import defaultdict
from collections.abc import Collection, Sequence

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, insert, select, update

from covey.model.errors import Conflict
from covey.model.ids import ImageId, ProjectId
from covey.model.images import Image, ImageFilter, ImageStatus, Visibility
from covey.ports import Clock
from covey.storage.changes import FleetChanges
from covey.storage.database_clock import DatabaseClock
from covey.storage.integrity_errors import integrity_error_as
from covey.storage.matching import having_all
from covey.storage.tables import deleted_images, image_properties, image_tags, images

_ROWS = select(images)
_PROPERTIES = select(image_properties).order_by(image_properties.c.key)
_TAGS = select(image_tags)
_DROP_PROPERTIES = delete(image_properties).where(image_properties.c.image_id == bindparam("of"))
_DROP_TAGS = delete(image_tags).where(image_tags.c.image_id == bindparam("of"))
_DIGESTS = select(images.c.id, images.c.size_bytes, images.c.sha512, images.c.disk_format).where(
    images.c.id.in_(bindparam("ids", expanding=True))
)
_COUNT = select(sa.func.count()).select_from(images).where(images.c.owner == bindparam("of"))
_BYTES = sa.case(
    (images.c.sha512.is_not(None), images.c.size_bytes),
    (images.c.upload_id.is_not(None), images.c.upload_bytes),
    else_=0,
)
_DATA_BYTES = select(sa.func.coalesce(sa.func.sum(_BYTES), 0)).where(images.c.owner == bindparam("of"))
_UPLOADS = select(images.c.upload_id).where(images.c.upload_id.is_not(None))
_KEEP_ID = insert(deleted_images).from_select(["id"], select(images.c.id).where(images.c.id == bindparam("of")))
_DELETE = delete(images).where(images.c.id == bindparam("of"))


class Images:
    """Every image record."""

    def __init__(self, connection: sa.Connection, clock: Clock | None = None) -> None:
        self._connection = connection
        self._time = DatabaseClock(connection, clock).time

    def find(self, filters: ImageFilter) -> list[Image]:
        """Return the filtered images, in the filter's order, then by id."""
        key = (
            sa.func.coalesce(images.c[filters.sort_key], "")
            if filters.sort_key == "name"
            else images.c[filters.sort_key]
        )
        order = (key.desc(), images.c.id.desc()) if filters.descending else (key, images.c.id)
        page = select(images.c.id).where(_condition(filters)).order_by(*order)
        if filters.after is not None:
            marker = select(key, images.c.id).where(images.c.id == filters.after).correlate(None).subquery()
            here, there = sa.tuple_(key, images.c.id), sa.tuple_(*marker.c)
            page = page.join(marker, sa.true()).where(here < there if filters.descending else here > there)
        return self._load(page.limit(filters.limit) if filters.limit is not None else page, *order)

    def by_id(self, image: str, *, lock: bool = False) -> Image | None:
        """Return an image or None; `lock` locks its row for a change."""
        condition = images.c.id == image
        if lock:
            self._connection.execute(select(images.c.id).where(condition).with_for_update())
        found = self._load(select(images.c.id).where(condition))
        return found[0] if found else None

    def count(self, owner: ProjectId) -> int:
        """Return how many images a project has."""
        return self._connection.execute(_COUNT, {"of": owner}).scalar_one()

    def digests(self, ids: Collection[str]) -> dict[str, tuple[int | None, str | None, str | None]]:
        """Return the size, the SHA-512 and the disk format of those of the images that exist."""
        rows = self._connection.execute(_DIGESTS, {"ids": list(ids)}) if ids else ()
        return {image: (size, sha512, disk_format) for image, size, sha512, disk_format in rows}

    def data_bytes(self, owner: ProjectId) -> int:
        """Return the size of the data of a project's images, with what uploads in progress have reserved."""
        return int(self._connection.execute(_DATA_BYTES, {"of": owner}).scalar_one())

    def data_bytes_of(self, image: ImageId) -> int:
        """Return what an image counts in its project's quota."""
        return int(
            self._connection.execute(select(sa.func.coalesce(_BYTES, 0)).where(images.c.id == image)).scalar_one()
        )

    def begin_upload(self, image: ImageId, upload: str, lease_s: float) -> bool:
        """Lease an image without data to an upload. Return False if it has data, or another upload has it."""
        is_free = images.c.sha512.is_(None) & images.c.upload_id.is_(None)
        status = sa.case((images.c.status == ImageStatus.QUEUED, ImageStatus.SAVING), else_=images.c.status)
        lease = {"status": status, "upload_id": upload, "upload_until": self._time(lease_s), "upload_bytes": 0}
        return self._connection.execute(update(images).where(images.c.id == image, is_free).values(lease)).rowcount == 1

    def renew_upload(self, image: ImageId, upload: str, lease_s: float, reserved_bytes: int) -> bool:
        """Renew the lease of an upload, and set what it reserves. Return False if it has lost the image."""
        own = (images.c.id == image) & (images.c.upload_id == upload)
        renewed = update(images).where(own).values(upload_until=self._time(lease_s), upload_bytes=reserved_bytes)
        return self._connection.execute(renewed).rowcount == 1

    def end_upload(self, image: ImageId, upload: str) -> bool:
        """End the lease of an upload. Return False if it has lost the image."""
        return self._end_uploads((images.c.id == image) & (images.c.upload_id == upload)) == 1

    def end_lost_uploads(self, image: ImageId | None = None) -> list[tuple[ImageId, str]]:
        """End the uploads, of one image or of all, that no longer renew their leases. Return them, by image."""
        lost = images.c.upload_until <= self._time()
        if image is not None:
            lost &= images.c.id == image
        rows = select(images.c.id, images.c.upload_id).where(lost).order_by(images.c.id).with_for_update()
        ended = [(ImageId(row.id), str(row.upload_id)) for row in self._connection.execute(rows)]
        if ended:
            self._end_uploads(images.c.upload_id.in_([upload for _, upload in ended]))
        return ended

    def uploads(self, image: ImageId | None = None) -> set[str]:
        """Return the uploads, of one image or of all, that have a lease."""
        return set(
            self._connection.execute(_UPLOADS if image is None else _UPLOADS.where(images.c.id == image)).scalars()
        )

    def _end_uploads(self, condition: sa.ColumnElement[bool]) -> int:
        status = sa.case((images.c.status == ImageStatus.SAVING, ImageStatus.QUEUED), else_=images.c.status)
        ended = update(images).where(condition)
        return self._connection.execute(
            ended.values(status=status, upload_id=None, upload_until=None, upload_bytes=None)
        ).rowcount

    def add(self, new: Sequence[Image]) -> None:
        """Add records, all or none. Raises Conflict when an id is taken, or was that of a deleted image.

        A server that still refers to the deleted one would otherwise boot the data of another project.
        """
        if not new:
            return
        with integrity_error_as(Conflict(f"Image ID {new[0].id} already exists!")):
            self._connection.execute(insert(images), [_row(image) for image in new])
        used = select(deleted_images.c.id).where(deleted_images.c.id.in_([image.id for image in new])).limit(1)
        deleted = self._connection.execute(used).scalar()  # after the insert, which waits for a deletion in progress
        if deleted is not None:
            raise Conflict(f"Image ID {deleted} already exists!")
        self._add_details(new)

    def update(self, image: Image) -> None:
        """Store a record with its properties and tags."""
        self._connection.execute(update(images).where(images.c.id == image.id).values(**_row(image)))
        self._connection.execute(_DROP_PROPERTIES, {"of": image.id})
        self._connection.execute(_DROP_TAGS, {"of": image.id})
        self._add_details([image])
        FleetChanges(self._connection).add_catalogue(images=[image.id])

    def delete(self, image: ImageId) -> None:
        """Delete an image. Its id is never used again."""
        self._connection.execute(_KEEP_ID, {"of": image})
        self._connection.execute(_DELETE, {"of": image})
        FleetChanges(self._connection).add_catalogue(images=[image])

    def _add_details(self, new: Sequence[Image]) -> None:
        properties = [{"image_id": i.id, "key": k, "value": v} for i in new for k, v in i.properties.items()]
        if properties:
            self._connection.execute(insert(image_properties), properties)
        tags = [{"image_id": i.id, "tag": tag} for i in new for tag in sorted(i.tags)]
        if tags:
            self._connection.execute(insert(image_tags), tags)

    def _load(self, page: sa.Select[tuple[str]], *order: sa.ColumnElement[object]) -> list[Image]:
        properties: dict[str, dict[str, str]] = defaultdict(dict)
        for row in self._connection.execute(_PROPERTIES.where(image_properties.c.image_id.in_(page))):
            properties[row.image_id][row.key] = row.value
        tags: dict[str, set[str]] = defaultdict(set)
        for row in self._connection.execute(_TAGS.where(image_tags.c.image_id.in_(page))):
            tags[row.image_id].add(row.tag)
        rows = self._connection.execute(_ROWS.where(images.c.id.in_(page)).order_by(*order))
        return [
            Image(
                id=ImageId(row.id),
                name=row.name,
                owner=ProjectId(row.owner),
                created_at=row.created_at,
                updated_at=row.updated_at,
                status=ImageStatus(row.status),
                visibility=Visibility(row.visibility),
                disk_format=row.disk_format,
                container_format=row.container_format,
                min_disk_gb=row.min_disk_gb,
                min_ram_mb=row.min_ram_mb,
                size_bytes=row.size_bytes,
                md5=row.md5,
                sha512=row.sha512,
                protected=row.protected,
                hidden=row.hidden,
                tags=frozenset(tags[row.id]),
                properties=properties[row.id],
            )
            for row in rows
        ]


def _condition(filters: ImageFilter) -> sa.ColumnElement[bool]:
    tests: list[sa.ColumnElement[bool]] = []
    if filters.hidden is not None:
        tests.append(images.c.hidden == filters.hidden)
    if filters.visible_to is not None or filters.public_only:
        # Community images are usable by every project, but listed on request only.
        shown = {Visibility.PUBLIC, filters.visibility} & {Visibility.PUBLIC, Visibility.COMMUNITY}
        own = sa.false() if filters.public_only else images.c.owner == filters.visible_to
        tests.append(own | images.c.visibility.in_(shown))
    for column, values in (
        (images.c.id, filters.ids),
        (images.c.name, filters.names),
        (images.c.status, filters.statuses),
    ):
        if values is not None:
            tests.append(column.in_(values))
    if filters.owner is not None:
        tests.append(images.c.owner == filters.owner)
    if filters.visibility is not None:
        tests.append(images.c.visibility == filters.visibility)
    if filters.tags:
        tests.append(images.c.id.in_(having_all(image_tags.c.image_id, image_tags.c.tag, set(filters.tags))))
    if filters.properties:
        pair = sa.tuple_(image_properties.c.key, image_properties.c.value)
        tests.append(images.c.id.in_(having_all(image_properties.c.image_id, pair, filters.properties.items())))
    return sa.and_(sa.true(), *tests)


def _row(image: Image) -> dict[str, object]:
    return {
        "id": image.id,
        "name": image.name,
        "owner": image.owner,
        "status": image.status,
        "visibility": image.visibility,
        "disk_format": image.disk_format,
        "container_format": image.container_format,
        "min_disk_gb": image.min_disk_gb,
        "min_ram_mb": image.min_ram_mb,
        "size_bytes": image.size_bytes,
        "md5": image.md5,
        "sha512": image.sha512,
        "protected": image.protected,
        "hidden": image.hidden,
        "created_at": image.created_at,
        "updated_at": image.updated_at,
    }
