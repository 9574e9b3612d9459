"""What servers and their moves hold: consumers and allocations, together with the room that they take."""

from collections import defaultdict

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, select, update

from covey.model.changes import UsageChange
from covey.model.claims import Allocations
from covey.model.ids import ServerId
from covey.model.resources import Resources
from covey.storage.claims import Claims
from covey.storage.rows import insert_rows
from covey.storage.tables import allocations, consumers

_OF_CONSUMER = select(allocations).where(allocations.c.consumer_uuid == bindparam("consumer"))
_RENAME_CONSUMER = (
    update(allocations).where(allocations.c.consumer_uuid == bindparam("of")).values(consumer_uuid=bindparam("to"))
)
# A change of allocations locks the consumer first, so what it read stays true.
_LOCK_CONSUMERS = (
    select(consumers.c.uuid)
    .where(consumers.c.uuid.in_(bindparam("consumers", expanding=True)))
    .order_by(consumers.c.uuid)
    .with_for_update()
)
# Deleting allocations through the Placement API deletes the consumer, so it may be missing.
_COUNT_WRITE = sa.text("""
    INSERT INTO consumers (uuid, project_id, user_id, consumer_type, generation)
    SELECT id, project_id, user_id, 'INSTANCE', 1 FROM servers WHERE id = :of
    ON CONFLICT (uuid) DO UPDATE SET generation = consumers.generation + 1
    RETURNING project_id, user_id
""")
_DROP_ALLOCATIONS = delete(allocations).where(allocations.c.consumer_uuid == bindparam("consumer"))
_DROP_CONSUMER = delete(consumers).where(consumers.c.uuid == bindparam("consumer"))
_CONSUMER = ("uuid", "project_id", "user_id", "consumer_type", "generation")
_ALLOCATION = ("consumer_uuid", "provider_id", "resource_class", "used")


class ServerAllocations:
    """Allocations of servers and of their moves, in the caller's transaction."""

    def __init__(self, connection: sa.Connection, claims: Claims) -> None:
        self._connection = connection
        self._claims = claims

    def give_to_migration(self, server: ServerId, migration: str) -> None:
        """Give the allocations of a server that is about to move to its migration."""
        owner = self._connection.execute(_COUNT_WRITE, {"of": server}).one()
        self.add_consumer(migration, owner.project_id, owner.user_id, "MIGRATION")
        self._connection.execute(_RENAME_CONSUMER, {"of": server, "to": migration})

    def return_from_migration(self, migration: str, server: ServerId) -> None:
        """Give the allocations of a migration back to its server."""
        self._connection.execute(_COUNT_WRITE, {"of": server})
        of_migration = allocations.c.consumer_uuid == migration
        self._connection.execute(update(allocations).where(of_migration).values(consumer_uuid=server))
        self._connection.execute(_DROP_CONSUMER, {"consumer": migration})

    def add_consumer(self, consumer: str, project: str, user: str, kind: str) -> None:
        """Add a consumer of allocations."""
        insert_rows(self._connection, consumers, _CONSUMER, [(consumer, project, user, kind, 1)])

    def allocate(self, consumer: str, held: Allocations) -> None:
        """Write the allocations of a consumer, after their room was taken."""
        rows = [(consumer, provider, kind, n) for provider, each in held.items() for kind, n in each.items()]
        insert_rows(self._connection, allocations, _ALLOCATION, rows)

    def release(self, *consumers: str) -> list[UsageChange]:
        """Return the room of consumers and delete them. Return what they used, negated."""
        # A consumer that another transaction adds now is not locked, so it keeps its allocations.
        locked = self._connection.execute(_LOCK_CONSUMERS, {"consumers": consumers}).scalars().all()
        uses = [use for consumer in locked for use in self._returned(consumer)]
        self._claims.take(uses)
        for consumer in locked:
            self._connection.execute(_DROP_CONSUMER, {"consumer": consumer})
        return uses

    def relocate(self, consumer: str, held: Allocations) -> list[UsageChange]:
        """Return the room of a consumer and take other room for it, at once. Raises StaleClaim."""
        self._connection.execute(_COUNT_WRITE, {"of": consumer})
        uses = [*self._returned(consumer), *(UsageChange(*use) for use in held.items())]
        self._claims.take(uses)
        self._connection.execute(_DROP_ALLOCATIONS, {"consumer": consumer})
        self.allocate(consumer, held)
        return uses

    def _returned(self, consumer: str) -> list[UsageChange]:
        held: dict[int, dict[str, int]] = defaultdict(dict)
        for row in self._connection.execute(_OF_CONSUMER, {"consumer": consumer}):
            held[row.provider_id][row.resource_class] = -row.used
        return [UsageChange(provider, Resources(amounts)) for provider, amounts in held.items()]
