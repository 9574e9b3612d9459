"""`covey sync`: mirror what another service knows."""

import signal
import sys
import threading
import time
from datetime import timedelta

import click
import msgspec
import structlog
from oslo_config import cfg

from covey import bootstrap, clock_and_ids, config, logs, remote_api
from covey.cli.options import database_options, settings_of
from covey.cli.output import echo
from covey.model.errors import CoveyError
from covey.model.extras import requires
from covey.services.nova_sync import NovaSync, SyncReport
from covey.services.nova_sync.nova import Nova

log = structlog.get_logger()

_PAUSE_S = 2.0  # at least, between readings that notifications cause: a boot alone sends a dozen


@click.group()
def sync() -> None:
    """Mirror what another service knows."""


@sync.command()
@click.option(
    "--cloud", metavar="NAME", help="Cloud in clouds.yaml. [default: [nova] in covey.conf, or the OS_* variables]"
)
@click.option("--url", metavar="URL", help="Address of Nova. [default: compute in the cloud's catalogue]")
@click.option("--token", metavar="TOKEN", envvar="OS_TOKEN", help="Token for --url, in place of a cloud.")
@click.option(
    "--interval", type=click.FloatRange(min=1), default=30.0, show_default=True, help="Seconds between readings."
)
@click.option(
    "--full-interval",
    type=click.FloatRange(min=1),
    default=600.0,
    show_default=True,
    help="Seconds between readings of all servers; others read the changed ones.",
)
@click.option("--once", is_flag=True, help="Read once, then end.")
@click.option("--notifications", is_flag=True, help="Read also when Nova notifies of a change.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; with --once.")
@database_options
def nova(
    cloud: str | None,
    url: str | None,
    token: str | None,
    interval: float,
    full_interval: float,
    once: bool,
    notifications: bool,
    as_json: bool,
    config_files: tuple[str, ...],
    database: str | None,
) -> None:
    """Mirror the hosts, aggregates, flavors, servers and server groups of a Nova cloud, until SIGTERM.

    Covey never writes to Nova. What belongs to Nova is read-only in Covey. An aggregate of Nova whose metadata has
    policy_scope is a domain of that scope; scopes are managed in Covey.

    After an error the command tries again in the next interval. `covey status` shows the age of the last reading.
    """
    conf = settings_of(config_files, database).load()
    logs.configure(conf.log.level, conf.log.format)
    bootstrap.prepare(conf)
    by_options = None
    if cloud is None and token is None:
        by_options = remote_api.connect_by_options("compute", conf, config.NOVA.name, url=url)
    api = by_options or remote_api.connect("compute", cloud=cloud, url=url, token=token)
    mirror = NovaSync(bootstrap.store(conf), Nova(api), clock_and_ids.now, timedelta(seconds=full_interval))
    if once:
        _show(mirror.run(), as_json=as_json)
    else:
        _run(mirror, interval, conf if notifications else None)


def _show(report: SyncReport, *, as_json: bool) -> None:
    if as_json:
        echo(msgspec.json.encode(report))
        return
    counts = ", ".join(f"{number} {noun}" for noun, number in report.counts.items())
    echo(f"Mirrored: {counts}; {report.changes} changes.")
    for warning in report.warnings:
        echo(f"! {warning}", err=True, fg="yellow")


def _run(mirror: NovaSync, interval_s: float, conf: cfg.ConfigOpts | None) -> None:
    """Read again and again, up to SIGTERM or Ctrl-C."""
    wake, stopping = threading.Event(), threading.Event()

    def stop(*_: object) -> None:
        stopping.set()
        wake.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    if conf is not None:
        _listen(conf, wake)
    repeat(mirror, interval_s, wake, stopping)
    sys.exit(0)


def repeat(
    mirror: NovaSync, interval_s: float, wake: threading.Event, stopping: threading.Event, pause_s: float = _PAUSE_S
) -> None:
    """Read after each interval, and sooner when woken: after a pause, and one as long as the last reading."""
    while not stopping.is_set():
        wake.clear()
        begun = time.monotonic()
        _read(mirror)
        ended = time.monotonic()
        if wake.wait(interval_s):
            stopping.wait(max(pause_s, ended - begun) - (time.monotonic() - ended))


def _read(mirror: NovaSync) -> None:
    begun = time.monotonic()
    try:
        report = mirror.run()
    except CoveyError as error:
        log.warning("nova.sync_failed", code=error.code, error=error.message)
        return
    log.info("nova.synced", changes=report.changes, seconds=round(time.monotonic() - begun, 3), **report.counts)
    for warning in report.warnings:
        log.warning("nova.sync_warning", warning=warning)


def _listen(conf: cfg.ConfigOpts, wake: threading.Event) -> None:
    with requires("notifications", "--notifications"):
        from covey.notifications.messaging import listen  # noqa: PLC0415 -- optional, and slow to import
    listen(conf, wake.set)
