"""Output of commands."""

import click

from covey.model.control_characters import escape, escape_json


def echo(output: str | bytes, *, err: bool = False, nl: bool = True, fg: str | None = None) -> None:
    """Print a text, or JSON as bytes. Control characters are escaped: a name may have any that a terminal obeys."""
    shown = escape_json(output.decode()) if isinstance(output, bytes) else escape(output)
    click.secho(shown, err=err, nl=nl, fg=fg)
