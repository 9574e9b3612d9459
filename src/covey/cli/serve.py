"""`covey serve`: run the service."""

import gc
import multiprocessing
import os
import resource
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

import click
import structlog
from oslo_config import cfg

from covey import bootstrap, cpu_affinity, idle_connections, logs
from covey.api import metrics
from covey.api.agent.schemas import MAX_WAIT_S
from covey.api.app import APIS
from covey.api.authentication.noauth import is_loopback
from covey.bootstrap import Settings
from covey.cli.fleet import apply_file
from covey.cli.options import database_options, settings_of
from covey.model.errors import Invalid
from covey.thread_shares import ThreadShares

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

log = structlog.get_logger()

_STARTUP_POLL_S = 0.05
_PARENT_POLL_S = 0.5
_GC_THRESHOLD = (10_000, 20, 20)  # requests create few reference cycles: collect rarely
_SHUTDOWN_TIMEOUT_S = 30  # for running requests
_CONNECTIONS = 8000  # of a process, besides those of agents that wait for calls
_OTHER_FILES = 512
_HEADER_TIMEOUT_S = 10  # also for the next request of a connection


@click.command()
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(1, 65535), help="Port to listen on.  [default: 8774]")
@click.option("--workers", type=click.IntRange(1, 64), help="Serving processes.  [default: 1]")
@click.option("--api", type=click.Choice(APIS), help="Serve only this API, at /, instead of all APIs.")
@click.option(
    "--fleet", "fleet_file", type=click.Path(exists=True, dir_okay=False), help="Apply this fleet file before serving."
)
@database_options
def serve(
    host: str | None,
    port: int | None,
    workers: int | None,
    api: str | None,
    fleet_file: str | None,
    config_files: tuple[str, ...],
    database: str | None,
) -> None:
    """Serve the APIs until SIGTERM or Ctrl-C.

    The service creates the schema of an empty database. It does not upgrade an existing one: see `covey db`.

    \b
    Example:
      covey serve --database postgresql://covey@db/covey --config-file /etc/covey/covey.conf --workers 4
    """
    options = settings_of(config_files, database, api__host=host, api__port=port, api__workers=workers)
    run(options.with_only_api(api), fleet_file)


def run(options: Settings, fleet_file: str | None = None, welcome: str = "") -> None:
    """Serve until the service is stopped. Raises Invalid for settings that cannot be served."""
    conf = options.load()
    reject_open_access(conf)
    reject_short_connections(conf)
    _reject_used_port(conf.api.host, conf.api.port)
    if conf.api.metrics_port:
        _reject_used_port(conf.api.metrics_host, conf.api.metrics_port)
    logs.configure(conf.log.level, conf.log.format)
    options = bootstrap.with_policy_file(options, conf)
    bootstrap.prepare(conf)
    if fleet_file is not None:
        apply_file(conf, fleet_file)
    # Each serving process builds its own application. This one only reports configuration errors early.
    bootstrap.wsgi(options)
    threading.Thread(target=_announce, args=(conf, welcome), name="covey-welcome", daemon=True).start()
    with _shared_metrics(conf):
        if conf.api.metrics_port:
            metrics.serve(conf.api.metrics_host, conf.api.metrics_port)
        _granian(conf, options)
    log.info("serve.stopped")


def _announce(conf: cfg.ConfigOpts, welcome: str) -> None:
    """Print the welcome text once the port accepts connections."""
    while not _accepts(conf.api.host, conf.api.port):
        time.sleep(_STARTUP_POLL_S)
    if welcome:
        click.echo(welcome)
    log.info("serve.listening", url=f"http://{conf.api.host}:{conf.api.port}", workers=conf.api.workers)


def _accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def reject_open_access(conf: cfg.ConfigOpts) -> None:
    """Raise Invalid for auth_strategy=none on an address other than loopback."""
    if conf.api.auth_strategy == "none" and not is_loopback(conf.api.host):
        raise Invalid(
            f"auth_strategy=none disables authentication and requires a loopback address, not {conf.api.host}. "
            "Use --host 127.0.0.1, or auth_strategy=basic or keystone."
        )


def reject_short_connections(conf: cfg.ConfigOpts) -> None:
    """Raise Invalid if connections would be closed while their requests are in progress."""
    longest_s = conf.scheduler.rebalance_time_limit_s
    if bootstrap.agent_polls(conf):
        longest_s = max(longest_s, MAX_WAIT_S)
    needed_s = conf.api.request_timeout_s + longest_s
    if conf.api.connection_timeout_s <= needed_s:
        raise Invalid(
            f"[api] connection_timeout_s is {conf.api.connection_timeout_s:g}, but a request may take {needed_s:g} s: "
            "[api] request_timeout_s, and [scheduler] rebalance_time_limit_s or the time that agents wait for calls. "
            "Set more than that."
        )


def _reject_used_port(host: str, port: int) -> None:
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        raise Invalid(f"Cannot listen on {host} port {port}: {error.strerror}.") from error


@contextmanager
def _shared_metrics(conf: cfg.ConfigOpts) -> Iterator[None]:
    """Provide a temporary directory in which several processes share their metrics, unless one is configured."""
    if not _shares_metrics(conf) or metrics.SHARED_DIRECTORY in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="covey-metrics-") as directory:
        os.environ[metrics.SHARED_DIRECTORY] = directory
        yield


def _shares_metrics(conf: cfg.ConfigOpts) -> bool:
    return bool(conf.api.workers > 1 or conf.api.metrics_port)


def _granian(conf: cfg.ConfigOpts, options: Settings) -> None:
    # The import starts a Rust runtime, which other commands do not need.
    from granian.constants import HTTPModes, Interfaces  # noqa: PLC0415
    from granian.http import HTTP1Settings  # noqa: PLC0415
    from granian.log import LogLevels  # noqa: PLC0415

    from covey.cli.serving_processes import PersistentServer  # noqa: PLC0415

    polls = bootstrap.agent_polls(conf)
    if _shares_metrics(conf):
        # A forked process would inherit modules that were imported before the metrics directory was set.
        multiprocessing.set_start_method("spawn", force=True)
    heartbeats, to_parent = multiprocessing.Pipe(duplex=False)
    server = PersistentServer(
        "covey",
        address=conf.api.host,
        port=conf.api.port,
        interface=Interfaces.WSGI,
        http=HTTPModes.http1,
        websockets=False,
        workers=conf.api.workers,
        blocking_threads=ThreadShares.of(conf.api.threads).threads + polls,
        backpressure=max_connections(polls),
        http1_settings=HTTP1Settings(header_read_timeout=_HEADER_TIMEOUT_S * 1000),
        log_level=LogLevels.error,
        workers_kill_timeout=_SHUTDOWN_TIMEOUT_S,
    )
    if conf.api.frozen_after_s:
        server.watch(heartbeats, conf.api.frozen_after_s)
    server.serve(target_loader=partial(_load, options, to_parent), wrap_loader=False)


def max_connections(polls: int) -> int:
    """Return how many connections a serving process accepts, which its open files limit. Raises that limit."""
    wanted = _CONNECTIONS + polls
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = wanted + _OTHER_FILES if hard == resource.RLIM_INFINITY else min(wanted + _OTHER_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    return min(wanted, max(files - _OTHER_FILES, files // 2))


def _load(options: Settings, to_parent: Connection) -> "WSGIApplication":
    """Build the application in a serving process, which ends when its parent is killed."""
    from covey.cli.serving_processes import send_heartbeats  # noqa: PLC0415

    conf = options.load()
    if conf.api.cpu_pinning:
        cpu_affinity.pin()
    threading.Thread(target=_exit_with_parent, args=(os.getppid(),), name="covey-parent", daemon=True).start()
    send_heartbeats(to_parent)
    gc.set_threshold(*_GC_THRESHOLD)
    most = max_connections(bootstrap.agent_polls(conf))
    idle_connections.watch(conf.api.port, conf.api.connection_timeout_s, most)
    return bootstrap.wsgi(options, work=True, stopping=_stop_event())


def _stop_event() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set, in addition to the server's own handlers.

    The server waits for running requests; the event ends those that stream events.
    """
    stopping, sockets = threading.Event(), socket.socketpair()
    sockets[1].setblocking(False)  # noqa: FBT003 -- its own signature
    signal.set_wakeup_fd(sockets[1].fileno())

    def listen() -> None:  # its reference to the sockets keeps them open
        while sockets[0].recv(1)[0] not in {signal.SIGTERM, signal.SIGINT}:
            pass
        stopping.set()

    threading.Thread(target=listen, name="covey-stop", daemon=True).start()
    return stopping


def _exit_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PARENT_POLL_S)
    os._exit(1)
