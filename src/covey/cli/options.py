"""Options that several commands share."""

from collections.abc import Callable
from typing import Any

import click

from covey import bootstrap
from covey.bootstrap import Settings

_FILES = click.option(
    "--config-file",
    "config_files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="Options from this file; may be repeated. Without it: ~/.covey/covey.conf, /etc/covey/covey.conf.",
)
_DATABASE = click.option(
    "--database", metavar="URL", help="sqlite:///FILE or postgresql://USER@HOST/NAME, instead of the configured one."
)


def chooses_database(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --config-file and --database."""
    return _FILES(_DATABASE(command))


def chosen(config_files: tuple[str, ...], database: str | None, **overrides: object) -> Settings:
    """What the command line says, over what the files say; overrides are named group__option."""
    named = {key: value for key, value in overrides.items() if value is not None}
    if database is not None:
        named["database__connection"] = database
    parts = ((key.partition("__"), value) for key, value in named.items())
    return Settings(
        bootstrap.absolute(config_files), tuple((group, option, value) for (group, _, option), value in parts)
    )
