"""`covey serve`: the service itself."""

import gc
import ipaddress
import multiprocessing
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import click
import structlog
from oslo_config import cfg

from covey import bootstrap, cpu_affinity, logs
from covey.api.app import APIS
from covey.api.metrics import SHARED_DIRECTORY
from covey.bootstrap import Settings
from covey.cli.fleet import apply_file
from covey.cli.options import chooses_database, chosen
from covey.model.errors import Invalid

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

log = structlog.get_logger()

_TRY_S = 0.05  # how often it is tried whether the service answers
_LOOK_S = 0.5  # how soon a serving process notices that it is alone
_GARBAGE = (10_000, 20, 20)  # a request makes hundreds of objects and hardly any rings of them: look for those seldom
_GRACE_S = 30  # for requests under way when the service is told to stop


@click.command()
@click.option("--host", help="Listen on this address.  [127.0.0.1]")
@click.option("--port", type=click.IntRange(1, 65535), help="Listen on this port.  [8774]")
@click.option("--workers", type=click.IntRange(1, 64), help="How many processes serve requests.  [1]")
@click.option("--api", type=click.Choice(APIS), help="Serve this API alone, at /, instead of all below their paths.")
@click.option(
    "--fleet", "fleet_file", type=click.Path(exists=True, dir_okay=False), help="Apply this fleet file before serving."
)
@chooses_database
def serve(
    host: str | None,
    port: int | None,
    workers: int | None,
    api: str | None,
    fleet_file: str | None,
    config_files: tuple[str, ...],
    database: str | None,
) -> None:
    """Serve the APIs until told to stop (SIGTERM or Ctrl-C).

    An empty database gets its schema by itself; one of another version is left alone (see `covey db`).

    \b
    Example:
      covey serve --database postgresql://covey@db/covey --config-file /etc/covey/covey.conf --workers 4
    """
    options = chosen(config_files, database, api__host=host, api__port=port, api__workers=workers)
    run(options.alone(api), fleet_file)


def run(options: Settings, fleet_file: str | None = None, welcome: str = "") -> None:
    """Serve as chosen; returns when the service was told to stop. Raises Invalid for what can't be served."""
    conf = options.load()
    refuse_open_doors(conf)
    _refuse_taken_port(conf.api.host, conf.api.port)
    logs.configure(conf.log.level, conf.log.format)
    bootstrap.prepare(conf)
    if fleet_file is not None:
        apply_file(conf, fleet_file)
    # Each serving process builds its own. What keeps it from being built is told here, where a sentence is read.
    bootstrap.wsgi(options)
    threading.Thread(target=_tell_when_up, args=(conf, welcome), name="covey-welcome", daemon=True).start()
    with _shared_metrics(conf.api.workers):
        _granian(conf, options)
    log.info("serve.stopped")


def _tell_when_up(conf: cfg.ConfigOpts, welcome: str) -> None:
    """Whoever reads it tries it at once."""
    while not _answers(conf.api.host, conf.api.port):
        time.sleep(_TRY_S)
    if welcome:
        click.echo(welcome)
    log.info("serve.listening", url=f"http://{conf.api.host}:{conf.api.port}", workers=conf.api.workers)


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def refuse_open_doors(conf: cfg.ConfigOpts) -> None:
    """Without identities, only this machine may ask. Raises Invalid."""
    if conf.api.auth_strategy == "none" and not _is_loopback(conf.api.host):
        raise Invalid(
            f"auth_strategy=none believes everybody, so it serves on loopback only, not on {conf.api.host}. "
            "Use --host 127.0.0.1, or auth_strategy basic or keystone."
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _refuse_taken_port(host: str, port: int) -> None:
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        raise Invalid(f"Covey can't listen on {host}, port {port}: {error.strerror}.") from error


@contextmanager
def _shared_metrics(workers: int) -> Iterator[None]:
    """Where several processes leave their numbers for each other; it goes when they do, unless others chose it."""
    if workers == 1 or SHARED_DIRECTORY in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="covey-metrics-") as directory:
        os.environ[SHARED_DIRECTORY] = directory
        yield


def _granian(conf: cfg.ConfigOpts, options: Settings) -> None:
    # Imported late: it starts a Rust runtime, which no other command needs.
    from granian import Granian  # noqa: PLC0415
    from granian.constants import HTTPModes, Interfaces  # noqa: PLC0415
    from granian.log import LogLevels  # noqa: PLC0415

    if conf.api.workers > 1:
        # A forked process would keep what was imported here, before it was known where metrics are shared.
        multiprocessing.set_start_method("spawn", force=True)
    Granian(
        "covey",
        address=conf.api.host,
        port=conf.api.port,
        interface=Interfaces.WSGI,
        http=HTTPModes.http1,
        websockets=False,
        workers=conf.api.workers,
        blocking_threads=conf.api.threads,
        log_level=LogLevels.error,
        respawn_failed_workers=True,
        workers_kill_timeout=_GRACE_S,
    ).serve(target_loader=partial(_load, options, stays=conf.api.cpu_pinning), wrap_loader=False)


def _load(options: Settings, *, stays: bool) -> "WSGIApplication":
    """Runs in each serving process, which ends when the one that watches over it was killed."""
    if stays:
        cpu_affinity.pin()
    threading.Thread(target=_end_with, args=(os.getppid(),), name="covey-parent", daemon=True).start()
    gc.set_threshold(*_GARBAGE)
    return bootstrap.wsgi(options, work=True, stopping=_told_to_stop())


def _told_to_stop() -> threading.Event:
    """Set as soon as this process gets SIGTERM or SIGINT, whoever handles the signal.

    The server waits for requests that are under way; those that just wait for news have to know that it does.
    """
    told, heard = threading.Event(), socket.socketpair()
    heard[1].setblocking(False)  # noqa: FBT003 -- its own signature
    signal.set_wakeup_fd(heard[1].fileno())

    def listen() -> None:
        while heard[0].recv(1)[0] not in {signal.SIGTERM, signal.SIGINT}:
            pass
        told.set()

    threading.Thread(target=listen, name="covey-stop", daemon=True).start()
    return told


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os._exit(1)
