"""`covey host`: hosts with agents."""

import click

from covey import bootstrap
from covey.cli.options import database_options, settings_of
from covey.cli.output import echo


@click.group()
def host() -> None:
    """Operate hosts that have agents."""


@host.command()
@click.argument("name")
@click.option("--off", "is_off", is_flag=True, help="The host is off already: run no command.")
@click.option("--evacuate", is_flag=True, help="Let workers evacuate the servers of the host.")
@database_options
def fence(name: str, is_off: bool, evacuate: bool, config_files: tuple[str, ...], database: str | None) -> None:
    """Make sure that a host runs no guests, by [agents] fence_command, and set it down.

    Its servers may then be evacuated. A host that comes back removes the guests that run elsewhere by then. Nothing
    changes if the command fails, or if the agent of the host reports after it.

    \b
    Examples:
      covey host fence hv3 --evacuate
      covey host fence hv3 --off
    """
    conf = settings_of(config_files, database).load()
    bootstrap.prepare(conf)
    servers = bootstrap.fenced_hosts(conf).fence(name, is_off=is_off, evacuate=evacuate)
    outlook = "are evacuated" if evacuate else "may be evacuated"
    echo(f"{name} is fenced and down. Servers on it, which {outlook}: {servers}.")
