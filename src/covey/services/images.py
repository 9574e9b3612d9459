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
from covey.storage.image_files import ImageFiles, Upload
from covey.storage.store import Store, Transaction

_UPLOAD_LEASE_S = 120.0  # renewed while data arrives
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
                self._reject_much_data(tx, changed.owner, found.size_bytes or 0)
            tx.images.update(changed)
        return changed

    def upload(self, actor: Actor, image: str, chunks: Iterable[bytes]) -> None:
        """Store the data of an image, and make it active. Raises NotFound, Forbidden, Conflict, TooLarge.

        The data is written as it arrives, and belongs to the image once all of it has arrived. An image has one upload
        at a time.
        """
        upload = self.new_uuid()
        found, room = self._begin_upload(actor, image, upload)
        try:
            with self.files.receive(self._renewing(found.id, upload, chunks), room) as received:
                self._activate(actor, found.id, upload, received)
        finally:
            with self.store.write() as tx:
                tx.images.end_upload(found.id, upload)

    def _begin_upload(self, actor: Actor, image: str, upload: str) -> tuple[Image, int | None]:
        """Return the image, and how many bytes may arrive; None if there is no limit."""
        with self.store.write() as tx:
            found = self._get_authorized(tx, actor, image, "image:upload_image", _NOT_PERMITTED)
            if not tx.images.begin_upload(found.id, upload, _UPLOAD_LEASE_S):
                raise Conflict(f"Image status transition from {found.status} to saving is not allowed")
            return found, self._room(tx, found.owner)

    def _renewing(self, image: ImageId, upload: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield what arrives, and renew the lease of the upload. Raises Conflict if another one has the image."""
        renewed_at = time.monotonic()
        for chunk in chunks:
            if time.monotonic() - renewed_at > _UPLOAD_LEASE_S / 4:
                renewed_at = time.monotonic()
                with self.store.write() as tx:
                    if not tx.images.renew_upload(image, upload, _UPLOAD_LEASE_S):
                        raise _lost(image)
            yield chunk

    def _activate(self, actor: Actor, image: str, upload: str, received: Upload) -> None:
        with self.store.write() as tx:
            found = self._get_authorized(tx, actor, image, "image:upload_image", _NOT_PERMITTED)
            if not tx.images.end_upload(found.id, upload):
                raise _lost(found.id)
            data = received.digest
            self._reject_much_data(tx, found.owner, data.size_bytes)
            self.files.keep(received, found.id)  # if the commit fails, the next upload replaces it
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
            tx.images.delete(found.id)
        self.files.delete(found.id)

    def _reject_over_quota(self, tx: Transaction, owner: ProjectId) -> None:
        if self.limits.images == UNLIMITED or owner == OPERATORS:
            return
        tx.claims.usage(owner, lock=True)  # serializes creations up to the commit
        if tx.images.count(owner) >= self.limits.images:
            raise OverQuota(f"Quota exceeded, too many images: the limit of a project is {self.limits.images}.")

    def _room(self, tx: Transaction, owner: ProjectId) -> int | None:
        """Return how many more bytes of image data a project may store; None if there is no limit."""
        if self.limits.data_bytes == UNLIMITED or owner == OPERATORS:
            return None
        return max(0, self.limits.data_bytes - tx.images.data_bytes(owner))

    def _reject_much_data(self, tx: Transaction, owner: ProjectId, size: int) -> None:
        """Raise TooLarge if a project may not store so much more; what concurrent requests store counts."""
        if self._room(tx, owner) is not None:
            tx.claims.usage(owner, lock=True)  # serializes activations up to the commit
            room = self._room(tx, owner)
            if room is not None and size > room:
                raise TooLarge(f"Quota exceeded: the project may store {room} more bytes of image data.")

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


def _lost(image: ImageId) -> Conflict:
    return Conflict(f"Another upload of image {image} has begun, because this one was silent for too long.")


def _not_found(image: str) -> NotFound:
    return NotFound(f"No image found with ID {ImageId(image)}")
