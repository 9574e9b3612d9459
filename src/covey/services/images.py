"""The image catalogue, and the data of images."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from covey.model.access import OPERATORS, Actor, Restricted, Target
from covey.model.errors import Conflict, Forbidden, Invalid, NotFound, OverQuota, TooLarge
from covey.model.ids import ImageId, ProjectId
from covey.model.images import Image, ImageFilter, ImageLimits, ImageStatus, Visibility
from covey.model.quotas import UNLIMITED
from covey.ports import Access, Clock, NewUuid
from covey.request_slots import wait_limit
from covey.storage.image_files import ImageFiles, Upload
from covey.storage.store import Store, Transaction

_UPLOAD_LEASE_S = 120.0  # renewed while data arrives
_WAIT_S = 30.0  # for the database, of an upload in progress, which has no deadline
_STEP_BYTES = 64 << 20  # between renewals; an upload of unknown size reserves it in advance
_MAX_BYTES = 1 << 62
_NOT_PERMITTED = "You are not permitted to modify this image."


@dataclass(frozen=True, slots=True)
class Images:
    """Operations on image records."""

    store: Store
    access: Access
    clock: Clock
    limits: ImageLimits
    files: ImageFiles
    new_uuid: NewUuid

    def find(self, actor: Actor, filters: ImageFilter) -> list[Image]:
        """Return the project's own and public images, or all for administrators. Raises Invalid for a bad marker."""
        self.access.require(actor, "image:get_images")
        if not self._sees_all(actor):
            filters = replace(filters, visible_to=actor.project_id, public_only=actor.project_id is None)
        with self.store.read() as tx:
            if filters.after is not None:
                self._require_marker(tx, actor, filters.after)
            return tx.images.find(filters)

    def get(self, actor: Actor, image: str) -> Image:
        """Raises NotFound, also for another project's private image."""
        self.access.require(actor, "image:get_image")
        with self.store.read() as tx:
            return self._get_visible(tx, actor, image)

    def load(self, image: str) -> Restricted[Image]:
        """Return an image and the projects that may use it. Raises NotFound."""
        with self.store.read() as tx:
            found = tx.images.by_id(image)
        if found is None:
            raise _not_found(image)
        return Restricted(found, None if found.is_shared_with_all else frozenset({found.owner}))

    def create(self, actor: Actor, new: Image) -> Image:
        """Raises OverQuota, Conflict when the id is taken, Forbidden when the actor may not publish a public image."""
        self.access.require(actor, "image:add_image", Target(project_id=new.owner))
        self._require_publish(actor, new)
        self.limits.check(new)
        with self.store.write() as tx:
            self._reject_over_quota(tx, new.owner)
            tx.images.add([new])
        return new

    def change(self, actor: Actor, image: str, change: Callable[[Image], Image]) -> Image:
        """Store the record that `change` returns. Raises NotFound, Forbidden, OverQuota, TooLarge."""
        with self.store.write() as tx:
            found = self._get_authorized(tx, actor, image, "image:modify_image", _NOT_PERMITTED)
            changed = replace(change(found), updated_at=self.clock())
            self.limits.check(changed)
            if changed.visibility != found.visibility:
                self._require_publish(actor, changed)
            if changed.owner != found.owner:  # a new owner requires the right to add images for it
                self.access.require(actor, "image:add_image", Target(project_id=changed.owner))
                self._reject_over_quota(tx, changed.owner)
                size = tx.images.data_bytes_of(found.id)
                self._room(tx, changed.owner, size, size)
            tx.images.update(changed)
        return changed

    def upload(self, actor: Actor, image: str, chunks: Iterable[bytes], size: int | None) -> None:
        """Store the data of an image, and make it active. Raises NotFound, Forbidden, Conflict, TooLarge, Unavailable.

        The data is written as it arrives, and belongs to the image once all of it has arrived. An image has one upload
        at a time. `size` is what will arrive; None if that is unknown.
        """
        upload = self.new_uuid()
        found, reserved = self._begin_upload(actor, image, upload, size)
        try:
            with self.files.receive(upload, self._reserving(found.id, upload, reserved, chunks)) as received:
                self._activate(actor, found.id, upload, received)
        finally:
            with wait_limit(_WAIT_S), self.store.write() as tx:
                if tx.images.end_upload(found.id, upload):  # the image is not active
                    self.files.delete(found.id)  # there is one if the commit failed

    def _begin_upload(self, actor: Actor, image: str, upload: str, size: int | None) -> tuple[Image, int]:
        """Return the image, and how many bytes are reserved: all, or the first step of an unknown size."""
        with self.store.write() as tx:
            found = self._get_authorized(tx, actor, image, "image:upload_image", _NOT_PERMITTED)
            end_lost_uploads(tx, self.files, found.id)
            if not tx.images.begin_upload(found.id, upload, _UPLOAD_LEASE_S):
                raise Conflict(f"Image status transition from {found.status} to saving is not allowed")
            reserved = self._room(tx, found.owner, size or 0, _STEP_BYTES if size is None else size)
            tx.images.renew_upload(found.id, upload, _UPLOAD_LEASE_S, reserved)
            return found, reserved

    def _reserving(self, image: ImageId, upload: str, reserved: int, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield what arrives, reserved. Renews the lease after some time or bytes. Raises NotFound, Conflict, TooLarge.

        The lease is also renewed in steps if all is reserved: a deleted image ends its upload.
        """
        arrived, renewed_to, renewed_at = 0, 0, time.monotonic()
        for chunk in chunks:
            arrived += len(chunk)
            if arrived > min(reserved, renewed_to + _STEP_BYTES) or time.monotonic() - renewed_at > _UPLOAD_LEASE_S / 4:
                reserved = self._renew(image, upload, reserved, arrived)
                renewed_to, renewed_at = arrived, time.monotonic()
            yield chunk

    def _renew(self, image: ImageId, upload: str, reserved: int, arrived: int) -> int:
        """Return how many bytes are reserved: what has arrived at least."""
        with wait_limit(_WAIT_S), self.store.write() as tx:
            found = tx.images.by_id(image, lock=True)
            if found is None:
                raise _not_found(image)
            if arrived > reserved:
                tx.images.renew_upload(image, upload, _UPLOAD_LEASE_S, 0)  # leaves the room of others
                reserved = self._room(tx, found.owner, arrived, arrived + _STEP_BYTES)
            if not tx.images.renew_upload(image, upload, _UPLOAD_LEASE_S, reserved):
                raise _lost(image)
            return reserved

    def _activate(self, actor: Actor, image: str, upload: str, received: Upload) -> None:
        with self.store.write() as tx:
            found = self._get_authorized(tx, actor, image, "image:upload_image", _NOT_PERMITTED)
            if not tx.images.end_upload(found.id, upload):
                raise _lost(found.id)
            data = received.digest
            self.files.keep(received, found.id)
            active = replace(
                found, status=ImageStatus.ACTIVE, size_bytes=data.size_bytes, md5=data.md5, sha512=data.sha512
            )
            tx.images.update(replace(active, updated_at=self.clock()))

    def download(self, actor: Actor, image: str) -> tuple[Image, BinaryIO | None]:
        """Return an image and its data, an open file; None without data. Raises NotFound, Forbidden."""
        found = self.get(actor, image)
        if not self.access.allows(actor, "image:download_image", Target(project_id=found.owner)):
            raise Forbidden("You are not permitted to download this image.")
        return found, None if found.sha512 is None else self.files.open(found.id)

    def delete(self, actor: Actor, image: str) -> None:
        """Raises NotFound, and Forbidden for a protected image."""
        with self.store.write() as tx:
            found = self._get_authorized(
                tx, actor, image, "image:delete_image", "You are not permitted to delete this image."
            )
            if found.protected:
                raise Forbidden(f"Image {found.id} is protected and cannot be deleted.")
            for upload in tx.images.uploads(found.id):
                self.files.discard(upload)
            tx.images.delete(found.id)
        self.files.delete(found.id)

    def _reject_over_quota(self, tx: Transaction, owner: ProjectId) -> None:
        if self.limits.images == UNLIMITED or owner == OPERATORS:
            return
        tx.claims.usage(owner, lock=True)  # serializes creations up to the commit
        if tx.images.count(owner) >= self.limits.images:
            raise OverQuota(f"Quota exceeded, too many images: the limit of a project is {self.limits.images}.")

    def _room(self, tx: Transaction, owner: ProjectId, least: int, most: int) -> int:
        """Return how much of the most a project may still store. Raises TooLarge if it may not store the least."""
        room = _MAX_BYTES
        if self.limits.data_bytes != UNLIMITED and owner != OPERATORS:
            tx.claims.usage(owner, lock=True)  # serializes reservations up to the commit
            room = max(0, self.limits.data_bytes - tx.images.data_bytes(owner))
        if least > room:
            raise TooLarge(f"Quota exceeded: the project may store {room} more bytes of image data.")
        return min(most, room)

    def _sees_all(self, actor: Actor) -> bool:
        return self.access.allows(actor, "image:any_project")

    def _require_marker(self, tx: Transaction, actor: Actor, marker: ImageId) -> None:
        try:
            self._get_visible(tx, actor, marker)
        except NotFound as error:
            raise Invalid(f"Marker {marker} could not be found.") from error

    def _get_visible(self, tx: Transaction, actor: Actor, image: str, *, lock: bool = False) -> Image:
        found = tx.images.by_id(image, lock=lock)
        if found is None or not (found.visible_to(actor.project_id) or self._sees_all(actor)):
            raise _not_found(image)
        return found

    def _get_authorized(self, tx: Transaction, actor: Actor, image: str, rule: str, message: str) -> Image:
        found = self._get_visible(tx, actor, image, lock=True)
        if not self.access.allows(actor, rule, Target(project_id=found.owner)):
            raise Forbidden(message)
        return found

    def _require_publish(self, actor: Actor, image: Image) -> None:
        if image.visibility is Visibility.PUBLIC:
            self.access.require(actor, "image:publicize_image", Target(project_id=image.owner))


def end_lost_uploads(tx: Transaction, files: ImageFiles, image: ImageId | None = None) -> None:
    """Give back the images, or one, whose uploads no longer renew their leases, and delete what these have written."""
    for ended, upload in tx.images.end_lost_uploads(image):
        files.discard(upload)
        files.delete(ended)  # the process may have died before it recorded that the image has the data


def _lost(image: ImageId) -> Conflict:
    return Conflict(
        f"The upload of image {image} has ended: it was silent for more than {_UPLOAD_LEASE_S:.0f} seconds."
    )


def _not_found(image: str) -> NotFound:
    return NotFound(f"No image found with ID {ImageId(image)}")
