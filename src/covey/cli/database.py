"""`covey db`: the schema of the database."""

import click

from covey import bootstrap
from covey.cli.options import database_options, settings_of
from covey.storage import schema


@click.group()
def db() -> None:
    """Show and upgrade the database schema."""


@db.command()
@database_options
def upgrade(config_files: tuple[str, ...], database: str | None) -> None:
    """Upgrade the database to the schema of this version.

    The command is idempotent and may run on several machines at once. Stop the service before an upgrade across
    versions.
    """
    engine = bootstrap.engine(settings_of(config_files, database).load())
    before = schema.current(engine)
    schema.upgrade(engine)
    click.echo(f"{before or 'empty'} -> {schema.head()}" if before != schema.head() else f"{before}: up to date")


@db.command()
@database_options
def current(config_files: tuple[str, ...], database: str | None) -> None:
    """Show the schema of the database, and the one that this version requires."""
    engine = bootstrap.engine(settings_of(config_files, database).load())
    click.echo(f"database: {schema.current(engine) or 'empty'}\nthis version: {schema.head()}")
