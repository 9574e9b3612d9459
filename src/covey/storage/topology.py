"""The topology token: a random value that every structural change of the fleet replaces.

A claim stands on the topology that its view of the fleet had. It holds the token shared from before its look at the
fleet to its commit, and compares it with the view's. A structural change takes the token exclusively, last, so it waits
for the claims under way, and claims wait for nothing but its commit. On SQLite the one writer holds everything.

Claims take the token before all row locks. A change that locks rows which claims lock as well, those of inventories,
takes it before these: otherwise each could wait for the other.
"""

from collections.abc import Iterable
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from covey.model.changes import StructuralChange
from covey.model.errors import StaleClaim
from covey.storage.changes import FleetChanges
from covey.storage.rows import driver, execute, pipeline

_LOCK_KEY = 0x436F766579  # of PostgreSQL's advisory locks
_HOLD_SHARED = f"SELECT pg_advisory_xact_lock_shared({_LOCK_KEY})"
_HOLD = f"SELECT pg_advisory_xact_lock({_LOCK_KEY})"
_TOKEN = "SELECT token FROM topology"  # noqa: S105 -- no password
_SET_TOKEN = "UPDATE topology SET token = ?"  # noqa: S105


class Topology:
    """Collects the structural changes of one transaction, and the token that its decisions stand on."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._providers: set[int] = set()
        self._aggregates: set[int] = set()
        self._required: str | None = None

    def changed(self, *, providers: Iterable[int] = (), aggregates: Iterable[int] = ()) -> None:
        """Record that this transaction changes these providers (hosts are providers) and aggregates."""
        self._providers.update(providers)
        self._aggregates.update(aggregates)

    def hold(self) -> None:
        """Hold the token from now to the commit, so that the topology cannot change under this transaction."""
        hold(self._connection, shared=True)

    def begin_change(self) -> None:
        """Take the token exclusively now. Call it before locking rows that claims lock as well."""
        hold(self._connection, shared=False)

    def require(self, token: str) -> None:
        """Make the commit depend on this token: it raises StaleClaim if another transaction replaced it."""
        self._required = token

    def finish(self) -> None:
        """Take the token, compare it and replace it, as this transaction needs. Call it before the commit."""
        changes = bool(self._providers or self._aggregates)
        if not changes and self._required is None:
            return
        with pipeline(self._connection):
            hold(self._connection, shared=not changes)
            found = execute(self._connection, _TOKEN)
        previous = found.fetchone()[0]
        reject_other(previous, self._required)
        if changes:
            token = str(uuid4())
            change = StructuralChange(previous, token, tuple(sorted(self._providers)), tuple(sorted(self._aggregates)))
            execute(self._connection, _SET_TOKEN, token)
            FleetChanges(self._connection).add_structure(change)


def find_token(connection: sa.Connection) -> Any:  # noqa: ANN401 -- the driver's cursor
    """Return the driver's cursor with the token, which the caller holds; a pipeline may be open."""
    return execute(connection, _TOKEN)


def hold(connection: sa.Connection, *, shared: bool) -> None:
    """Take the token's lock up to the commit."""
    if connection.dialect.name == "postgresql":
        with driver(connection) as raw:
            raw.execute(_HOLD_SHARED if shared else _HOLD)


def reject_other(token: str, required: str | None) -> None:
    """Raise StaleClaim if a token is required and this is another one."""
    if required is not None and token != required:
        raise StaleClaim(frozenset())
