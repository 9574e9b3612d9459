"""The image catalog."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from covey.model.access import Actor, Target
from covey.model.errors import Forbidden, Invalid, NotFound
from covey.model.ids import ImageId
from covey.model.images import Image, ImageFilter, ImageStatus, Visibility
from covey.ports import Access, Clock
from covey.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class Images:
    """Operations on image records."""

    store: Store
    access: Access
    clock: Clock

    def find(self, actor: Actor, filters: ImageFilter) -> list[Image]:
        """Return the project's own and public images, or all for administrators. Raises Invalid for a bad marker."""
        self.access.require(actor, "image:get_images")
        if not self._sees_all(actor):
            filters = replace(filters, visible_to=actor.project_id)
        with self.store.read() as tx:
            if filters.after is not None:
                self._require_marker(tx, actor, filters.after)
            return tx.images.find(filters)

    def get(self, actor: Actor, image: str) -> Image:
        """Raises NotFound, also for another project's private image."""
        self.access.require(actor, "image:get_image")
        with self.store.read() as tx:
            return self._get_visible(tx, actor, image)

    def create(self, actor: Actor, new: Image) -> Image:
        """Raises Conflict when the id is taken, Forbidden when the actor may not publish a public image."""
        self.access.require(actor, "image:add_image", Target(project_id=new.owner))
        self._require_publish(actor, new)
        with self.store.write() as tx:
            tx.images.add([new])
        return new

    def change(self, actor: Actor, image: str, change: Callable[[Image], Image], rule: str = "modify_image") -> Image:
        """Store the record that `change` returns. Raises NotFound, Forbidden."""
        with self.store.write() as tx:
            found = self._get_authorized(
                tx, actor, image, f"image:{rule}", "You are not permitted to modify this image."
            )
            changed = replace(change(found), updated_at=self.clock())
            if changed.visibility != found.visibility:
                self._require_publish(actor, changed)
            if changed.owner != found.owner:  # a new owner requires the right to add images for it
                self.access.require(actor, "image:add_image", Target(project_id=changed.owner))
            tx.images.update(changed)
        return changed

    def mark_uploaded(self, actor: Actor, image: str, size_bytes: int) -> None:
        """Make the record active and record its size; the data itself is discarded. Raises NotFound, Forbidden."""

        def activate(record: Image) -> Image:
            return replace(record, status=ImageStatus.ACTIVE, size_bytes=size_bytes)

        self.change(actor, image, activate, "upload_image")

    def delete(self, actor: Actor, image: str) -> None:
        """Raises NotFound, and Forbidden for a protected image."""
        with self.store.write() as tx:
            found = self._get_authorized(
                tx, actor, image, "image:delete_image", "You are not permitted to delete this image."
            )
            if found.protected:
                raise Forbidden(f"Image {found.id} is protected and cannot be deleted.")
            tx.images.delete(found.id)

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
            raise NotFound(f"No image found with ID {ImageId(image)}")
        return found

    def _get_authorized(self, tx: Transaction, actor: Actor, image: str, rule: str, message: str) -> Image:
        found = self._get_visible(tx, actor, image, lock=True)
        if not self.access.allows(actor, rule, Target(project_id=found.owner)):
            raise Forbidden(message)
        return found

    def _require_publish(self, actor: Actor, image: Image) -> None:
        if image.visibility is Visibility.PUBLIC:
            self.access.require(actor, "image:publicize_image", Target(project_id=image.owner))
