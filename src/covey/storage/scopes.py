"""Scopes: the kinds of place that operators defined."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, insert, select, update

from covey.model.errors import Conflict
from covey.model.ids import ScopeId
from covey.model.scopes import Scope
from covey.storage.refusals import refused_as
from covey.storage.tables import instance_group_policy_scopes as scopes

_ROWS = select(
    scopes.c.id, scopes.c.name, scopes.c.allow_identifiers, scopes.c.obfuscate_identifiers, scopes.c.namespace_uuid
).order_by(scopes.c.name)
_SET_FLAGS = (
    update(scopes)
    .where(scopes.c.id == bindparam("of"))
    .values(allow_identifiers=bindparam("allow"), obfuscate_identifiers=bindparam("obfuscate"))
)
_DELETE = delete(scopes).where(scopes.c.id == bindparam("of"))


class Scopes:
    """Every scope but the implicit one, host."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def all(self) -> list[Scope]:
        return [Scope(*row) for row in self._connection.execute(_ROWS)]

    def add(self, new: Sequence[Scope]) -> None:
        """Raises Conflict when a name is taken."""
        if new:
            with refused_as(Conflict("A policy scope of that name exists already.")):
                self._connection.execute(insert(scopes), [_row(scope) for scope in new])

    def set_flags(self, scope: Scope) -> None:
        """Stores whether the scope's identifiers may be used, and whether tenants see surrogates."""
        flags = {"of": scope.id, "allow": scope.allow_identifiers, "obfuscate": scope.obfuscate_identifiers}
        self._connection.execute(_SET_FLAGS, flags)

    def delete(self, scope: ScopeId) -> None:
        """Raises Conflict while aggregates are in it."""
        with refused_as(Conflict("The policy scope still has aggregates.")):
            self._connection.execute(_DELETE, {"of": scope})


def _row(scope: Scope) -> dict[str, object]:
    return {
        "id": scope.id,
        "name": scope.name,
        "allow_identifiers": scope.allow_identifiers,
        "obfuscate_identifiers": scope.obfuscate_identifiers,
        "namespace_uuid": scope.namespace_uuid,
    }
