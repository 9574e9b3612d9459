"""Obfuscates the identifiers of domains: administrators see real ones, tenants what the scope allows."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from covey.model.access import Actor
from covey.model.groups import Group, GroupPolicy, ScopeRef
from covey.model.ids import ProjectId, ScopeId
from covey.model.scopes import Scope, obfuscated_identifier
from covey.ports import Access
from covey.storage.store import Transaction

_SEE_REAL_IDENTIFIERS = "os_compute_api:os-policy-scopes:show:details"


@dataclass(frozen=True, slots=True)
class Obfuscation:
    """The identifiers of domains in one response to one caller.

    A domain whose identifier the caller may not know gets a random one, which is valid in this response only.
    """

    sees_all: bool
    project_id: ProjectId | None
    scopes: Mapping[ScopeId, Scope]
    _temporary: dict[tuple[ScopeId | None, str], str] = field(default_factory=dict)

    def display_identifier(self, scope: ScopeRef, identifier: str) -> str:
        """Return the identifier to show; two domains have equal identifiers if and only if they are the same domain."""
        known = None if scope.id is None else self.scopes.get(scope.id)
        if self.sees_all:
            return identifier
        if known is None or not known.allow_identifiers:
            return self._temporary_identifier(scope.id, identifier)
        return self.stable_identifier(known, identifier)

    def stable_identifier(self, scope: Scope, identifier: str) -> str:
        """Return the identifier that the caller may store and use in later requests."""
        if self.sees_all or (scope.allow_identifiers and not scope.obfuscate_identifiers):
            return identifier
        if self.project_id is None:
            return self._temporary_identifier(scope.id, identifier)
        return obfuscated_identifier(scope.namespace_uuid, self.project_id, identifier)

    def accepted_identifiers(self, scope: Scope, identifier: str) -> set[str]:
        """Return what the caller may send for a domain, in lower case: what it sees, and its project's surrogate."""
        accepted = {self.stable_identifier(scope, identifier).lower()}
        if scope.obfuscate_identifiers and self.project_id is not None:
            accepted.add(obfuscated_identifier(scope.namespace_uuid, self.project_id, identifier))
        return accepted

    def _temporary_identifier(self, scope: ScopeId | None, identifier: str) -> str:
        return self._temporary.setdefault((scope, identifier), str(uuid.uuid4()))

    def obfuscate_policy(self, policy: GroupPolicy) -> GroupPolicy:
        """Return the policy with the caller's identifier of its target."""
        if policy.target is None or policy.scope.id is None or policy.scope.id not in self.scopes:
            return policy
        return replace(policy, target=self.stable_identifier(self.scopes[policy.scope.id], policy.target))

    def obfuscate_group(self, group: Group) -> Group:
        """Return the group with obfuscated policies: with surrogates of its own project."""
        if all(policy.target is None for policy in group.policies):
            return group
        of_project = replace(self, project_id=group.project_id)
        return replace(group, policies=tuple(of_project.obfuscate_policy(policy) for policy in group.policies))


def obfuscation_for(tx: Transaction, access: Access, actor: Actor, project: ProjectId | None) -> Obfuscation:
    """Return the obfuscation that applies to the actor for groups of a project."""
    sees_all = access.allows(actor, _SEE_REAL_IDENTIFIERS)
    return Obfuscation(sees_all, project, {scope.id: scope for scope in tx.scopes.all()})
