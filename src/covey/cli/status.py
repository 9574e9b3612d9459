"""`covey status`: the state of the database and the fleet."""

import sys

import click
import msgspec
import sqlalchemy as sa
from oslo_config import cfg
from sqlalchemy.engine import make_url

from covey import bootstrap
from covey.cli.options import database_options, settings_of
from covey.services.overview import Overview
from covey.storage import schema
from covey.storage.engine import without_secrets


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@database_options
def status(as_json: bool, config_files: tuple[str, ...], database: str | None) -> None:
    """Show the state of the database and the fleet. Exits with status 1 on warnings."""
    conf = settings_of(config_files, database).load()
    report, warnings, overview = _report(conf)
    if as_json:
        details = _misplaced_hosts(overview) | _misplaced_servers(overview)
        click.echo(msgspec.json.encode({**report, **details, "warnings": warnings}))
    else:
        for name, value in report.items():
            click.echo(f"{name:>12}: {value}")
        for warning in warnings:
            click.secho(f"{'warning':>12}: {warning}", fg="yellow")
    sys.exit(1 if warnings else 0)


def _report(conf: cfg.ConfigOpts) -> tuple[dict[str, object], list[str], Overview | None]:
    engine = bootstrap.engine(conf)
    report: dict[str, object] = {"database": without_secrets(make_url(conf.database.connection))}
    try:
        current, required = schema.current(engine), schema.head()
    except sa.exc.DatabaseError as error:
        return report, [f"Cannot use the database: {error.orig}"], None
    report["schema"] = current or "empty"
    if current != required:
        schemas = f"The database has schema {current or 'none'}; this version requires {required}"
        return report, [f"{schemas}: run `covey db upgrade`."], None
    overview = bootstrap.overview(conf)
    return report | _numbers(overview), list(overview.warnings), overview


def _numbers(overview: Overview) -> dict[str, object]:
    return {
        "hosts": overview.hosts,
        "disabled": overview.disabled,
        "down": overview.down,
        "zones": ", ".join(f"{name} ({count})" for name, count in overview.zones) or "none",
        "aggregates": overview.aggregates,
        "scopes": ", ".join(f"{name} ({count} domains)" for name, count in overview.scopes) or "none",
        "flavors": overview.flavors,
        "images": overview.images,
    }


def _misplaced_servers(overview: Overview | None) -> dict[str, object]:
    """Return the servers that the warning counts."""
    return {
        "servers_in_forbidden_aggregates": [
            {
                "server": server.server,
                "project_id": server.project_id,
                "host": server.host,
                "aggregates": server.aggregates,
            }
            for server in (overview.misplaced_servers if overview else ())
        ]
    }


def _misplaced_hosts(overview: Overview | None) -> dict[str, object]:
    """Return the hosts that the warnings count, by scope."""
    scopes = overview.domain_problems if overview else ()
    return {
        "hosts_in_no_domain": {scope.scope: scope.no_domain for scope in scopes if scope.no_domain},
        "hosts_in_several_domains": {scope.scope: dict(scope.ambiguous) for scope in scopes if scope.ambiguous},
    }
