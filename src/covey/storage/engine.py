"""Connections and transactions, and where the two databases differ."""

import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from covey.model import regular_expressions
from covey.model.errors import Invalid
from covey.model.extras import requires

if TYPE_CHECKING:
    import psycopg

BUSY_TIMEOUT_S = 30
_IDLE_S = 1.0
_FROZEN_S = 60
_CACHE_KIB = 16_384  # page cache of each SQLite connection
_LOG_PAGES = 8_192  # 32 MiB of WAL before a checkpoint: hot pages are written back less often
SUPPORTED = "Covey stores in SQLite (sqlite:///FILE) or PostgreSQL (postgresql://USER@HOST/NAME)"


def connect(database: str, *, pool_size: int = 16) -> sa.Engine:
    """Return an engine for a database URL. Raises Invalid for an unsupported URL."""
    url = _url(database)
    if url.get_backend_name() == "sqlite":
        return _sqlite(url, pool_size)
    with requires("postgresql", "A PostgreSQL database"):
        engine = sa.create_engine(url, pool_size=pool_size, max_overflow=0, pool_use_lifo=True)
    event.listen(engine, "connect", _prepare_postgresql)
    _ping_when_idle(engine)
    return engine


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


def writer(engine: sa.Engine) -> sa.Engine:
    """Return the engine for write transactions. On SQLite they take the write lock at their start."""
    return engine.execution_options(covey_writes=True)


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


def _prepare_postgresql(connection: "psycopg.Connection", _: object) -> None:
    # A cached plan from when a table was small, even of a foreign key check, would scan the table for every row.
    # A table without a usable index is still scanned.
    connection.execute("SET enable_seqscan = off")
    connection.execute("SET jit = off")  # the high cost of a disabled scan would trigger it
    # A process that is frozen in a transaction would keep its locks, such as the topology token, for ever.
    connection.execute(f"SET idle_in_transaction_session_timeout = '{_FROZEN_S}s'")
    connection.commit()


def _ping_when_idle(engine: sa.Engine) -> None:
    """Ping a connection that was idle for a while, since it may be dead. A ping at each use would cost a round trip."""

    def note_use(_: object, record: ConnectionPoolEntry) -> None:
        record.info["used_at"] = time.monotonic()

    def ping(connection: DBAPIConnection, record: ConnectionPoolEntry, _: object) -> None:
        if time.monotonic() - record.info.get("used_at", 0.0) < _IDLE_S:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise sa.exc.InvalidatePoolError from error  # the others are as old

    event.listen(engine, "checkin", note_use)
    event.listen(engine, "checkout", ping)


def _sqlite(url: URL, pool_size: int) -> sa.Engine:
    assert url.database is not None
    _create_private(Path(url.database))
    engine = sa.create_engine(
        url,
        pool_size=pool_size,
        max_overflow=0,
        pool_use_lifo=True,  # the last connection has the warmest page cache
        connect_args={"timeout": BUSY_TIMEOUT_S, "isolation_level": None, "cached_statements": 512},
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _create_private(path: Path) -> None:
    """Create the file, and its directory, for this user alone: it holds secrets. SQLite's other files copy its mode."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(OSError):  # SQLite reports why it cannot open the file
        path.touch(mode=0o600)


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
    writes = connection.get_execution_options().get("covey_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
