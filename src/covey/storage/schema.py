"""Brings a database to the schema of this version, and tells which version it has."""

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from covey.storage.engine import writer


def upgrade(engine: sa.Engine) -> None:
    """Applies the migrations that are missing. Does nothing to a database that is up to date."""
    with writer(engine).begin() as connection:
        config = _config()
        config.attributes["connection"] = connection
        if connection.dialect.name == "postgresql":
            # Two processes that start together take turns, as SQLite's writers do anyway; the second has nothing to do.
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext('covey.schema'))"))
        command.upgrade(config, "head")


def current(engine: sa.Engine) -> str | None:
    """The database's version; None when it has no schema yet."""
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def head() -> str:
    """The version that this code wants."""
    newest = ScriptDirectory.from_config(_config()).get_current_head()
    assert newest is not None
    return newest


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config
