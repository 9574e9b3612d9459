"""Profiles: list, show, create, validate, update, delete. The spec of a profile never changes."""

from dataclasses import dataclass, replace

from covey.model.access import Actor, Target
from covey.model.clustering.errors import BadSpec, StillInUse
from covey.model.clustering.owners import owner_of
from covey.model.clustering.paging import PageQuery
from covey.model.clustering.profile_types import PROFILE_TYPES
from covey.model.clustering.specs import Document, Profile
from covey.model.errors import Invalid
from covey.ports import Access, Clock, NewUuid
from covey.services.clustering.lookup import reject_over_quota, require_access, visible_page, visible_project
from covey.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class Profiles:
    """Requests about profiles."""

    store: Store
    access: Access
    clock: Clock
    new_uuid: NewUuid
    max_of_project: int

    def find(self, actor: Actor, query: PageQuery) -> list[Profile]:
        """Return a page of those that the actor may see. Raises Forbidden."""
        self.access.require(actor, "profiles:index", Target(project_id=actor.project_id))
        with self.store.read() as tx:
            return tx.clustering.profiles.page(visible_page(self.access, actor, query))

    def get(self, actor: Actor, key: str) -> Profile:
        """Raises NotFound, Ambiguous, Forbidden."""
        with self.store.read() as tx:
            return self._find(tx, actor, "profiles:get", key)

    def create(self, actor: Actor, name: str, spec: Document, metadata: Document) -> Profile:
        """Raises NotFound for an unknown type, BadSpec for an invalid spec, OverQuota."""
        self.access.require(actor, "profiles:create", Target(project_id=actor.project_id))
        try:
            new = replace(self._profile(actor, name, spec), id=self.new_uuid(), metadata=metadata)
        except BadSpec as error:
            raise BadSpec(f"Failed in creating profile {name}: {error.message}") from error
        with self.store.write() as tx:
            reject_over_quota(tx, actor, tx.clustering.profiles.count, "profiles", self.max_of_project)
            tx.clustering.profiles.add(new)
        return new

    def validate(self, actor: Actor, spec: Document) -> Profile:
        """Return the profile that would be created, without an id. Raises NotFound, BadSpec."""
        self.access.require(actor, "profiles:validate", Target(project_id=actor.project_id))
        return self._profile(actor, "validated_profile", spec)

    def update(self, actor: Actor, key: str, name: str | None, metadata: Document | None) -> Profile:
        """Change name and metadata; None keeps the value. Raises NotFound, and Invalid when nothing changes."""
        with self.store.write() as tx:
            old = self._find(tx, actor, "profiles:update", key)
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
        """Raises NotFound, and StillInUse while a cluster or node uses the profile."""
        with self.store.write() as tx:
            found = self._find(tx, actor, "profiles:delete", key)
            if tx.clustering.profiles.is_used(found.id):
                raise StillInUse(
                    f"The profile '{found.id}' cannot be deleted: still referenced by some clusters and/or nodes."
                )
            tx.clustering.profiles.delete(found.id)

    def _find(self, tx: Transaction, actor: Actor, rule: str, key: str) -> Profile:
        found = tx.clustering.profiles.one(key, visible_project(self.access, actor))
        return require_access(self.access, actor, rule, "profile", key, found)

    def _profile(self, actor: Actor, name: str, spec: Document) -> Profile:
        profile_type = PROFILE_TYPES.of(spec)
        profile_type.read(spec)
        return Profile("", name, profile_type.full_name, spec, owner_of(actor), self.clock())
