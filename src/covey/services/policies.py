"""Parses group policies of the form TYPE[:SCOPE[:IDENTIFIER]]."""

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
class PolicyParser:
    """Parses the policies of one caller, and checks that the caller may use their scopes."""

    tx: Transaction
    access: Access
    actor: Actor
    obfuscation: Obfuscation

    def parse(self, texts: Sequence[str], rules: Mapping[str, int]) -> tuple[GroupPolicy, ...]:
        """Raises Invalid for malformed or contradicting policies, Forbidden for a scope that the caller may not use."""
        policies = with_rules(tuple(self._policy(text) for text in texts), rules)
        check_policies(policies, self.obfuscation.obfuscate_policy)
        return policies

    def _policy(self, text: str) -> GroupPolicy:
        kind, *rest = text.split(":", 2)
        if kind not in set(PolicyKind):
            raise Invalid(f"The policy {text!r} has an unknown type; use one of {', '.join(PolicyKind)}.")
        if "" in rest:
            raise Invalid(f"The policy {text!r} has an empty part; use TYPE, TYPE:SCOPE or TYPE:SCOPE:IDENTIFIER.")
        name = rest[0] if rest else HOST_SCOPE
        scope = self._scope(name)
        self._require(_USE, name)
        if len(rest) < 2:  # noqa: PLR2004 -- scope without identifier
            return GroupPolicy(PolicyKind(kind), HOST if scope is None else ScopeRef(scope.id, scope.name))
        if scope is None or not scope.allow_identifiers:
            raise Invalid(
                f"The policy {text!r} has an identifier, but the policy scope {name!r} allows none; use {kind}:{name}."
            )
        self._require(_USE_IDENTIFIER, name)
        return GroupPolicy(PolicyKind(kind), ScopeRef(scope.id, scope.name), self._domain(scope, rest[1]))

    def _scope(self, name: str) -> Scope | None:
        """Return the scope with this name; None for the implicit host scope. Raises Invalid."""
        if name == HOST_SCOPE:
            return None
        found = next((scope for scope in self.obfuscation.scopes.values() if scope.name == name), None)
        if found is None:
            raise Invalid(f"Policy scope {name!r} does not exist.")
        return found

    def _domain(self, scope: Scope, given: str) -> str:
        """Return the real identifier of the domain for the caller's identifier. Raises Invalid."""
        for real in map(str, self.tx.scopes.domains(scope.id)):
            if given.lower() in self.obfuscation.accepted_identifiers(scope, real):
                return real
        raise Invalid(
            f"The policy scope {scope.name!r} has no domain {given!r}; "
            f"`GET /os-policy-scopes/{scope.id}` lists its domains."
        )

    def _require(self, rule: str, scope: str) -> None:
        if not self.access.allows(self.actor, rule, Target(project_id=self.obfuscation.project_id, scope_name=scope)):
            raise Forbidden(f"Policy doesn't allow {rule} to be performed: you may not use the policy scope {scope!r}.")
