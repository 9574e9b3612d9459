"""`covey status`: is everything as it should be?"""

import sys

import click
import msgspec
import sqlalchemy as sa
from oslo_config import cfg
from sqlalchemy.engine import make_url

from covey import bootstrap
from covey.cli.options import chooses_database, chosen
from covey.services.overview import Overview
from covey.storage import schema


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@chooses_database
def status(as_json: bool, config_files: tuple[str, ...], database: str | None) -> None:
    """Show the state of the database and the fleet. Ends with status 1 when something wants attention."""
    conf = chosen(config_files, database).load()
    report, warnings, seen = _report(conf)
    if as_json:
        click.echo(msgspec.json.encode({**report, **_misplaced(seen), **_astray(seen), "warnings": warnings}))
    else:
        for name, value in report.items():
            click.echo(f"{name:>12}: {value}")
        for warning in warnings:
            click.secho(f"{'attention':>12}: {warning}", fg="yellow")
    sys.exit(1 if warnings else 0)


def _report(conf: cfg.ConfigOpts) -> tuple[dict[str, object], list[str], Overview | None]:
    engine = bootstrap.engine(conf)
    report: dict[str, object] = {"database": make_url(conf.database.connection).render_as_string(hide_password=True)}
    try:
        have, want = schema.current(engine), schema.head()
    except sa.exc.DatabaseError as error:
        return report, [f"The database can't be used: {error.orig}"], None
    report["schema"] = have or "empty"
    if have != want:
        warning = f"The database has schema {have or 'none'}, this version wants {want}: run `covey db upgrade`."
        return report, [warning], None
    seen = bootstrap.overview(conf)
    return report | _facts(seen), list(seen.warnings), seen


def _facts(seen: Overview) -> dict[str, object]:
    return {
        "hosts": seen.hosts,
        "disabled": seen.disabled,
        "down": seen.down,
        "zones": ", ".join(f"{name} ({count})" for name, count in seen.zones) or "none",
        "aggregates": seen.aggregates,
        "scopes": ", ".join(f"{name} ({count} domains)" for name, count in seen.scopes) or "none",
        "flavors": seen.flavors,
        "images": seen.images,
    }


def _astray(seen: Overview | None) -> dict[str, object]:
    """All servers that the warning only counts."""
    return {
        "servers_in_forbidden_aggregates": [
            {"server": each.server, "project_id": each.project_id, "host": each.host, "aggregates": each.aggregates}
            for each in (seen.misplaced_servers if seen else ())
        ]
    }


def _misplaced(seen: Overview | None) -> dict[str, object]:
    """All hosts that the warnings only count, by scope."""
    found = seen.domain_problems if seen else ()
    return {
        "hosts_in_no_domain": {each.scope: each.no_domain for each in found if each.no_domain},
        "hosts_in_several_domains": {each.scope: dict(each.ambiguous) for each in found if each.ambiguous},
    }
