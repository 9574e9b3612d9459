"""Fixtures that every kind of test may use. What needs a database runs on both."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from covey.storage import engine
from covey.storage.store import Store
from tests.databases import PostgreSQL, SQLite


@pytest.fixture(scope="session")
def sqlite_server(tmp_path_factory: pytest.TempPathFactory) -> SQLite:
    return SQLite(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgreSQL]:
    # Not below pytest's own directory, which a second run would close to the server's user.
    with tempfile.TemporaryDirectory(prefix="covey-postgresql-", ignore_cleanup_errors=True) as directory:
        server = PostgreSQL(Path(directory))
        yield server
        server.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a fresh database with the schema, once of each kind."""
    if request.param == "sqlite":
        with request.getfixturevalue("sqlite_server").fresh(tmp_path) as url:
            yield url
    else:
        with request.getfixturevalue("postgresql_server").fresh() as url:
            yield url


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    connected = engine.connect(database)
    yield Store(connected)
    connected.dispose()
