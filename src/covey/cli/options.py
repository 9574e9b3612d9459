"""Options that several commands share."""

from collections.abc import Callable
from typing import Any

import click

from covey import bootstrap
from covey.bootstrap import Settings
from covey.cli.config_files import config_files_option

_DATABASE = click.option(
    "--database",
    metavar="URL",
    help="Database URL, sqlite:///FILE or postgresql://USER@HOST/NAME; overrides [database] connection.",
)


def database_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --config-file and --database to a command."""
    return config_files_option(_DATABASE(command))


def settings_of(config_files: tuple[str, ...], database: str | None, **overrides: object) -> Settings:
    """Return the settings of the files, overridden by the command line; overrides are named group__option."""
    named = {key: value for key, value in overrides.items() if value is not None}
    if database is not None:
        named["database__connection"] = database
    parts = ((key.partition("__"), value) for key, value in named.items())
    return Settings(
        bootstrap.absolute_paths(config_files), tuple((group, option, value) for (group, _, option), value in parts)
    )
