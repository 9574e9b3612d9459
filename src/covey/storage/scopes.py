"""Policy scopes that operators defined."""

from collections.abc import Iterable, Sequence

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, insert, select, update

from covey.model.errors import Conflict
from covey.model.groups import PolicyKind
from covey.model.ids import AggregateId, GroupId, ScopeId
from covey.model.scopes import Scope
from covey.storage.integrity_errors import integrity_error_as
from covey.storage.tables import aggregates
from covey.storage.tables import instance_group_policies as policies
from covey.storage.tables import instance_group_policy_scopes as scopes

_ROWS = select(
    scopes.c.id, scopes.c.name, scopes.c.allow_identifiers, scopes.c.obfuscate_identifiers, scopes.c.namespace_uuid
).order_by(scopes.c.name)
_SET_FLAGS = (
    update(scopes)
    .where(scopes.c.id == bindparam("of"))
    .values(allow_identifiers=bindparam("allow"), obfuscate_identifiers=bindparam("obfuscate"))
)
_DOMAINS = select(aggregates.c.id).where(aggregates.c.scope_id == bindparam("of")).order_by(aggregates.c.id)
_RENAME = update(scopes).where(scopes.c.id == bindparam("of")).values(name=bindparam("new_name"))
_LOCK = _ROWS.where(scopes.c.id == bindparam("of")).with_for_update()
_GROUPS = (
    select(policies.c.group_id).where(policies.c.scope_id == bindparam("of")).order_by(policies.c.group_id).distinct()
)
_TARGETING = (
    select(policies.c.group_id)
    .where(
        policies.c.scope_id == bindparam("of"),
        policies.c.identifier.in_(bindparam("domains", expanding=True)),
        policies.c.policy.in_([kind for kind in PolicyKind if not kind.is_soft]),
    )
    .order_by(policies.c.group_id)
    .distinct()
)
_IN_USE = select(policies.c.scope_id).where(policies.c.scope_id.is_not(None)).distinct()
_DELETE = delete(scopes).where(scopes.c.id == bindparam("of"))


class Scopes:
    """Every scope except the implicit scope host."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def all(self) -> list[Scope]:
        return [Scope(*row) for row in self._connection.execute(_ROWS)]

    def add(self, new: Sequence[Scope]) -> None:
        """Add scopes. Raises Conflict when a name is taken."""
        if new:
            with integrity_error_as(_taken(*(scope.name for scope in new))):
                self._connection.execute(insert(scopes), [_row(scope) for scope in new])

    def domains(self, scope: ScopeId) -> list[AggregateId]:
        """Return the ids of a scope's domains."""
        return [AggregateId(found) for found in self._connection.execute(_DOMAINS, {"of": scope}).scalars()]

    def lock(self, scope: ScopeId) -> Scope | None:
        """Return a scope with its row locked: it cannot be changed, deleted or newly used until the commit.

        In the lock order, scopes come after aggregates, hosts, the topology token and groups.
        """
        found = self._connection.execute(_LOCK, {"of": scope}).first()
        return None if found is None else Scope(*found)

    def groups(self, scope: ScopeId) -> list[GroupId]:
        """Return the server groups whose policies name the scope, by id."""
        return [GroupId(found) for found in self._connection.execute(_GROUPS, {"of": scope}).scalars()]

    def groups_targeting(self, scope: ScopeId, domains: Iterable[AggregateId]) -> list[GroupId]:
        """Return the server groups that have a hard policy which names one of these domains of the scope, by id."""
        found = self._connection.execute(_TARGETING, {"of": scope, "domains": [str(domain) for domain in domains]})
        return [GroupId(group) for group in found.scalars()]

    def in_use(self) -> set[ScopeId]:
        """Return the scopes that policies of server groups name."""
        return {ScopeId(found) for found in self._connection.execute(_IN_USE).scalars()}

    def rename(self, scope: ScopeId, name: str) -> None:
        """Set the name. Raises Conflict when it is taken."""
        with integrity_error_as(_taken(name)):
            self._connection.execute(_RENAME, {"of": scope, "new_name": name})

    def set_flags(self, scope: Scope) -> None:
        """Store whether identifiers may be used, and whether tenants see obfuscated ones."""
        flags = {"of": scope.id, "allow": scope.allow_identifiers, "obfuscate": scope.obfuscate_identifiers}
        self._connection.execute(_SET_FLAGS, flags)

    def delete(self, scope: ScopeId) -> None:
        """Delete a scope. Raises Conflict while it has aggregates, or policies name it."""
        with integrity_error_as(Conflict("The policy scope still has aggregates, or a server group uses it.")):
            self._connection.execute(_DELETE, {"of": scope})


def _taken(*names: str) -> Conflict:
    return Conflict(f"A policy scope named {' or '.join(names)} exists already.")


def _row(scope: Scope) -> dict[str, object]:
    return {
        "id": scope.id,
        "name": scope.name,
        "allow_identifiers": scope.allow_identifiers,
        "obfuscate_identifiers": scope.obfuscate_identifiers,
        "namespace_uuid": scope.namespace_uuid,
    }
