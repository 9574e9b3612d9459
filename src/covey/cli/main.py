"""The `covey` command: one file for each noun, gathered here."""

import sys
from importlib import import_module
from typing import NoReturn

import click

_EPILOG = """\b
Start here:
  covey demo                      a small cloud of 24 hosts to play with
  covey config sample             every option, with its help
  covey serve --fleet fleet.yaml  the real thing
"""
# In which module each command is, and what it is for.
COMMANDS = {
    "serve": ("covey.cli.serve", "Serve the APIs until told to stop."),
    "worker": ("covey.cli.worker", "Carry out committed work, on a machine that serves nothing."),
    "demo": ("covey.cli.demo", "Run a small cloud of 24 simulated hosts, to try things."),
    "db": ("covey.cli.database", "Look at the database's schema, and bring it up to date."),
    "fleet": ("covey.cli.fleet", "Make the service match a fleet file, or write one of what it has."),
    "simulate": ("covey.cli.simulate", "Replay boots, deletes and failures on a fleet, with plots."),
    "manage": ("covey.cli.manage", "Put right what outside hands did to the database."),
    "status": ("covey.cli.status", "Show the state of the database and the fleet."),
    "config": ("covey.cli.samples", "The options: covey.conf."),
    "policy": ("covey.cli.samples", "Who may do what: policy.yaml."),
    "user": ("covey.cli.users", "The users file of auth_strategy=basic."),
}


class _Commands(click.Group):
    """Commands that are imported when they are needed: most of the service takes long to import."""

    def list_commands(self, _: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(COMMANDS[name][0]), name)
        return command

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, purpose) for name, (_, purpose) in COMMANDS.items()])


@click.group(
    cls=_Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="covey")
def covey() -> None:
    """Covey keeps servers together, or apart, on purpose.

    A placement service for OpenStack-style clouds: it decides where each server goes, proves the decision
    in its database, and explains every refusal.
    """


def main() -> None:
    """Run the command; expected trouble ends with a sentence and status 1, not with a stack trace."""
    try:
        covey()
    except Exception as error:
        sentence = _sentence_about(error)
        if sentence is None:
            raise
        _end(sentence)


def _sentence_about(error: Exception) -> str | None:
    """What to tell about trouble that was to be expected. Whatever made it has imported these already."""
    import sqlalchemy as sa  # noqa: PLC0415
    from oslo_config import cfg  # noqa: PLC0415

    from covey.fleet_file import FleetFileError  # noqa: PLC0415
    from covey.model.errors import CoveyError  # noqa: PLC0415

    match error:
        case CoveyError():
            return f"Error: {error.message}"
        case FleetFileError():
            return f"{error}\n\n{len(error.problems)} to put right; nothing was changed."
        case sa.exc.DatabaseError():
            return f"Error: The database can't be used: {error.orig}"
        case cfg.Error() | OSError():
            return f"Error: {error}"
        case _:
            return None


def _end(sentence: str) -> NoReturn:
    click.echo(sentence, err=True)
    sys.exit(1)
