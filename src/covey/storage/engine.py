"""Connections and transactions, and the few lines where the two databases differ."""

import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from covey.model.errors import Invalid
from covey.model.extras import requires

if TYPE_CHECKING:
    import psycopg

BUSY_TIMEOUT_S = 30
_IDLE_S = 1.0
_CACHE_KIB = 16_384  # of SQLite's pages, for each connection, as far as it needs them
_LOG_PAGES = 8_192  # 32 MiB of log before it goes into the file: a page that changes often goes there less often
SUPPORTED = "Covey stores in SQLite (sqlite:///FILE) or PostgreSQL (postgresql://USER@HOST/NAME)"


def connect(database: str, *, pool_size: int = 16) -> sa.Engine:
    """An engine for a database URL; raises Invalid when the URL is none that Covey knows."""
    url = _url(database)
    if url.get_backend_name() == "sqlite":
        return _sqlite(url, pool_size)
    with requires("postgresql", "A PostgreSQL database"):
        engine = sa.create_engine(url, pool_size=pool_size, max_overflow=0, pool_use_lifo=True)
    event.listen(engine, "connect", _prepare_postgresql)
    _try_when_idle(engine)
    return engine


def reader(engine: sa.Engine) -> sa.Engine:
    """The same engine, for transactions that see one moment of the database and change nothing."""
    if engine.dialect.name == "sqlite":
        return engine  # a deferred transaction of WAL is just that
    return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


def writer(engine: sa.Engine) -> sa.Engine:
    """The same engine, for transactions that write; on SQLite they queue up at their start, not in the middle."""
    return engine.execution_options(covey_writes=True)


def _url(database: str) -> URL:
    try:
        url = make_url(database)
    except sa.exc.ArgumentError as error:
        # The URL itself is not shown: it may hold a password.
        raise Invalid(f"The database URL makes no sense. {SUPPORTED}.") from error
    match url.get_backend_name():
        case "sqlite" if url.database and url.database != ":memory:":
            return url.set(drivername="sqlite+pysqlite")
        case "postgresql":
            return url.set(drivername="postgresql+psycopg")
        case _:
            raise Invalid(f"The database {url.render_as_string(hide_password=True)!r} can't be used. {SUPPORTED}.")


def _prepare_postgresql(connection: "psycopg.Connection", _: object) -> None:
    # It keeps a plan that it made when a table was small, even for its checks of foreign keys, and would read the
    # whole of it for every row. What has no index is still read as a whole.
    connection.execute("SET enable_seqscan = off")
    connection.execute("SET jit = off")  # which a plan that is forbidden and yet needed would call for
    connection.commit()


def _try_when_idle(engine: sa.Engine) -> None:
    """A connection that nobody used for a while may have died unnoticed; to try each time would cost a round trip."""

    def note_use(_: object, record: ConnectionPoolEntry) -> None:
        record.info["used_at"] = time.monotonic()

    def try_it(connection: DBAPIConnection, record: ConnectionPoolEntry, _: object) -> None:
        if time.monotonic() - record.info.get("used_at", 0.0) < _IDLE_S:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise sa.exc.DisconnectionError from error

    event.listen(engine, "checkin", note_use)
    event.listen(engine, "checkout", try_it)


def _sqlite(url: URL, pool_size: int) -> sa.Engine:
    assert url.database is not None
    Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = sa.create_engine(
        url,
        pool_size=pool_size,
        max_overflow=0,
        pool_use_lifo=True,  # who wrote last has in memory what the file holds
        connect_args={"timeout": BUSY_TIMEOUT_S, "isolation_level": None, "cached_statements": 512},
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _: object) -> None:
    _use_wal(connection)
    wanted = {
        "synchronous": "FULL",
        "foreign_keys": "ON",
        "cache_size": -_CACHE_KIB,
        "wal_autocheckpoint": _LOG_PAGES,
        "temp_store": "MEMORY",  # what would undo a statement need not go to a file
    }
    for pragma, value in wanted.items():
        connection.execute(f"PRAGMA {pragma}={value}")


def _use_wal(connection: sqlite3.Connection) -> None:
    # Of those who open a new file together, one changes its journal, and SQLite does not let the others wait for that.
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
    # The driver's own habit is to begin at the first write, when it may be too late for a clean wait.
    writes = connection.get_execution_options().get("covey_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
