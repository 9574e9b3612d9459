"""Policies: list, show, create, validate, rename, delete. The spec of a policy never changes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from covey.model.access import Actor, Target
from covey.model.clustering.errors import BadSpec, StillInUse
from covey.model.clustering.owners import owner_of
from covey.model.clustering.paging import PageQuery
from covey.model.clustering.policy_types import AFFINITY, POLICY_TYPES, ZONE_PLACEMENT
from covey.model.clustering.specs import Document, Policy
from covey.model.errors import Invalid
from covey.ports import Access, Clock, NewUuid
from covey.services.clustering.lookup import reject_over_quota, require_access, visible_page, visible_project
from covey.services.obfuscation import obfuscation_for
from covey.services.policies import PolicyParser
from covey.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class Policies:
    """Requests about policies."""

    store: Store
    access: Access
    clock: Clock
    new_uuid: NewUuid
    default_zone: str
    max_of_project: int

    def find(self, actor: Actor, query: PageQuery) -> list[Policy]:
        """Return a page of those that the actor may see. Raises Forbidden."""
        self.access.require(actor, "policies:index", Target(project_id=actor.project_id))
        with self.store.read() as tx:
            return tx.clustering.policies.page(visible_page(self.access, actor, query))

    def get(self, actor: Actor, key: str) -> Policy:
        """Raises NotFound, Ambiguous, Forbidden."""
        with self.store.read() as tx:
            return self._find(tx, actor, "policies:get", key)

    def create(self, actor: Actor, name: str, spec: Document) -> Policy:
        """Raises NotFound for an unknown type, BadSpec for an invalid spec, Invalid for an unknown zone, OverQuota."""
        self.access.require(actor, "policies:create", Target(project_id=actor.project_id))
        new = replace(self._policy(actor, name, spec), id=self.new_uuid())
        with self.store.write() as tx:
            reject_over_quota(tx, actor, tx.clustering.policies.count, "policies", self.max_of_project)
            self._check_zones(tx, new)
            self._check_group(tx, actor, new)
            tx.clustering.policies.add(new)
        return new

    def validate(self, actor: Actor, spec: Document) -> Policy:
        """Return the policy that would be created, without an id; zones are not checked. Raises NotFound, BadSpec."""
        self.access.require(actor, "policies:validate", Target(project_id=actor.project_id))
        return self._policy(actor, "validated_policy", spec)

    def rename(self, actor: Actor, key: str, name: str) -> Policy:
        """Raises NotFound, and Invalid when the name is the current one."""
        with self.store.write() as tx:
            old = self._find(tx, actor, "policies:update", key)
            if name == old.name:
                raise Invalid("No property needs an update.")
            new = replace(old, name=name, updated_at=self.clock())
            tx.clustering.policies.rename(new)
        return new

    def delete(self, actor: Actor, key: str) -> None:
        """Raises NotFound, and StillInUse while it is attached to a cluster."""
        with self.store.write() as tx:
            found = self._find(tx, actor, "policies:delete", key)
            if tx.clustering.policies.is_used(found.id):
                raise StillInUse(f"The policy '{found.id}' cannot be deleted: still attached to some clusters.")
            tx.clustering.policies.delete(found.id)

    def _find(self, tx: Transaction, actor: Actor, rule: str, key: str) -> Policy:
        found = tx.clustering.policies.one(key, visible_project(self.access, actor))
        return require_access(self.access, actor, rule, "policy", key, found)

    def _policy(self, actor: Actor, name: str, spec: Document) -> Policy:
        policy_type = POLICY_TYPES.of(spec)
        policy_type.read(spec)
        return Policy("", name, policy_type.full_name, spec, owner_of(actor), self.clock())

    def _check_zones(self, tx: Transaction, policy: Policy) -> None:
        zones = _zones(policy)
        if not zones:
            return
        known = {name or self.default_zone for name, _ in tx.hosts.zones()}
        for zone in zones:
            if zone not in known:
                raise Invalid(f"The specified availability_zone '{zone}' could not be found.")

    def _check_group(self, tx: Transaction, actor: Actor, policy: Policy) -> None:
        """Raises BadSpec for policies that no server group can have, Forbidden for scopes closed to the actor."""
        if policy.type_name != AFFINITY:
            return
        group = _properties(policy)["servergroup"]
        parser = PolicyParser(tx, self.access, actor, obfuscation_for(tx, self.access, actor, actor.project_id))
        policies = group["policies"]
        try:
            parser.parse([policies] if isinstance(policies, str) else policies, group.get("rules", {}))
        except Invalid as error:
            raise BadSpec(f"servergroup: {error.message}") from error


def _properties(policy: Policy) -> Mapping[str, Any]:
    return POLICY_TYPES.named(policy.type).read(policy.spec)


def _zones(policy: Policy) -> list[str]:
    """Return the availability zones that a policy names."""
    properties = _properties(policy)
    if policy.type_name == ZONE_PLACEMENT:
        return [zone["name"] for zone in properties["zones"]]
    zone = properties.get("availability_zone") if policy.type_name == AFFINITY else None
    return [zone] if zone else []
