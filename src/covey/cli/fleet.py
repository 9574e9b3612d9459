"""`covey fleet`: the service and a fleet file."""

import sys
from itertools import islice
from pathlib import Path

import click
import msgspec
from oslo_config import cfg

from covey import bootstrap
from covey.cli.options import chooses_database, chosen
from covey.fleet_file import parse, render
from covey.model.fleet_file import FleetFile
from covey.model.fleet_plan import FleetPlan, FleetState, describe

_SHOWN = 40  # lines of a diff that a person reads


@click.group()
def fleet() -> None:
    """Make the service match a fleet file, or write one of what it has.

    A fleet file is YAML: hosts, scopes, aggregates, flavors and images. See docs/reference/fleet-file.md.
    """


@fleet.command("apply")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--prune", is_flag=True, help="Also remove what the file does not name.")
@click.option("--json", "as_json", is_flag=True, help="Write the changes as JSON.")
@chooses_database
def apply_(
    file: str, dry_run: bool, prune: bool, as_json: bool, config_files: tuple[str, ...], database: str | None
) -> None:
    """Make the service match FILE (- is standard input).

    Shows every change, makes all of them or none, and makes none when there is nothing to do. What the file
    does not name stays as it is, unless --prune is given.

    \b
    Examples:
      covey fleet apply fleet.yaml --dry-run
      covey fleet apply fleet.yaml
    """
    conf = chosen(config_files, database).load()
    bootstrap.prepare(conf)
    wanted = _read(file)
    changes = bootstrap.fleets(conf).compare(wanted, prune=prune)
    if as_json:
        click.echo(msgspec.json.encode({"changes": list(describe(changes)), "applied": not dry_run}))
    else:
        _show(changes, file)
    if changes.size and not dry_run:
        _apply(conf, wanted, changes.size, prune=prune)


@fleet.command()
@chooses_database
def export(config_files: tuple[str, ...], database: str | None) -> None:
    """Write a fleet file of what the service has; applied again, it changes nothing."""
    conf = chosen(config_files, database).load()
    bootstrap.prepare(conf)
    click.echo(render(bootstrap.fleets(conf).export()), nl=False)


def apply_file(conf: cfg.ConfigOpts, file: str) -> None:
    """Apply a fleet file without a word about each change. Raises FleetFileError, Conflict."""
    wanted = _read(file)
    size = bootstrap.fleets(conf).compare(wanted).size
    if size:
        _apply(conf, wanted, size)


def _read(file: str) -> FleetFile:
    text = sys.stdin.read() if file == "-" else Path(file).read_text()
    return parse(text, Path(file).name)


def _apply(conf: cfg.ConfigOpts, wanted: FleetFile, size: int, *, prune: bool = False) -> None:
    with click.progressbar(length=size, label="Applying the fleet file", file=sys.stderr, width=30) as bar:
        done = bootstrap.fleets(conf).apply(wanted, bar.update, prune=prune)
    click.echo(f"{done.size} changes made.", err=True)


def _show(changes: FleetPlan, file: str) -> None:
    if not changes.size:
        click.echo(f"{file}: nothing to change.", err=True)
    for line in islice(describe(changes), _SHOWN):
        click.secho(line, fg={"+": "green", "-": "red"}.get(line[0], "yellow"))
    if changes.size > _SHOWN:
        click.echo(f"… and {changes.size - _SHOWN} more (--json shows all)")
    if changes.left_alone.size:
        click.echo(f"Not in the file, and left alone: {_counts(changes.left_alone)}. (--prune removes it.)", err=True)


def _counts(state: FleetState) -> str:
    lists = {
        "hosts": state.hosts,
        "scopes": state.scopes,
        "aggregates": state.aggregates,
        "flavors": state.flavors,
        "images": state.images,
    }
    return ", ".join(f"{len(things)} {name}" for name, things in lists.items() if things)
