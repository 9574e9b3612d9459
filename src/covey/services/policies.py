"""Policies as tenants write them: TYPE[:SCOPE[:IDENTIFIER]], read into what the scheduler understands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from covey.model.access import Actor, Target
from covey.model.errors import Forbidden, Invalid
from covey.model.groups import HOST, GroupPolicy, PolicyKind, ScopeRef, check_policies, with_rules
from covey.model.scopes import HOST_SCOPE, Scope
from covey.ports import Access
from covey.services.obfuscation import Obfuscation
from covey.storage.store import Transaction

_USE, _USE_IDENTIFIER = "os_compute_api:os-policy-scopes:use", "os_compute_api:os-policy-scopes:use_identifier"


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads one caller's policies: by the scopes that there are, and that the caller may use."""

    tx: Transaction
    access: Access
    actor: Actor
    obfuscation: Obfuscation

    def read(self, texts: Sequence[str], rules: Mapping[str, int]) -> tuple[GroupPolicy, ...]:
        """Raises Invalid for what makes no sense, Forbidden for a scope that is not the caller's to use."""
        policies = with_rules(tuple(self._policy(text) for text in texts), rules)
        check_policies(policies, self.obfuscation.policy)
        return policies

    def _policy(self, text: str) -> GroupPolicy:
        kind, *rest = text.split(":", 2)
        if kind not in set(PolicyKind):
            raise Invalid(f"The policy {text!r} begins with none of {', '.join(PolicyKind)}.")
        if "" in rest:
            raise Invalid(
                f"The policy {text!r} leaves something out: it has to be TYPE, TYPE:SCOPE or TYPE:SCOPE:IDENTIFIER."
            )
        name = rest[0] if rest else HOST_SCOPE
        scope = self._scope(name)
        self._require(_USE, name)
        if len(rest) < 2:  # noqa: PLR2004 -- no identifier
            return GroupPolicy(PolicyKind(kind), HOST if scope is None else ScopeRef(scope.id, scope.name))
        if scope is None or not scope.allow_identifiers:
            raise Invalid(f"The policy {text!r} names a {name}, but the policy scope {name!r} takes no identifiers.")
        self._require(_USE_IDENTIFIER, name)
        return GroupPolicy(PolicyKind(kind), ScopeRef(scope.id, scope.name), self._domain(scope, rest[1]))

    def _scope(self, name: str) -> Scope | None:
        """The scope of that name; None is the implicit one."""
        if name == HOST_SCOPE:
            return None
        found = next((scope for scope in self.obfuscation.scopes.values() if scope.name == name), None)
        if found is None:
            raise Invalid(f"There is no policy scope {name!r}.")
        return found

    def _domain(self, scope: Scope, given: str) -> str:
        """The real identifier of the domain that the caller knows by this one."""
        for real in map(str, self.tx.scopes.domains(scope.id)):
            if given == self.obfuscation.kept(scope, real):
                return real
        raise Invalid(
            f"The policy scope {scope.name!r} has no {given!r}. `GET /os-policy-scopes/{scope.id}` lists what it has."
        )

    def _require(self, rule: str, scope: str) -> None:
        if not self.access.allows(self.actor, rule, Target(project_id=self.obfuscation.project_id, scope_name=scope)):
            raise Forbidden(
                f"Policy doesn't allow {rule} to be performed: the policy scope {scope!r} is not open to you."
            )
