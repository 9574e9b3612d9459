"""Policy scopes, which group policies refer to, and the aggregates that are their domains."""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from covey.model.access import Actor, Target
from covey.model.aggregates import Aggregate
from covey.model.errors import Conflict, NotFound
from covey.model.ids import ProjectId, ScopeId
from covey.model.scopes import IMPLICIT_SCOPE, Scope, obfuscated_identifier
from covey.ports import Access, Clock, NewUuid
from covey.services.aggregates import get_aggregate
from covey.services.domains import add_to_scope, list_names, reject_implicit, reject_targeted
from covey.services.obfuscation import Obfuscation, obfuscation_for
from covey.storage.store import Store, Transaction

_RULE = "os_compute_api:os-policy-scopes:"
_BATCH = 1000  # group rows to lock in one transaction


@dataclass(frozen=True, slots=True)
class NewScope:
    """A scope to create; without a namespace it gets a random one."""

    name: str
    allow_identifiers: bool = False
    obfuscate_identifiers: bool = False
    namespace_uuid: str | None = None


@dataclass(frozen=True, slots=True)
class ScopeChange:
    """The requested changes; None keeps a value."""

    name: str | None = None
    allow_identifiers: bool | None = None
    obfuscate_identifiers: bool | None = None


@dataclass(frozen=True, slots=True)
class VisibleDomain:
    """A domain as the caller may see it; the aggregate is for administrators only."""

    identifier: str
    aggregate: Aggregate | None = None
    obfuscated: str | None = None  # the identifier for the tenant of `as_tenant_id`


@dataclass(frozen=True, slots=True)
class VisibleScope:
    """A scope as the caller may see it. The namespace is secret: it reveals the real identifiers of domains."""

    scope: Scope
    domains: tuple[VisibleDomain, ...]
    shows_namespace: bool


@dataclass(frozen=True, slots=True)
class Scopes:
    """Operations on scopes."""

    store: Store
    access: Access
    clock: Clock
    new_uuid: NewUuid

    def all(self, actor: Actor, tenant: ProjectId | None = None) -> list[VisibleScope]:
        """Return the scopes that the actor may see, the implicit one first."""
        self.access.require(actor, f"{_RULE}index", Target(project_id=actor.project_id))
        self._require_as_tenant(actor, tenant)
        with self.store.read() as tx:
            obfuscation = obfuscation_for(tx, self.access, actor, actor.project_id)
            domains: dict[ScopeId | None, list[Aggregate]] = defaultdict(list)
            for aggregate in tx.aggregates.all():
                domains[aggregate.scope].append(aggregate)
            return [
                _visible(scope, domains[scope.id], obfuscation, tenant)
                for scope in _list_scopes(tx)
                if self.access.allows(actor, f"{_RULE}show", _target(actor, scope))
            ]

    def get(self, actor: Actor, key: str, tenant: ProjectId | None = None) -> VisibleScope:
        """Raises NotFound."""
        self._require_as_tenant(actor, tenant)
        with self.store.read() as tx:
            scope = _get_scope(tx, key)
            self.access.require(actor, f"{_RULE}show", _target(actor, scope))
            return self._visible_scope(tx, actor, scope, tenant)

    def create(self, actor: Actor, new: NewScope) -> VisibleScope:
        """Raises Conflict when the name is taken."""
        self.access.require(actor, f"{_RULE}create")
        scope = Scope(
            ScopeId(self.new_uuid()),
            new.name,
            new.allow_identifiers,
            new.obfuscate_identifiers,
            new.namespace_uuid or new_namespace(),
        )
        _reject_implicit_name(new.name)
        with self.store.write() as tx:
            tx.scopes.add([scope])
            return self._visible_scope(tx, actor, scope)

    def update(self, actor: Actor, key: str, change: ScopeChange) -> VisibleScope:
        """Raises NotFound, Conflict when the name is taken, and Forbidden for the implicit scope."""
        self.access.require(actor, f"{_RULE}update")
        with self.store.write() as tx:
            locked = _lock(tx, _get_changeable(tx, key))
            changed = replace(locked, **{name: value for name, value in asdict(change).items() if value is not None})
            if changed.name != locked.name:
                _reject_implicit_name(changed.name)
                tx.scopes.rename(locked.id, changed.name)
            tx.scopes.set_flags(changed)
            visible = self._visible_scope(tx, actor, changed)
        if change.name is not None:
            self._invalidate_name(locked.id)
        return visible

    def delete(self, actor: Actor, key: str) -> None:
        """Raises NotFound, Forbidden for the implicit scope, and Conflict while groups or aggregates use it."""
        self.access.require(actor, f"{_RULE}delete")
        with self.store.write() as tx:
            scope = _lock(tx, _get_changeable(tx, key))
            users = {
                "server groups": [str(group) for group in tx.scopes.groups(scope.id)],
                "aggregates": [aggregate.name for aggregate in tx.aggregates.in_scope(scope.id)],
            }
            reasons = [f"the {what} {list_names(names)}" for what, names in users.items() if names]
            if reasons:
                raise Conflict(
                    f"The policy scope {scope.name} can't be deleted while it is used by {' and '.join(reasons)}."
                )
            tx.scopes.delete(scope.id)

    def add_aggregate(self, actor: Actor, key: str, aggregate: int | str) -> VisibleScope:
        """Make the aggregate a domain of the scope, if it is not one yet. Raises NotFound, Conflict, Forbidden."""
        self.access.require(actor, f"{_RULE}add_aggregate")
        with self.store.write() as tx:
            scope = _get_changeable(tx, key)
            found = get_aggregate(tx, aggregate, lock=True)
            if found.scope not in {None, scope.id}:
                raise Conflict(
                    f"Aggregate {found.name} is already in the scope {found.scope_name}; remove it from there first."
                )
            if found.scope is None:
                add_to_scope(tx, found, scope, self.clock())
            return self._visible_scope(tx, actor, scope)

    def remove_aggregate(self, actor: Actor, key: str, aggregate: int | str, *, force: bool = False) -> VisibleScope:
        """Raises NotFound, also when the aggregate is not in the scope, and Forbidden for the implicit scope.

        Raises Conflict while hard policies name the aggregate, unless `force`.
        """
        self.access.require(actor, f"{_RULE}remove_aggregate")
        with self.store.write() as tx:
            scope = _get_changeable(tx, key)
            found = get_aggregate(tx, aggregate, lock=True)
            if found.scope != scope.id:
                raise NotFound(f"Aggregate {found.name} is not in the scope {scope.name}.")
            reject_targeted(tx, found, force=force)
            tx.aggregates.set_scope([found.id], None, self.clock())
            return self._visible_scope(tx, actor, scope)

    def _invalidate_name(self, scope: ScopeId) -> None:
        """Make every process drop cached groups that contain the old name of the scope.

        This runs after the renaming transaction: the lock order is groups before scopes.
        """
        with self.store.read() as tx:
            users = tx.scopes.groups(scope)
        for start in range(0, len(users), _BATCH):
            with self.store.write() as tx:
                batch = users[start : start + _BATCH]
                tx.groups.lock(batch)
                tx.groups.bump(batch)

    def _require_as_tenant(self, actor: Actor, tenant: ProjectId | None) -> None:
        if tenant is not None:
            self.access.require(actor, f"{_RULE}show:as_tenant")

    def _visible_scope(
        self, tx: Transaction, actor: Actor, scope: Scope, tenant: ProjectId | None = None
    ) -> VisibleScope:
        obfuscation = obfuscation_for(tx, self.access, actor, actor.project_id)
        return _visible(scope, tx.aggregates.in_scope(scope.id), obfuscation, tenant)


def new_namespace() -> str:
    """Return a random namespace. It is a secret, so the operating system generates it, not the id generator."""
    return str(uuid.uuid4())


def _target(actor: Actor, scope: Scope) -> Target:
    return Target(project_id=actor.project_id, scope_name=scope.name)


def _visible(
    scope: Scope, domains: Sequence[Aggregate], obfuscation: Obfuscation, tenant: ProjectId | None
) -> VisibleScope:
    if obfuscation.sees_all:
        visible = (
            VisibleDomain(str(domain.id), domain, _obfuscated(scope, tenant, str(domain.id))) for domain in domains
        )
        return VisibleScope(scope, tuple(visible), shows_namespace=True)
    known = (obfuscation.stable_identifier(scope, str(domain.id)) for domain in domains if scope.allow_identifiers)
    return VisibleScope(scope, tuple(map(VisibleDomain, _sorted(known))), shows_namespace=False)


def _obfuscated(scope: Scope, tenant: ProjectId | None, identifier: str) -> str | None:
    """Return the identifier that the tenant sees; None where the scope does not allow identifiers."""
    if tenant is None or not scope.allow_identifiers:
        return None
    return (
        obfuscated_identifier(scope.namespace_uuid, tenant, identifier) if scope.obfuscate_identifiers else identifier
    )


def _sorted(identifiers: Iterable[str]) -> list[str]:
    """Sort by what is shown, numbers numerically, so that the order reveals nothing about real identifiers."""
    return sorted(identifiers, key=lambda text: (len(text), text))


def _list_scopes(tx: Transaction) -> Sequence[Scope]:
    return IMPLICIT_SCOPE, *tx.scopes.all()


def _get_scope(tx: Transaction, key: str) -> Scope:
    """Return the scope with this id or, failing that, this name. Raises NotFound."""
    scopes = _list_scopes(tx)
    found = next((s for s in scopes if s.id == key), None) or next((s for s in scopes if s.name == key), None)
    if found is None:
        raise NotFound(f"Policy scope {key} could not be found.")
    return found


def _get_changeable(tx: Transaction, key: str) -> Scope:
    scope = _get_scope(tx, key)
    reject_implicit(scope)
    return scope


def _lock(tx: Transaction, scope: Scope) -> Scope:
    """Lock the scope's row and return its current state. Raises NotFound."""
    found = tx.scopes.lock(scope.id)
    if found is None:
        raise NotFound(f"Policy scope {scope.name} could not be found.")
    return found


def _reject_implicit_name(name: str) -> None:
    if name == IMPLICIT_SCOPE.name:
        raise Conflict(f"A policy scope named {name} exists already: it is built in.")
