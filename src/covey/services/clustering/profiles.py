"""Profiles: what nodes are made from. A profile's specification never changes."""

from dataclasses import dataclass, replace

from covey.model.access import Actor, Target
from covey.model.clustering.errors import BadSpec, StillInUse
from covey.model.clustering.listing import Listing
from covey.model.clustering.owners import owner_of
from covey.model.clustering.profile_types import PROFILE_TYPES
from covey.model.clustering.specs import Document, Profile
from covey.model.errors import Invalid
from covey.ports import Access, Clock, NewUuid
from covey.services.clustering.finding import allowed
from covey.services.clustering.visibility import listing_seen, project_seen
from covey.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class Profiles:
    """What can be done with profiles."""

    store: Store
    access: Access
    clock: Clock
    new_uuid: NewUuid

    def find(self, actor: Actor, wanted: Listing) -> list[Profile]:
        """A page of the profiles that the actor may know of. Raises Forbidden."""
        self.access.require(actor, "profiles:index", Target(project_id=actor.project_id))
        with self.store.read() as tx:
            return tx.clustering.profiles.page(listing_seen(self.access, actor, wanted))

    def get(self, actor: Actor, key: str) -> Profile:
        """Raises NotFound, Ambiguous."""
        with self.store.read() as tx:
            return self._own(tx, actor, "profiles:get", key)

    def create(self, actor: Actor, name: str, spec: Document, metadata: Document) -> Profile:
        """Raises NotFound for an unknown type, BadSpec for what the type does not allow."""
        self.access.require(actor, "profiles:create", Target(project_id=actor.project_id))
        try:
            new = replace(self._profile(actor, name, spec), id=self.new_uuid(), metadata=metadata)
        except BadSpec as error:
            raise BadSpec(f"Failed in creating profile {name}: {error.message}") from error
        with self.store.write() as tx:
            tx.clustering.profiles.add(new)
        return new

    def validate(self, actor: Actor, spec: Document) -> Profile:
        """What would be created, which has no id. Raises NotFound, BadSpec."""
        self.access.require(actor, "profiles:validate", Target(project_id=actor.project_id))
        return self._profile(actor, "validated_profile", spec)

    def update(self, actor: Actor, key: str, name: str | None, metadata: Document | None) -> Profile:
        """Another name, other metadata; None leaves it as it is. Raises NotFound, and Invalid if nothing changes."""
        with self.store.write() as tx:
            old = self._own(tx, actor, "profiles:update", key)
            new = replace(
                old,
                name=old.name if name is None else name,
                metadata=old.metadata if metadata is None else metadata,
            )
            if new == old:
                raise Invalid("No property needs an update.")
            new = replace(new, updated_at=self.clock())
            tx.clustering.profiles.update(new)
        return new

    def delete(self, actor: Actor, key: str) -> None:
        """Raises NotFound, and StillInUse while something is made from it."""
        with self.store.write() as tx:
            found = self._own(tx, actor, "profiles:delete", key)
            if tx.clustering.profiles.is_used(found.id):
                raise StillInUse(
                    f"The profile '{found.id}' cannot be deleted: still referenced by some clusters and/or nodes."
                )
            tx.clustering.profiles.delete(found.id)

    def _own(self, tx: Transaction, actor: Actor, rule: str, key: str) -> Profile:
        found = tx.clustering.profiles.one(key, project_seen(self.access, actor))
        return allowed(self.access, actor, rule, "profile", key, found)

    def _profile(self, actor: Actor, name: str, spec: Document) -> Profile:
        kind = PROFILE_TYPES.of(spec)
        kind.read(spec)
        return Profile("", name, kind.full_name, spec, owner_of(actor), self.clock())
