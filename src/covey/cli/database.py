"""`covey db`: the schema of the database."""

import click

from covey import bootstrap
from covey.cli.options import chooses_database, chosen
from covey.storage import schema


@click.group()
def db() -> None:
    """Look at the database's schema, and bring it up to date."""


@db.command()
@chooses_database
def upgrade(config_files: tuple[str, ...], database: str | None) -> None:
    """Bring the database to this version's schema.

    Safe to repeat, and safe to run from several machines at once. Stop the service first when upgrading
    across versions.
    """
    engine = bootstrap.engine(chosen(config_files, database).load())
    before = schema.current(engine)
    schema.upgrade(engine)
    click.echo(f"{before or 'empty'} -> {schema.head()}" if before != schema.head() else f"{before}: up to date")


@db.command()
@chooses_database
def current(config_files: tuple[str, ...], database: str | None) -> None:
    """Show which schema the database has, and which one this version wants."""
    engine = bootstrap.engine(chosen(config_files, database).load())
    click.echo(f"database: {schema.current(engine) or 'empty'}\nthis version: {schema.head()}")
