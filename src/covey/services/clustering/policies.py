"""Policies: what clusters heed when they change. A policy's specification never changes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from covey.model.access import Actor, Target
from covey.model.clustering.errors import BadSpec, StillInUse
from covey.model.clustering.listing import Listing
from covey.model.clustering.owners import owner_of
from covey.model.clustering.policy_types import AFFINITY, POLICY_TYPES, ZONE_PLACEMENT
from covey.model.clustering.specs import Document, Policy
from covey.model.errors import Invalid
from covey.ports import Access, Clock, NewUuid
from covey.services.clustering.finding import allowed
from covey.services.clustering.visibility import listing_seen, project_seen
from covey.services.obfuscation import obfuscation_for
from covey.services.policies import PolicyParser
from covey.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class Policies:
    """What can be done with policies."""

    store: Store
    access: Access
    clock: Clock
    new_uuid: NewUuid
    default_zone: str

    def find(self, actor: Actor, wanted: Listing) -> list[Policy]:
        """A page of the policies that the actor may know of. Raises Forbidden."""
        self.access.require(actor, "policies:index", Target(project_id=actor.project_id))
        with self.store.read() as tx:
            return tx.clustering.policies.page(listing_seen(self.access, actor, wanted))

    def get(self, actor: Actor, key: str) -> Policy:
        """Raises NotFound, Ambiguous."""
        with self.store.read() as tx:
            return self._own(tx, actor, "policies:get", key)

    def create(self, actor: Actor, name: str, spec: Document) -> Policy:
        """Raises NotFound for an unknown type, BadSpec for what it does not allow, Invalid for what is not there."""
        self.access.require(actor, "policies:create", Target(project_id=actor.project_id))
        new = replace(self._policy(actor, name, spec), id=self.new_uuid())
        with self.store.write() as tx:
            self._check_zones(tx, new)
            self._check_group(tx, actor, new)
            tx.clustering.policies.add(new)
        return new

    def validate(self, actor: Actor, spec: Document) -> Policy:
        """What would be created, which has no id; it is not asked whether zones exist. Raises NotFound, BadSpec."""
        self.access.require(actor, "policies:validate", Target(project_id=actor.project_id))
        return self._policy(actor, "validated_policy", spec)

    def rename(self, actor: Actor, key: str, name: str) -> Policy:
        """Raises NotFound, and Invalid if nothing changes."""
        with self.store.write() as tx:
            old = self._own(tx, actor, "policies:update", key)
            if name == old.name:
                raise Invalid("No property needs an update.")
            new = replace(old, name=name, updated_at=self.clock())
            tx.clustering.policies.rename(new)
        return new

    def delete(self, actor: Actor, key: str) -> None:
        """Raises NotFound, and StillInUse while it is attached to a cluster."""
        with self.store.write() as tx:
            found = self._own(tx, actor, "policies:delete", key)
            if tx.clustering.policies.is_used(found.id):
                raise StillInUse(f"The policy '{found.id}' cannot be deleted: still attached to some clusters.")
            tx.clustering.policies.delete(found.id)

    def _own(self, tx: Transaction, actor: Actor, rule: str, key: str) -> Policy:
        found = tx.clustering.policies.one(key, project_seen(self.access, actor))
        return allowed(self.access, actor, rule, "policy", key, found)

    def _policy(self, actor: Actor, name: str, spec: Document) -> Policy:
        kind = POLICY_TYPES.of(spec)
        kind.read(spec)
        return Policy("", name, kind.full_name, spec, owner_of(actor), self.clock())

    def _check_zones(self, tx: Transaction, policy: Policy) -> None:
        wanted = _zones(policy)
        if not wanted:
            return
        known = {name or self.default_zone for name, _ in tx.hosts.zones()}
        for zone in wanted:
            if zone not in known:
                raise Invalid(f"The specified availability_zone '{zone}' could not be found.")

    def _check_group(self, tx: Transaction, actor: Actor, policy: Policy) -> None:
        """Raises BadSpec for policies that a server group could not have, Forbidden for scopes that are not open."""
        if policy.kind != AFFINITY:
            return
        group = _read(policy)["servergroup"]
        parser = PolicyParser(tx, self.access, actor, obfuscation_for(tx, self.access, actor, actor.project_id))
        policies = group["policies"]
        try:
            parser.parse([policies] if isinstance(policies, str) else policies, group.get("rules", {}))
        except Invalid as error:
            raise BadSpec(f"servergroup: {error.message}") from error


def _read(policy: Policy) -> Mapping[str, Any]:
    return POLICY_TYPES.named(policy.type).read(policy.spec)


def _zones(policy: Policy) -> list[str]:
    """The availability zones that a policy names."""
    said = _read(policy)
    if policy.kind == ZONE_PLACEMENT:
        return [zone["name"] for zone in said["zones"]]
    zone = said.get("availability_zone") if policy.kind == AFFINITY else None
    return [zone] if zone else []
