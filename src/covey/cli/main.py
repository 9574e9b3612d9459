"""The `covey` command and its subcommands."""

import sys
from importlib import import_module
from typing import NoReturn

import click

from covey.cli.output import echo

_EPILOG = """\b
Start here:
  covey demo                      run a demo with 24 simulated hosts
  covey config sample             print every option with its help
  covey serve --fleet fleet.yaml  run the service
"""
# The module and the summary of each command.
COMMANDS = {
    "serve": ("covey.cli.serve", "Serve the APIs."),
    "worker": ("covey.cli.worker", "Run background jobs without serving the APIs."),
    "agent": ("covey.cli.agent", "Run the servers of one host."),
    "demo": ("covey.cli.demo", "Run a demo cloud with 24 simulated hosts."),
    "db": ("covey.cli.database", "Show and upgrade the database schema."),
    "fleet": ("covey.cli.fleet", "Apply or export a fleet file."),
    "adopt": ("covey.cli.adopt", "Copy the data of another Placement service."),
    "sync": ("covey.cli.sync", "Mirror what Nova knows."),
    "simulate": ("covey.cli.simulate", "Replay a workload on a fleet, with what-ifs and plots."),
    "manage": ("covey.cli.manage", "Repair inconsistencies in the database."),
    "host": ("covey.cli.hosts", "Fence a host that has an agent."),
    "status": ("covey.cli.status", "Show the state of the database and the fleet."),
    "config": ("covey.cli.samples", "Print a sample covey.conf."),
    "policy": ("covey.cli.samples", "Print a sample policy.yaml."),
    "user": ("covey.cli.users", "Manage the users file of auth_strategy=basic."),
}


class _Commands(click.Group):
    """Imports a command when it is used, since most of the service is slow to import."""

    def list_commands(self, _: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(COMMANDS[name][0]), name)
        return command

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


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
    """Run the command. An expected error prints a message and exits with status 1, without a stack trace."""
    try:
        covey()
    except Exception as error:
        message = _message(error)
        if message is None:
            raise
        _exit(message)


def _message(error: Exception) -> str | None:
    """Return the message of an expected error, or None. The code that raised it has imported these modules."""
    import sqlalchemy as sa  # noqa: PLC0415
    from oslo_config import cfg  # noqa: PLC0415

    from covey.fleet_file import FleetFileError  # noqa: PLC0415
    from covey.model.errors import CoveyError  # noqa: PLC0415

    match error:
        case CoveyError():
            return f"Error: {error.message}"
        case FleetFileError():
            return f"{error}\n\nProblems: {len(error.problems)}. Nothing was changed."
        case sa.exc.DatabaseError():
            return f"Error: Cannot use the database: {error.orig}"
        case cfg.Error() | OSError():
            return f"Error: {error}"
        case _:
            return None


def _exit(message: str) -> NoReturn:
    echo(message, err=True)
    sys.exit(1)
