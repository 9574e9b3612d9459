"""Connections and transactions, and where the two databases differ."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from covey.model import regular_expressions
from covey.model.errors import Invalid
from covey.model.extras import requires
from covey.request_slots import slot_released, time_left
from covey.storage.rows import driver

if TYPE_CHECKING:
    from covey.storage.postgresql import TimedConnection

BUSY_TIMEOUT_S = 30
PROMPT_S = 0.02  # a wait that takes longer holds no request slot
_IDLE_S = 1.0
_PING_S = 2.0
_GRACE_S = 3.0  # for the server's answer that a statement took too long
_LONG_S = 60
_CACHE_KIB = 16_384  # page cache of each SQLite connection
_LOG_PAGES = 8_192  # 32 MiB of WAL before a checkpoint: hot pages are written back less often
SUPPORTED = "Covey stores in SQLite (sqlite:///FILE) or PostgreSQL (postgresql://USER@HOST/NAME)"


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """How many seconds a process waits for the database; 0 is without a limit, for commands that take long."""

    connect_s: int = 3
    pool_s: float = 30.0  # for a free connection
    lock_s: float = 0.0
    statement_s: float = 0.0
    idle_in_transaction_s: float = 60.0  # a process that is frozen in a transaction keeps its locks until then


def connect(database: str, *, pool_size: int = 16, limits: TimeLimits = TimeLimits()) -> sa.Engine:  # noqa: B008 -- frozen
    """Return an engine for a database URL. Raises Invalid for an unsupported URL."""
    url = _url(database)
    if url.get_backend_name() == "sqlite":
        made = _sqlite(url, pool_size, limits)
    else:
        with requires("postgresql", "A PostgreSQL database"):
            made = _postgresql(url, pool_size, limits)
    made.update_execution_options(covey_limits=limits)
    return made


def reserve(engine: sa.Engine) -> sa.Engine:
    """Return an engine with one connection of its own to the same database, which no other thread takes."""
    limits = engine.get_execution_options()["covey_limits"]
    reserved = connect(engine.url.render_as_string(hide_password=False), pool_size=1, limits=limits)
    event.listen(engine, "engine_disposed", lambda _: reserved.dispose())
    return reserved


def reader(engine: sa.Engine) -> sa.Engine:
    """Return the engine for read-only transactions on one snapshot."""
    if engine.dialect.name == "sqlite":
        return engine  # a deferred transaction in WAL mode reads one snapshot
    return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


def autocommitter(engine: sa.Engine) -> sa.Engine:
    """Return the engine for statements without a transaction."""
    if engine.dialect.name == "sqlite":
        return engine  # begins a transaction only for SQLAlchemy's own statements
    return engine.execution_options(isolation_level="AUTOCOMMIT")


class KeptConnections:
    """Connections of one kind that stay out of the pool while they are idle. Thread-safe.

    To take one from the pool, and to put it back, costs more than a short statement. So a few stay out of the pool.
    """

    def __init__(self, engine: sa.Engine, kind: sa.Engine) -> None:
        """Keep connections of `kind`: the engine with other options."""
        self._engine = kind
        self._may_die = engine.dialect.name == "postgresql"
        self._most = engine.pool.size() // 4 if isinstance(engine.pool, sa.QueuePool) else 0
        self._idle: list[tuple[sa.Connection, float]] = []  # the last one has the warmest cache
        event.listen(engine, "engine_disposed", lambda _: self._close())

    def take(self) -> sa.Connection:
        """Return a connection for the caller alone, who puts it back; after an error of the database, closes it."""
        try:
            connection, used_at = self._idle.pop()
        except IndexError:
            return self._engine.connect()
        if self._may_die and time.monotonic() - used_at >= _IDLE_S and not _answers(connection):
            return self._engine.connect()
        return connection

    @contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """Begin a transaction that commits when the block ends, and rolls back if the block raises."""
        connection = self.take()
        try:
            with connection.begin():
                yield connection
        except BaseException:
            connection.close()
            raise
        self.put_back(connection)

    def put_back(self, connection: sa.Connection) -> None:
        """Keep a connection for the next caller."""
        if connection.in_transaction():
            connection.rollback()
        if len(self._idle) < self._most:
            self._idle.append((connection, time.monotonic()))
        else:
            connection.close()

    def _close(self) -> None:
        while self._idle:
            connection, _ = self._idle.pop()
            connection.detach()  # the pool that it came from closes no more connections
            connection.close()


def close_after(connection: sa.Connection, error: sa.exc.SQLAlchemyError) -> None:
    """Close a connection after an error, which a statement of the driver may have raised, unknown to SQLAlchemy.

    A lost connection is not reset: that would only fail again.
    """
    if isinstance(error, sa.exc.DBAPIError) and not connection.invalidated:
        raw = connection.connection.dbapi_connection
        if connection.dialect.is_disconnect(error.orig, raw, None):  # type: ignore[arg-type]  # it takes a driver's
            connection.invalidate(error)
    connection.close()


def _answers(connection: sa.Connection) -> bool:
    """Ping a connection. SQLAlchemy drops a dead one, and all of the pool, which are as old."""
    timed = _driver_connection(connection.connection.dbapi_connection)
    limit_s, timed.answer_timeout_s = timed.answer_timeout_s, _PING_S
    try:
        connection.exec_driver_sql("SELECT 1")
        connection.rollback()
    except sa.exc.DBAPIError:
        connection.close()
        return False
    timed.answer_timeout_s = limit_s
    return True


def writer(engine: sa.Engine) -> sa.Engine:
    """Return the engine for write transactions. On SQLite they take the write lock at their start."""
    return engine.execution_options(covey_writes=True)


def allow_long_statements(connection: sa.Connection) -> None:
    """Let the statements of this transaction take a minute each."""
    if connection.dialect.name != "sqlite":
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = '{_LONG_S}s'")
        _driver_connection(connection.connection.dbapi_connection).answer_timeout_s = _LONG_S + _GRACE_S


def end_frozen_sessions(connection: sa.Connection) -> None:
    """End sessions whose clients stopped within or after a pipeline, for which PostgreSQL itself has no limit.

    After the last answer of a pipeline its limit for idle transactions does not count if psycopg sent a Flush.
    A client that reads slowly, such as a dump, is not frozen.
    """
    if connection.dialect.name != "sqlite":
        connection.execute(_END_FROZEN)


_END_FROZEN = sa.text("""
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND usename = current_user
        AND state IN ('active', 'idle in transaction', 'idle in transaction (aborted)')
        AND backend_type = 'client backend' AND wait_event = 'ClientRead'
        AND current_setting('idle_in_transaction_session_timeout') <> '0'
        AND clock_timestamp() - state_change > current_setting('idle_in_transaction_session_timeout')::interval
""")


def is_writable(connection: sa.Connection) -> bool:
    """Return False for a database that only reads, such as a standby in recovery."""
    return connection.dialect.name == "sqlite" or bool(connection.scalar(_IS_WRITABLE))


_IS_WRITABLE = sa.text(
    "SELECT NOT pg_is_in_recovery() AND NOT current_setting('default_transaction_read_only')::boolean"
)


def without_secrets(url: URL) -> str:
    """Return a database URL to show: without the password, wherever it is."""
    passwords = [name for name in url.query if "password" in name.lower()]
    return url.difference_update_query(passwords).render_as_string(hide_password=True)


def _url(database: str) -> URL:
    try:
        url = make_url(database)
    except sa.exc.ArgumentError as error:
        # The text omits the URL: it may hold a password.
        raise Invalid(f"The database URL is malformed. {SUPPORTED}.") from error
    match url.get_backend_name():
        case "sqlite" if url.database and url.database != ":memory:":
            return url.set(drivername="sqlite+pysqlite")
        case "postgresql":
            return url.set(drivername="postgresql+psycopg")
        case _:
            raise Invalid(f"The database {without_secrets(url)!r} is not supported. {SUPPORTED}.")


def _postgresql(url: URL, pool_size: int, limits: TimeLimits) -> sa.Engine:
    from covey.storage import postgresql  # noqa: PLC0415 -- its driver is optional

    reachable = {"connect_timeout": limits.connect_s, "tcp_user_timeout": 1000 * limits.connect_s}
    engine = sa.create_engine(
        url,
        poolclass=postgresql.SlotReleasingPool,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=limits.pool_s,
        pool_use_lifo=True,
        connect_args={name: value for name, value in reachable.items() if name not in url.query},
    )
    settings = {
        # A cached plan from when a table was small, even of a foreign key check, would scan the table for every row.
        # A table without a usable index is still scanned.
        "enable_seqscan": "off",
        "jit": "off",  # the high cost of a disabled scan would trigger it
        "lock_timeout": _milliseconds(limits.lock_s),
        "statement_timeout": _milliseconds(limits.statement_s),
        "idle_in_transaction_session_timeout": _milliseconds(limits.idle_in_transaction_s),
    }
    answer_timeout_s = limits.statement_s + _GRACE_S if limits.statement_s else float("inf")

    def prepare(connection: "TimedConnection", _: object) -> None:
        connection.execute("; ".join(f"SET {name} = {value}" for name, value in settings.items()).encode())
        connection.commit()

    event.listen(engine, "do_connect", lambda _, __, args, parameters: postgresql.connect(*args, **parameters))
    event.listen(engine, "connect", prepare)
    _check_when_used(engine, answer_timeout_s)
    return engine


def _milliseconds(seconds: float) -> str:
    return str(round(1000 * seconds))


def _check_when_used(engine: sa.Engine, answer_timeout_s: float) -> None:
    """Ping a connection that was idle for a while, since it may be dead. A ping at each use would cost a round trip."""

    def note_use(_: object, record: ConnectionPoolEntry) -> None:
        record.info["used_at"] = time.monotonic()

    def check(connection: DBAPIConnection, record: ConnectionPoolEntry, _: object) -> None:
        timed = _driver_connection(connection)
        if time.monotonic() - record.info.get("used_at", 0.0) >= _IDLE_S:
            timed.answer_timeout_s = _PING_S
            try:
                engine.dialect.do_ping(connection)
            except engine.dialect.loaded_dbapi.Error as error:
                raise sa.exc.InvalidatePoolError from error  # the others are as old
        timed.answer_timeout_s = answer_timeout_s

    event.listen(engine, "checkin", note_use)
    event.listen(engine, "checkout", check)


def _driver_connection(connection: DBAPIConnection | None) -> "TimedConnection":
    return cast("TimedConnection", connection)


def _sqlite(url: URL, pool_size: int, limits: TimeLimits) -> sa.Engine:
    assert url.database is not None
    _create_private(Path(url.database))
    busy_timeout_s = limits.lock_s or BUSY_TIMEOUT_S
    engine = sa.create_engine(
        url,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=limits.pool_s,
        pool_use_lifo=True,  # the last connection has the warmest page cache
        connect_args={"timeout": busy_timeout_s, "isolation_level": None, "cached_statements": 512},
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _create_private(path: Path) -> None:
    """Create the file, and its directory, for this user alone: it holds secrets. SQLite's other files copy its mode."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(OSError):  # SQLite reports why it cannot open the file
        path.touch(mode=0o600)


# SQLite compares times as text, so all of them have the same length, as SQLAlchemy writes them.
sqlite3.register_adapter(datetime, lambda time: time.isoformat(" ", "microseconds"))


def _prepare_sqlite(connection: sqlite3.Connection, _: object) -> None:
    _use_wal(connection)
    connection.create_function("regexp", 2, regular_expressions.matches, deterministic=True)  # Python's may not return
    pragmas = {
        "synchronous": "FULL",
        "foreign_keys": "ON",
        "cache_size": -_CACHE_KIB,
        "wal_autocheckpoint": _LOG_PAGES,
        "temp_store": "MEMORY",  # statement journals stay out of the file system
    }
    for pragma, value in pragmas.items():
        connection.execute(f"PRAGMA {pragma}={value}")


def _use_wal(connection: sqlite3.Connection) -> None:
    # Only one of several processes that open a new file can switch it to WAL; SQLite does not let the others wait.
    give_up_at = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_at:
                raise
            time.sleep(0.01)
        else:
            return


def _begin_sqlite(connection: sa.Connection) -> None:
    # The driver would begin at the first write, where a lock upgrade can fail instead of waiting.
    if not connection.get_execution_options().get("covey_writes", False):
        connection.exec_driver_sql("BEGIN")
        return
    try:
        _take_write_lock(connection, PROMPT_S)
    except sa.exc.OperationalError as error:
        if getattr(error.orig, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY:  # also of an extended code
            raise
        with slot_released():
            _take_write_lock(connection, time_left())


def _take_write_lock(connection: sa.Connection, most_s: float) -> None:
    """Begin a transaction that holds the lock of writers. Raises OperationalError after the time."""
    limit_s = connection.get_execution_options()["covey_limits"].lock_s or BUSY_TIMEOUT_S
    with driver(connection) as raw:
        raw.execute(f"PRAGMA busy_timeout={_milliseconds(max(0, min(most_s, limit_s)))}")
        try:
            raw.execute("BEGIN IMMEDIATE")
        finally:
            raw.execute(f"PRAGMA busy_timeout={_milliseconds(limit_s)}")
