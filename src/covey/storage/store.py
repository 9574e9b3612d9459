"""The store: read() and write() transactions on one database."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

import sqlalchemy as sa

from covey.model.errors import Invalid, TransactionConflict, Unavailable
from covey.storage import engine as databases
from covey.storage.actions import Actions, Migrations
from covey.storage.aggregates import Aggregates
from covey.storage.allocations import Allocations
from covey.storage.changes import FleetChanges
from covey.storage.claims import Claims
from covey.storage.clustering import Clustering
from covey.storage.dashboard import DashboardRows
from covey.storage.flavors import Flavors
from covey.storage.groups import Groups
from covey.storage.host_summaries import HostSummaries
from covey.storage.hosts import Hosts
from covey.storage.idempotency import IdempotencyKeys
from covey.storage.images import Images
from covey.storage.inventories import Inventories
from covey.storage.providers import Providers
from covey.storage.quotas import Quotas
from covey.storage.rebalances import Rebalances
from covey.storage.resource_classes import ResourceClasses
from covey.storage.scopes import Scopes
from covey.storage.servers import Servers
from covey.storage.topology import Topology
from covey.storage.traits import Traits
from covey.storage.work import Outbox, Work

_CONFLICT = "Another request changed the same resource at the same time. Read it again, then retry."
_UNAVAILABLE = "The database does not answer. Try again in a moment."
_ENDED_SESSION = "25P03"  # SQLSTATE of a session that was idle in a transaction for too long
_CONFLICT_STATES = {"40001", "40P01"}  # SQLSTATE of a serialization failure and of a deadlock


class Transaction:
    """What one transaction can read and write, by resource."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self.topology = Topology(connection)

    @cached_property
    def actions(self) -> Actions:
        return Actions(self._connection)

    @cached_property
    def aggregates(self) -> Aggregates:
        return Aggregates(self._connection, self.topology)

    @cached_property
    def allocations(self) -> Allocations:
        return Allocations(self._connection)

    @cached_property
    def changes(self) -> FleetChanges:
        return FleetChanges(self._connection)

    @cached_property
    def claims(self) -> Claims:
        return Claims(self._connection)

    @cached_property
    def clustering(self) -> Clustering:
        return Clustering(self._connection)

    @cached_property
    def dashboard(self) -> DashboardRows:
        return DashboardRows(self._connection)

    @cached_property
    def flavors(self) -> Flavors:
        return Flavors(self._connection)

    @cached_property
    def groups(self) -> Groups:
        return Groups(self._connection)

    @cached_property
    def host_summaries(self) -> HostSummaries:
        return HostSummaries(self._connection)

    @cached_property
    def hosts(self) -> Hosts:
        return Hosts(self._connection, self.topology)

    @cached_property
    def images(self) -> Images:
        return Images(self._connection)

    @cached_property
    def inventories(self) -> Inventories:
        return Inventories(self._connection, self.topology)

    @cached_property
    def keys(self) -> IdempotencyKeys:
        return IdempotencyKeys(self._connection)

    @cached_property
    def migrations(self) -> Migrations:
        return Migrations(self._connection)

    @cached_property
    def outbox(self) -> Outbox:
        return Outbox(self._connection)

    @cached_property
    def providers(self) -> Providers:
        return Providers(self._connection, self.topology)

    @cached_property
    def quotas(self) -> Quotas:
        return Quotas(self._connection)

    @cached_property
    def rebalances(self) -> Rebalances:
        return Rebalances(self._connection)

    @cached_property
    def resource_classes(self) -> ResourceClasses:
        return ResourceClasses(self._connection, self.topology)

    @cached_property
    def scopes(self) -> Scopes:
        return Scopes(self._connection)

    @cached_property
    def servers(self) -> Servers:
        return Servers(self._connection)

    @cached_property
    def traits(self) -> Traits:
        return Traits(self._connection, self.topology)

    @cached_property
    def work(self) -> Work:
        return Work(self._connection)


class Store:
    """Transactions on one database. Thread-safe.

    `lost_connections` grows when a connection turns out to be dead. PostgreSQL may then have recovered from a crash:
    what memory holds of its rows may be wrong.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self.lost_connections = 0
        sa.event.listen(engine, "invalidate", self._count_loss)
        self._reader = databases.reader(engine)
        self._writer = databases.writer(engine)
        self._autocommitter = databases.autocommitter(engine)

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Begin a transaction whose statements all see one snapshot. Raises Unavailable."""
        with _reachable(), self._reader.begin() as connection:
            yield Transaction(connection)

    @contextmanager
    def read_once(self) -> Iterator[Transaction]:
        """Read by a single statement, which is a snapshot by itself: without BEGIN and COMMIT. Raises Unavailable."""
        with _reachable(), self._autocommitter.connect() as connection:
            yield Transaction(connection)

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Begin a transaction that commits when the block ends, and rolls back if the block raises.

        Raises TransactionConflict when the database finds a conflict, also at the commit; StaleClaim when a decision
        of the transaction stands on another topology; Invalid for a value that is too large; Unavailable.
        """
        with _reachable(), _conflicts(), self._writer.begin() as connection:
            tx = Transaction(connection)
            yield tx
            tx.topology.finish()

    def _count_loss(self, *_: object) -> None:
        self.lost_connections += 1

    def ping(self) -> None:
        """Raise Unavailable unless the database answers."""
        with _reachable(), self._reader.connect() as connection:
            connection.execute(sa.text("SELECT 1"))


@contextmanager
def _reachable() -> Iterator[None]:
    try:
        yield
    except (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.TimeoutError) as error:
        raise Unavailable(_UNAVAILABLE) from error
    except sa.exc.InternalError as error:
        if getattr(error.orig, "sqlstate", None) != _ENDED_SESSION:
            raise
        raise Unavailable(_UNAVAILABLE) from error


@contextmanager
def _conflicts() -> Iterator[None]:
    """Translate what no single statement foresees, such as a deferred constraint that fails at the commit."""
    try:
        yield
    except sa.exc.IntegrityError as cause:
        raise TransactionConflict(_CONFLICT) from cause
    except sa.exc.DataError as cause:
        raise Invalid("A value is longer or larger than the database can store.") from cause
    except sa.exc.OperationalError as cause:
        if getattr(cause.orig, "sqlstate", None) in _CONFLICT_STATES:
            raise TransactionConflict(_CONFLICT) from cause
        raise
