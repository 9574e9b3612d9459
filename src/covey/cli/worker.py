"""`covey worker`: run background jobs without serving the APIs."""

import signal
import threading

import click

from covey import bootstrap, logs
from covey.cli.options import database_options, settings_of


@click.command()
@click.option(
    "--threads",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Worker threads; each takes several jobs at once.",
)
@database_options
def worker(threads: int, config_files: tuple[str, ...], database: str | None) -> None:
    """Run background jobs until SIGTERM or Ctrl-C.

    `covey serve` runs jobs, too; [worker] threads=0 leaves them to processes like this one. A worker may be killed
    at any time: another one takes its unfinished jobs.
    """
    conf = settings_of(config_files, database).load()
    logs.configure(conf.log.level, conf.log.format)
    bootstrap.prepare(conf)
    loops = bootstrap.workers(conf, threads)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    threads_running = [loop.start() for loop in loops]
    stopping.wait()
    for loop in loops:
        loop.stop.set()
        loop.wake.set()
    for thread in threads_running:
        thread.join(timeout=conf.worker.lease_s)
