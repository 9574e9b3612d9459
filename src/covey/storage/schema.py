"""Upgrades a database to this version's schema, and reads the version that it has."""

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from covey.storage.engine import writer


def upgrade(engine: sa.Engine, revision: str = "head") -> None:
    """Apply the missing migrations up to the revision. A database that is up to date stays as it is."""
    with writer(engine).begin() as connection:
        config = _config()
        config.attributes["connection"] = connection
        if connection.dialect.name == "postgresql":
            # Processes that start together upgrade one after the other, as SQLite's writers always do.
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext('covey.schema'))"))
        command.upgrade(config, revision)


def current(engine: sa.Engine) -> str | None:
    """Return the database's schema version; None for a database without a schema."""
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def head() -> str:
    """Return the schema version that this code needs."""
    newest = ScriptDirectory.from_config(_config()).get_current_head()
    assert newest is not None
    return newest


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config
