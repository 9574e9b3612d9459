"""`covey status`: the state of the database and the fleet."""

import sys
from collections import Counter

import click
import msgspec
import sqlalchemy as sa
from oslo_config import cfg
from sqlalchemy.engine import make_url

from covey import bootstrap, clock_and_ids
from covey.access import OsloAccess
from covey.cli.options import database_options, settings_of
from covey.cli.output import echo
from covey.model.errors import Invalid
from covey.services.overview import Overview
from covey.storage import schema
from covey.storage.engine import without_secrets

_MAX_LAG_S = 900  # of the mirror of Nova


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@database_options
def status(as_json: bool, config_files: tuple[str, ...], database: str | None) -> None:
    """Show the state of the database and the fleet. Exits with status 1 on warnings."""
    conf = settings_of(config_files, database).load()
    report, warnings, overview = _report(conf)
    if as_json:
        details = _misplaced_hosts(overview) | _misplaced_servers(overview) | _missing_domains(overview)
        details |= _violations(overview) | _parked_jobs(overview) | _agents(overview)
        echo(msgspec.json.encode({**report, **details, "warnings": warnings}))
    else:
        for name, value in report.items():
            echo(f"{name:>12}: {value}")
        for warning in warnings:
            echo(f"{'warning':>12}: {warning}", fg="yellow")
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
    return (
        report | _numbers(overview),
        [*_problems_of_rules(conf), *overview.warnings, *_outdated_mirror(overview)],
        overview,
    )


def _problems_of_rules(conf: cfg.ConfigOpts) -> list[str]:
    try:
        OsloAccess(conf)
    except Invalid as error:
        return [f"{error.message} A running service keeps the rules that it read before."]
    return []


def _numbers(overview: Overview) -> dict[str, object]:
    return {
        "hosts": overview.hosts,
        "disabled": overview.disabled,
        "down": overview.down,
        "zones": ", ".join(f"{name} ({count})" for name, count in overview.zones) or "none",
        "agents": _agent_counts(overview),
        "migrations": len(overview.migrations),
        "aggregates": overview.aggregates,
        "scopes": ", ".join(f"{name} ({count} domains)" for name, count in overview.scopes) or "none",
        "flavors": overview.flavors,
        "images": overview.images,
        "groups": _groups(overview),
        **_nova(overview),
    }


def _outdated_mirror(overview: Overview) -> list[str]:
    """Return a warning if Nova was not read for long. A reading that fails has its own."""
    lag_s = overview.nova.lag_s(clock_and_ids.now()) if overview.nova and not overview.nova.error else None
    if lag_s is None or lag_s < _MAX_LAG_S:
        return []
    return [f"Nova was last read {lag_s / 60:.0f} minutes ago: is `covey sync nova` running?"]


def _nova(overview: Overview) -> dict[str, object]:
    """Return the age of what Covey knows of Nova, where it is mirrored."""
    if overview.nova is None:
        return {}
    lag_s = overview.nova.lag_s(clock_and_ids.now())
    read = "never read" if lag_s is None else f"read {lag_s:.0f} s ago"
    disabled, down = sum(node.disabled for node in overview.nodes), sum(not node.up for node in overview.nodes)
    return {
        "nova": f"{overview.nova.url}, {read}",
        "nova hosts": f"{len(overview.nodes)} ({disabled} disabled, {down} down)",
        "nova servers": overview.instances,
    }


def _groups(overview: Overview) -> str:
    violating = len({group for group, _ in overview.violations})
    return f"{overview.groups} ({violating} with violations)" if violating else str(overview.groups)


def _agent_counts(overview: Overview) -> str:
    counts = Counter(agent.state for agent in overview.agents)
    return ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "none"


def _agents(overview: Overview | None) -> dict[str, object]:
    return {
        "agents_by_host": {
            agent.host_name: {
                "state": agent.state,
                "heartbeat_age_s": round(agent.heartbeat_age_s, 1),
                "hypervisor": agent.hypervisor,
                "version": agent.version,
                "fenced_at": agent.fenced_at,
            }
            for agent in (overview.agents if overview else ())
        },
        "running_migrations": list(overview.migrations if overview else ()),
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


def _missing_domains(overview: Overview | None) -> dict[str, object]:
    """Return the policies that the warning counts."""
    found = overview.missing_domains if overview else ()
    return {"policies_of_missing_domains": [{"server_group": group, "policy": policy} for group, policy in found]}


def _violations(overview: Overview | None) -> dict[str, object]:
    """Return the violations of hard policies."""
    found = overview.violations if overview else ()
    return {"violations": [{"server_group": group, "violation": sentence} for group, sentence in found]}


def _parked_jobs(overview: Overview | None) -> dict[str, object]:
    return {"parked_jobs": list(overview.parked_jobs if overview else ())}


def _misplaced_hosts(overview: Overview | None) -> dict[str, object]:
    """Return the hosts that the warnings count, by scope."""
    scopes = overview.domain_problems if overview else ()
    return {
        "hosts_in_no_domain": {scope.scope: scope.no_domain for scope in scopes if scope.no_domain},
        "hosts_in_several_domains": {scope.scope: dict(scope.ambiguous) for scope in scopes if scope.ambiguous},
    }
