"""Fixtures of the contract tests: fast databases, and an engine below the store."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa

from covey.storage import engine, tables
from tests.databases import PostgreSQL, SQLite


@pytest.fixture(scope="session")
def postgresql_database(postgresql_server: PostgreSQL) -> Iterator[str]:
    with postgresql_server.fresh() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, sqlite_server: SQLite, tmp_path: Path) -> Iterator[str]:
    """Yield the URL of a database with the schema and no rows; PostgreSQL reuses one emptied database."""
    if request.param == "sqlite":
        with sqlite_server.fresh(tmp_path) as url:
            yield url
    else:
        url = request.getfixturevalue("postgresql_database")
        _wipe(url)
        yield url


@pytest.fixture
def connected(database: str) -> Iterator[sa.Engine]:
    """A separate engine on the database of `store`."""
    made = engine.connect(database)
    yield made
    made.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without a schema."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.sqlite'}"
    else:
        with request.getfixturevalue("postgresql_server").fresh() as url:
            _drop_everything(url)
            yield url


def _wipe(url: str) -> None:
    made = engine.connect(url)
    with made.begin() as connection:
        for table in reversed(tables.metadata.sorted_tables):
            if table is not tables.topology:
                connection.execute(sa.delete(table))
        connection.execute(sa.update(tables.topology).values(token=str(uuid4()), trimmed_to=0))
    made.dispose()


def _drop_everything(url: str) -> None:
    made = engine.connect(url)
    with made.begin() as connection:
        connection.execute(sa.text("DROP SCHEMA public CASCADE"))
        connection.execute(sa.text("CREATE SCHEMA public"))
    made.dispose()
