"""What a caller may see on the dashboard: everything, or the objects of their project."""

from covey.model.access import Actor, Target
from covey.model.groups import HOST, ScopeRef
from covey.model.scopes import IMPLICIT_SCOPE, Scope
from covey.ports import Access
from covey.storage.store import Transaction

OPERATE = "covey:dashboard:operate"
_SCOPES = "os_compute_api:os-policy-scopes:"


def sees_all(access: Access, actor: Actor) -> bool:
    """Return whether the actor may see hosts and the servers of all projects."""
    return access.allows(actor, OPERATE)


def scopes_for(tx: Transaction, access: Access, actor: Actor, rule: str = "show") -> list[ScopeRef]:
    """Return the scopes for which the rule allows the actor, the implicit one first."""
    found: list[Scope] = [IMPLICIT_SCOPE, *tx.scopes.all()]
    return [
        HOST if scope is IMPLICIT_SCOPE else ScopeRef(scope.id, scope.name)
        for scope in found
        if access.allows(actor, _SCOPES + rule, Target(project_id=actor.project_id, scope_name=scope.name))
    ]
