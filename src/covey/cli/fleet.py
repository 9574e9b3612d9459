"""`covey fleet`: apply and export fleet files."""

import sys
from itertools import islice
from pathlib import Path

import click
import msgspec
from oslo_config import cfg

from covey import bootstrap
from covey.cli.options import database_options, settings_of
from covey.cli.output import echo
from covey.fleet_file import parse, render
from covey.model.fleet_file import FleetFile
from covey.model.fleet_plan import FleetPlan, FleetState, describe

_MAX_LINES = 40  # of a diff on the terminal


@click.group()
def fleet() -> None:
    """Apply or export a fleet file.

    A fleet file is YAML with hosts, scopes, aggregates, flavors and images. See docs/reference/fleet-file.md.
    """


@fleet.command("apply")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--dry-run", is_flag=True, help="Show the changes without making them.")
@click.option("--prune", is_flag=True, help="Also remove what the file does not list.")
@click.option("--json", "as_json", is_flag=True, help="Print the changes as JSON.")
@database_options
def apply_(
    file: str, dry_run: bool, prune: bool, as_json: bool, config_files: tuple[str, ...], database: str | None
) -> None:
    """Apply FILE to the service (- is standard input).

    The command prints every change and makes all of them in one transaction. It keeps what the file does not list,
    unless --prune is given. Applying a file twice changes nothing.

    \b
    Examples:
      covey fleet apply fleet.yaml --dry-run
      covey fleet apply fleet.yaml
    """
    conf = settings_of(config_files, database).load()
    bootstrap.prepare(conf)
    desired = _read(file)
    changes = bootstrap.fleets(conf).compare(desired, prune=prune)
    if as_json:
        echo(msgspec.json.encode({"changes": list(describe(changes)), "applied": not dry_run}))
    else:
        _show(changes, file)
    if changes.size and not dry_run:
        _apply(conf, desired, changes.size, prune=prune)


@fleet.command()
@database_options
def export(config_files: tuple[str, ...], database: str | None) -> None:
    """Print a fleet file of the service's state. Applying it changes nothing."""
    conf = settings_of(config_files, database).load()
    bootstrap.prepare(conf)
    echo(render(bootstrap.fleets(conf).export()), nl=False)


def apply_file(conf: cfg.ConfigOpts, file: str) -> None:
    """Apply a fleet file without printing the changes. Raises FleetFileError, Conflict."""
    desired = _read(file)
    size = bootstrap.fleets(conf).compare(desired).size
    if size:
        _apply(conf, desired, size)


def _read(file: str) -> FleetFile:
    text = sys.stdin.read() if file == "-" else Path(file).read_text()
    return parse(text, Path(file).name)


def _apply(conf: cfg.ConfigOpts, desired: FleetFile, size: int, *, prune: bool = False) -> None:
    with click.progressbar(length=size, label="Applying the fleet file", file=sys.stderr, width=30) as bar:
        done = bootstrap.fleets(conf).apply(desired, bar.update, prune=prune)
    echo(f"{done.size} changes made.", err=True)


def _show(changes: FleetPlan, file: str) -> None:
    if not changes.size:
        echo(f"{file}: nothing to change.", err=True)
    for line in islice(describe(changes), _MAX_LINES):
        echo(line, fg={"+": "green", "-": "red"}.get(line[0], "yellow"))
    if changes.size > _MAX_LINES:
        echo(f"… and {changes.size - _MAX_LINES} more (--json shows all)")
    if changes.left_alone.size:
        echo(f"Not in the file, and kept: {_counts(changes.left_alone)}. (--prune removes it.)", err=True)


def _counts(state: FleetState) -> str:
    lists = {
        "hosts": state.hosts,
        "scopes": state.scopes,
        "aggregates": state.aggregates,
        "flavors": state.flavors,
        "images": state.images,
    }
    return ", ".join(f"{len(entries)} {name}" for name, entries in lists.items() if entries)
