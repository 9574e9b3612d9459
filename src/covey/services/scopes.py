"""Scopes: the kinds of place that server groups can name, and which aggregates are such places."""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from covey.model.access import Actor, Target
from covey.model.aggregates import Aggregate
from covey.model.errors import Conflict, NotFound
from covey.model.identifiers import surrogate
from covey.model.ids import ProjectId, ScopeId
from covey.model.scopes import IMPLICIT, Scope
from covey.ports import Access, Clock, NewUuid
from covey.services.aggregates import existing
from covey.services.domains import join, refuse_implicit
from covey.services.obfuscation import Obfuscation, disguise_for
from covey.storage.store import Store, Transaction

_RULE = "os_compute_api:os-policy-scopes:"
_TOLD = 3  # of those who are in the way, by name
_BATCH = 1000  # groups, whose rows are held together


@dataclass(frozen=True, slots=True)
class NewScope:
    """A scope as an operator asks for it; without a namespace it gets one that nobody can guess."""

    name: str
    allow_identifiers: bool = False
    obfuscate_identifiers: bool = False
    namespace_uuid: str | None = None


@dataclass(frozen=True, slots=True)
class ScopeChange:
    """What an operator wants to be otherwise; None leaves it as it is."""

    name: str | None = None
    allow_identifiers: bool | None = None
    obfuscate_identifiers: bool | None = None


@dataclass(frozen=True, slots=True)
class SeenDomain:
    """A domain as somebody may know it: only administrators see the aggregate that it is."""

    identifier: str
    aggregate: Aggregate | None = None
    surrogate: str | None = None  # what the tenant that was asked about knows it by


@dataclass(frozen=True, slots=True)
class SeenScope:
    """A scope as somebody may know it. Whoever has its namespace can undo the disguise of its domains."""

    scope: Scope
    domains: tuple[SeenDomain, ...]
    shows_namespace: bool


@dataclass(frozen=True, slots=True)
class Scopes:
    """What can be done with scopes."""

    store: Store
    access: Access
    clock: Clock
    new_uuid: NewUuid

    def all(self, actor: Actor, tenant: ProjectId | None = None) -> list[SeenScope]:
        """Every scope that the actor may see, the implicit one first."""
        self.access.require(actor, f"{_RULE}index", Target(project_id=actor.project_id))
        self._require_as_tenant(actor, tenant)
        with self.store.read() as tx:
            obfuscation = disguise_for(tx, self.access, actor, actor.project_id)
            domains: dict[ScopeId | None, list[Aggregate]] = defaultdict(list)
            for aggregate in tx.aggregates.all():
                domains[aggregate.scope].append(aggregate)
            return [
                _seen(scope, domains[scope.id], obfuscation, tenant)
                for scope in _all(tx)
                if self.access.allows(actor, f"{_RULE}show", _target(actor, scope))
            ]

    def get(self, actor: Actor, key: str, tenant: ProjectId | None = None) -> SeenScope:
        """Raises NotFound."""
        self._require_as_tenant(actor, tenant)
        with self.store.read() as tx:
            scope = _existing(tx, key)
            self.access.require(actor, f"{_RULE}show", _target(actor, scope))
            return self._shown(tx, actor, scope, tenant)

    def create(self, actor: Actor, new: NewScope) -> SeenScope:
        """Raises Conflict when the name is taken."""
        self.access.require(actor, f"{_RULE}create")
        scope = Scope(
            ScopeId(self.new_uuid()),
            new.name,
            new.allow_identifiers,
            new.obfuscate_identifiers,
            new.namespace_uuid or new_namespace(),
        )
        _refuse_implicit_name(new.name)
        with self.store.write() as tx:
            tx.scopes.add([scope])
            return self._shown(tx, actor, scope)

    def update(self, actor: Actor, key: str, change: ScopeChange) -> SeenScope:
        """Raises NotFound, Conflict when the name is taken, and Forbidden for the implicit one."""
        self.access.require(actor, f"{_RULE}update")
        with self.store.write() as tx:
            held = _held(tx, _changeable(tx, key))
            wanted = replace(held, **{name: value for name, value in asdict(change).items() if value is not None})
            if wanted.name != held.name:
                _refuse_implicit_name(wanted.name)
                tx.scopes.rename(held.id, wanted.name)
            tx.scopes.set_flags(wanted)
            seen = self._shown(tx, actor, wanted)
        if change.name is not None:
            self._forget_name(held.id)
        return seen

    def delete(self, actor: Actor, key: str) -> None:
        """Raises NotFound, Forbidden for the implicit one, and Conflict while something is in it or speaks of it."""
        self.access.require(actor, f"{_RULE}delete")
        with self.store.write() as tx:
            scope = _held(tx, _changeable(tx, key))
            users = {
                "server groups": [str(group) for group in tx.scopes.groups(scope.id)],
                "aggregates": [aggregate.name for aggregate in tx.aggregates.in_scope(scope.id)],
            }
            reasons = [f"the {what} {_told(names)}" for what, names in users.items() if names]
            if reasons:
                raise Conflict(
                    f"The policy scope {scope.name} can't be deleted while it is used by {' and '.join(reasons)}."
                )
            tx.scopes.delete(scope.id)

    def add_aggregate(self, actor: Actor, key: str, aggregate: int | str) -> SeenScope:
        """Makes it a domain of the scope; nothing happens if it is. Raises NotFound, Conflict, Forbidden."""
        self.access.require(actor, f"{_RULE}add_aggregate")
        with self.store.write() as tx:
            scope = _changeable(tx, key)
            found = existing(tx, aggregate, lock=True)
            if found.scope not in {None, scope.id}:
                raise Conflict(
                    f"The aggregate {found.name} is in the scope {found.scope_name} already. Remove it there first."
                )
            if found.scope is None:
                join(tx, found, scope, self.clock())
            return self._shown(tx, actor, scope)

    def remove_aggregate(self, actor: Actor, key: str, aggregate: int | str) -> SeenScope:
        """Raises NotFound, also when it is not in the scope, and Forbidden for the implicit one."""
        self.access.require(actor, f"{_RULE}remove_aggregate")
        with self.store.write() as tx:
            scope = _changeable(tx, key)
            found = existing(tx, aggregate, lock=True)
            if found.scope != scope.id:
                raise NotFound(f"The aggregate {found.name} is not in the scope {scope.name}.")
            tx.aggregates.set_scope(found.id, None, self.clock())
            return self._shown(tx, actor, scope)

    def _forget_name(self, scope: ScopeId) -> None:
        """Lets no process remember an old name of the scope with a group that uses it.

        Not in the transaction that renames: others hold a group's row when they come for the scope's.
        """
        with self.store.read() as tx:
            users = tx.scopes.groups(scope)
        for start in range(0, len(users), _BATCH):
            with self.store.write() as tx:
                some = users[start : start + _BATCH]
                tx.groups.lock(some)
                tx.groups.bump(some)

    def _require_as_tenant(self, actor: Actor, tenant: ProjectId | None) -> None:
        if tenant is not None:
            self.access.require(actor, f"{_RULE}show:as_tenant")

    def _shown(self, tx: Transaction, actor: Actor, scope: Scope, tenant: ProjectId | None = None) -> SeenScope:
        obfuscation = disguise_for(tx, self.access, actor, actor.project_id)
        return _seen(scope, tx.aggregates.in_scope(scope.id), obfuscation, tenant)


def new_namespace() -> str:
    """A secret, so from the operating system's own chance, and never from what makes ids."""
    return str(uuid.uuid4())


def _target(actor: Actor, scope: Scope) -> Target:
    return Target(project_id=actor.project_id, scope_name=scope.name)


def _seen(scope: Scope, domains: Sequence[Aggregate], obfuscation: Obfuscation, tenant: ProjectId | None) -> SeenScope:
    if obfuscation.sees_all:
        whole = (SeenDomain(str(each.id), each, _surrogate(scope, tenant, str(each.id))) for each in domains)
        return SeenScope(scope, tuple(whole), shows_namespace=True)
    known = (obfuscation.kept(scope, str(domain.id)) for domain in domains if scope.allow_identifiers)
    return SeenScope(scope, tuple(map(SeenDomain, _sorted(known))), shows_namespace=False)


def _surrogate(scope: Scope, tenant: ProjectId | None, identifier: str) -> str | None:
    return None if tenant is None else surrogate(scope.namespace_uuid, tenant, identifier)


def _sorted(identifiers: Iterable[str]) -> list[str]:
    """By what is seen, numbers as numbers: the real order of what hides behind them is not to be guessed."""
    return sorted(identifiers, key=lambda text: (len(text), text))


def _all(tx: Transaction) -> Sequence[Scope]:
    return IMPLICIT, *tx.scopes.all()


def _existing(tx: Transaction, key: str) -> Scope:
    """The scope of that id or, if there is none, of that name."""
    every = _all(tx)
    found = next((s for s in every if s.id == key), None) or next((s for s in every if s.name == key), None)
    if found is None:
        raise NotFound(f"Policy scope {key} could not be found.")
    return found


def _changeable(tx: Transaction, key: str) -> Scope:
    scope = _existing(tx, key)
    refuse_implicit(scope)
    return scope


def _held(tx: Transaction, scope: Scope) -> Scope:
    """The scope as it is now, and stays until the transaction ends."""
    found = tx.scopes.lock(scope.id)
    if found is None:
        raise NotFound(f"Policy scope {scope.name} could not be found.")
    return found


def _refuse_implicit_name(name: str) -> None:
    if name == IMPLICIT.name:
        raise Conflict(f"A policy scope named {name} exists already: it is always there.")


def _told(names: Sequence[str]) -> str:
    rest = len(names) - _TOLD
    return ", ".join(names[:_TOLD]) + (f" and {rest} more" if rest > 0 else "")
