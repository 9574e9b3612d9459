"""The store: read() and write() transactions on one database."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property

import sqlalchemy as sa

from covey.model.errors import Invalid, TransactionConflict, Unavailable
from covey.ports import Clock
from covey.request_slots import slot_released, time_left, wait_limit
from covey.storage import engine as databases
from covey.storage.actions import Actions, Migrations
from covey.storage.agent_calls import AgentCalls
from covey.storage.agents import Agents
from covey.storage.aggregates import Aggregates
from covey.storage.allocations import Allocations
from covey.storage.changes import FleetChanges, Topology
from covey.storage.claims import Claims
from covey.storage.clustering import Clustering
from covey.storage.compute_nodes import ComputeNodes
from covey.storage.dashboard import DashboardRows
from covey.storage.drains import Drains
from covey.storage.flavors import Flavors
from covey.storage.fleet_records import FleetRecords
from covey.storage.group_consumers import GroupConsumers
from covey.storage.groups import Groups
from covey.storage.host_summaries import HostSummaries
from covey.storage.hosts import Hosts
from covey.storage.idempotency import IdempotencyKeys
from covey.storage.images import Images
from covey.storage.instance_refusals import InstanceRefusals
from covey.storage.inventories import Inventories
from covey.storage.keypairs import KeyPairs
from covey.storage.ledger_copies import LedgerCopies
from covey.storage.nova_catalogue import NovaCatalogue
from covey.storage.nova_instances import NovaInstances
from covey.storage.nova_mirror import NovaMirror
from covey.storage.providers import Providers
from covey.storage.quotas import Quotas
from covey.storage.rebalances import Rebalances
from covey.storage.resource_classes import ResourceClasses
from covey.storage.scopes import Scopes
from covey.storage.server_allocations import ServerAllocations
from covey.storage.servers import Servers
from covey.storage.tables import secrets
from covey.storage.traits import Traits
from covey.storage.work import Outbox, Work

_CONFLICT = "Another request changed the same resource at the same time. Read it again, then retry."
_UNAVAILABLE = "The database does not answer. Try again in a moment."
_BUSY = "The request waited too long for the database, or for another request. Try again in a moment."
_LOCKED = "The transaction waited too long for a lock of another one, and changed nothing. Try again in a moment."
_READ_ONLY = "The database does not accept writes. Try again in a moment."
_LOCK_TIMEOUT = "55P03"
_MESSAGES = {  # by SQLSTATE, or SQLite's name of the error
    _LOCK_TIMEOUT: _LOCKED,
    "SQLITE_BUSY": _LOCKED,
    "57014": _BUSY,  # statement_timeout
    "25P03": _UNAVAILABLE,  # idle_in_transaction_session_timeout
    "25006": _READ_ONLY,  # a write to a standby in recovery
    "0A000": _READ_ONLY,  # the start of a writing transaction there
}
_PING_S = 5.0
_TURN_S = 2.0  # then SQLite waits, up to its own limit
_SECRET = sa.select(secrets.c.value).where(secrets.c.name == sa.bindparam("of"))
_CONFLICT_STATES = {"40001", "40P01"}  # SQLSTATE of a serialization failure and of a deadlock


class Transaction:
    """What one transaction can read and write, by resource."""

    def __init__(self, connection: sa.Connection, clock: Clock | None = None) -> None:
        self._connection = connection
        self._clock = clock
        self.topology = Topology(connection)

    def secret(self, name: str) -> str:
        """Return a secret of the service, which the migrations generated."""
        value: str = self._connection.execute(_SECRET, {"of": name}).scalar_one()
        return value

    @cached_property
    def actions(self) -> Actions:
        return Actions(self._connection)

    @cached_property
    def agent_calls(self) -> AgentCalls:
        return AgentCalls(self._connection, self._clock)

    @cached_property
    def agents(self) -> Agents:
        return Agents(self._connection, self.topology, self._clock)

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
        return Claims(self._connection, self._clock)

    @cached_property
    def clustering(self) -> Clustering:
        return Clustering(self._connection)

    @cached_property
    def compute_nodes(self) -> ComputeNodes:
        return ComputeNodes(self._connection)

    @cached_property
    def dashboard(self) -> DashboardRows:
        return DashboardRows(self._connection)

    @cached_property
    def drains(self) -> Drains:
        return Drains(self._connection)

    @cached_property
    def flavors(self) -> Flavors:
        return Flavors(self._connection)

    @cached_property
    def fleet_records(self) -> FleetRecords:
        return FleetRecords(self._connection)

    @cached_property
    def group_consumers(self) -> GroupConsumers:
        return GroupConsumers(self._connection)

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
        return Images(self._connection, self._clock)

    @cached_property
    def instance_refusals(self) -> InstanceRefusals:
        return InstanceRefusals(self._connection)

    @cached_property
    def inventories(self) -> Inventories:
        return Inventories(self._connection, self.topology)

    @cached_property
    def key_pairs(self) -> KeyPairs:
        return KeyPairs(self._connection)

    @cached_property
    def keys(self) -> IdempotencyKeys:
        return IdempotencyKeys(self._connection)

    @cached_property
    def ledger_copies(self) -> LedgerCopies:
        return LedgerCopies(self._connection, self.topology)

    @cached_property
    def migrations(self) -> Migrations:
        return Migrations(self._connection)

    @cached_property
    def nova_catalogue(self) -> NovaCatalogue:
        return NovaCatalogue(self._connection, self.topology)

    @cached_property
    def nova_instances(self) -> NovaInstances:
        return NovaInstances(self._connection)

    @cached_property
    def nova_mirror(self) -> NovaMirror:
        return NovaMirror(self._connection)

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
    def server_allocations(self) -> ServerAllocations:
        return ServerAllocations(self._connection, self.claims)

    @cached_property
    def servers(self) -> Servers:
        return Servers(self._connection)

    @cached_property
    def traits(self) -> Traits:
        return Traits(self._connection, self.topology)

    @cached_property
    def work(self) -> Work:
        return Work(self._connection, self._clock)


class Store:
    """Transactions on one database. Thread-safe.

    `lost_connections` grows when a connection turns out to be dead. PostgreSQL may then have recovered from a crash:
    what memory holds of its rows may be wrong. Jobs go by the database's clock, or by `clock` in tests.
    """

    def __init__(self, engine: sa.Engine, clock: Clock | None = None) -> None:
        self.clock = clock
        self.lost_connections = 0
        self._engine = engine
        sa.event.listen(engine, "invalidate", self._count_loss)
        self._reader = databases.reader(engine)
        self._autocommitter = databases.autocommitter(engine)
        self._single_reads = databases.KeptConnections(engine, self._autocommitter)
        writer = databases.writer(engine)
        is_sqlite = engine.dialect.name == "sqlite"
        # A connection to PostgreSQL may die: the pool then drops those that are as old, before they fail a request.
        self._writers = databases.KeptConnections(engine, writer) if is_sqlite else writer
        self._turns = threading.Lock() if is_sqlite else None

    @contextmanager
    def read(self, *, long: bool = False, reserved: bool = False) -> Iterator[Transaction]:
        """Begin a transaction whose statements all see one snapshot. Raises Unavailable.

        With `long`, a statement may take a minute: it reads whole tables. A `reserved` connection is for a thread for
        which others wait while they hold connections of the pool. One thread at a time has it.
        """
        with _REACHABLE, (self._reserved_reader if reserved else self._reader).begin() as connection:
            if long:
                databases.allow_long_statements(connection)
            yield Transaction(connection, self.clock)

    @cached_property
    def _reserved_reader(self) -> sa.Engine:
        reserved = databases.reserve(self._engine)
        sa.event.listen(reserved, "invalidate", self._count_loss)
        return databases.reader(reserved)

    def read_once(self) -> "_SingleRead":
        """Read by a single statement, which is a snapshot by itself: without BEGIN and COMMIT. Raises Unavailable."""
        return _SingleRead(self._single_reads, self.clock)

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Begin a transaction that commits when the block ends, and rolls back if the block raises.

        Raises TransactionConflict when the database finds a conflict, also at the commit; StaleClaim when a decision
        of the transaction stands on another topology; Invalid for a value that is too large; Unavailable.
        """
        try:
            with self._turn(), _REACHABLE, _CONFLICTS, self._writers.begin() as connection:
                tx = Transaction(connection, self.clock)
                yield tx
                tx.topology.finish()
        except Unavailable as error:
            if isinstance(error.__cause__, sa.exc.DBAPIError) and _state(error.__cause__) == _LOCK_TIMEOUT:
                self._end_frozen_sessions()
            raise

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Let the writers of this process take the write lock one after the other.

        SQLite lets those that wait sleep, up to a tenth of a second, and wakes none when the lock is free.
        """
        if self._turns is None:
            yield
            return
        taken = self._turns.acquire(timeout=databases.PROMPT_S)
        if not taken:
            with slot_released():
                taken = self._turns.acquire(timeout=max(0, min(_TURN_S, time_left())))
        try:
            yield
        finally:
            if taken:
                self._turns.release()

    def _end_frozen_sessions(self) -> None:
        """Free the lock that a transaction timed out on, if its holder is frozen."""
        with suppress(sa.exc.SQLAlchemyError), self._autocommitter.connect() as connection:
            databases.end_frozen_sessions(connection)

    def _count_loss(self, *_: object) -> None:
        self.lost_connections += 1

    def ping(self) -> None:
        """Raise Unavailable unless the database answers within a few seconds, and accepts writes."""
        with wait_limit(_PING_S), _REACHABLE, self._autocommitter.connect() as connection:
            if not databases.is_writable(connection):
                raise Unavailable(_READ_ONLY)
            connection.execute(sa.text("SELECT 1"))


class _Reachable:
    """Translates what a database raises that does not answer. A generator would cost more than the check.

    Raises Unavailable, at once after the deadline.
    """

    def __enter__(self) -> None:
        if time_left() <= 0:
            raise Unavailable(_BUSY)

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None or not isinstance(error, sa.exc.SQLAlchemyError):
            return
        if isinstance(error, sa.exc.TimeoutError):  # no connection was free in time
            raise Unavailable(_BUSY) from error
        if isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError):
            raise Unavailable(_MESSAGES.get(_state(error), _UNAVAILABLE)) from error
        if isinstance(error, sa.exc.InternalError | sa.exc.NotSupportedError) and _state(error) in _MESSAGES:
            raise Unavailable(_MESSAGES[_state(error)]) from error


_REACHABLE = _Reachable()


class _SingleRead:
    """Yields a transaction on a connection for single statements. A generator would cost more."""

    __slots__ = ("_clock", "_connection", "_connections")

    def __init__(self, connections: databases.KeptConnections, clock: Clock | None) -> None:
        self._connections = connections
        self._clock = clock

    def __enter__(self) -> Transaction:
        with _REACHABLE:
            self._connection = self._connections.take()
        return Transaction(self._connection, self._clock)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sa.exc.SQLAlchemyError):
            databases.close_after(self._connection, error)
            _REACHABLE.__exit__(kind, error, trace)
            return
        try:
            self._connections.put_back(self._connection)
        except sa.exc.SQLAlchemyError as lost:
            _REACHABLE.__exit__(type(lost), lost, None)
            raise


def _state(error: sa.exc.DBAPIError) -> str:
    """Return the SQLSTATE, or SQLite's name of the error."""
    return str(getattr(error.orig, "sqlstate", None) or getattr(error.orig, "sqlite_errorname", None))


class _Conflicts:
    """Translates what no single statement foresees, such as a deferred constraint that fails at the commit."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        is_conflict = isinstance(error, sa.exc.OperationalError) and _state(error) in _CONFLICT_STATES
        if is_conflict or isinstance(error, sa.exc.IntegrityError):
            raise TransactionConflict(_CONFLICT) from error
        if isinstance(error, sa.exc.DataError):
            raise Invalid("A value is longer or larger than the database can store.") from error


_CONFLICTS = _Conflicts()
