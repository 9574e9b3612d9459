"""How a caller sees domains: administrators by their real identifiers, tenants as the scope's owner allows."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from covey.model.access import Actor
from covey.model.groups import Group, GroupPolicy, ScopeRef
from covey.model.identifiers import surrogate
from covey.model.ids import ProjectId, ScopeId
from covey.model.scopes import Scope
from covey.ports import Access
from covey.storage.store import Transaction

REAL = "os_compute_api:os-policy-scopes:show:details"


@dataclass(frozen=True, slots=True)
class Obfuscation:
    """One caller's names for domains, in one answer: what has no name that the caller may know gets a passing one."""

    sees_all: bool
    project_id: ProjectId
    scopes: Mapping[ScopeId, Scope]
    _passing: dict[tuple[ScopeId | None, str], str] = field(default_factory=dict)

    def shown(self, scope: ScopeRef, identifier: str) -> str:
        """A domain in an answer: two are shown alike if and only if they are the same."""
        known = None if scope.id is None else self.scopes.get(scope.id)
        if self.sees_all:
            return identifier
        if known is None or not known.allow_identifiers:
            return self._passing.setdefault((scope.id, identifier), str(uuid.uuid4()))
        return self.kept(known, identifier)

    def kept(self, scope: Scope, identifier: str) -> str:
        """A domain as the caller may write it down and use again."""
        if self.sees_all or (scope.allow_identifiers and not scope.obfuscate_identifiers):
            return identifier
        return surrogate(scope.namespace_uuid, self.project_id, identifier)

    def policy(self, policy: GroupPolicy) -> GroupPolicy:
        """A policy whose target is one that the caller knows."""
        if policy.target is None or policy.scope.id is None or policy.scope.id not in self.scopes:
            return policy
        return replace(policy, target=self.kept(self.scopes[policy.scope.id], policy.target))

    def group(self, group: Group) -> Group:
        """A group with its policies as the caller knows them."""
        if all(policy.target is None for policy in group.policies):
            return group
        return replace(group, policies=tuple(self.policy(policy) for policy in group.policies))


def disguise_for(tx: Transaction, access: Access, actor: Actor, project: ProjectId) -> Obfuscation:
    """How the actor sees the domains of a project's groups."""
    sees_all = access.allows(actor, REAL)
    return Obfuscation(sees_all, project, {scope.id: scope for scope in tx.scopes.all()})
