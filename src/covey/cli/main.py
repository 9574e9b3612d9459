"""The `covey` command: one file for each noun, gathered here."""

import sys
from typing import NoReturn

import click
import sqlalchemy as sa
from oslo_config import cfg

from covey.cli.database import db
from covey.cli.demo import demo
from covey.cli.fleet import fleet
from covey.cli.manage import manage
from covey.cli.samples import config, policy
from covey.cli.serve import serve
from covey.cli.simulate import simulate
from covey.cli.status import status
from covey.cli.users import user
from covey.cli.worker import worker
from covey.fleet_file import FleetFileError
from covey.model.errors import CoveyError

_EPILOG = """\b
Start here:
  covey demo                      a small cloud of 24 hosts to play with
  covey config sample             every option, with its help
  covey serve --fleet fleet.yaml  the real thing
"""


@click.group(epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="covey")
def covey() -> None:
    """Covey keeps servers together, or apart, on purpose.

    A placement service for OpenStack-style clouds: it decides where each server goes, proves the decision
    in its database, and explains every refusal.
    """


for command in (serve, worker, demo, db, fleet, simulate, manage, status, config, policy, user):
    covey.add_command(command)


def main() -> None:
    """Run the command; expected trouble ends with a sentence and status 1, not with a stack trace."""
    try:
        covey()
    except CoveyError as error:
        _end(f"Error: {error.message}")
    except FleetFileError as error:
        _end(f"{error}\n\n{len(error.problems)} to put right; nothing was changed.")
    except sa.exc.DatabaseError as error:
        _end(f"Error: The database can't be used: {error.orig}")
    except (cfg.Error, OSError) as error:
        _end(f"Error: {error}")


def _end(sentence: str) -> NoReturn:
    click.echo(sentence, err=True)
    sys.exit(1)
