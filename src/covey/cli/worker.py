"""`covey worker`: carries out what was decided, on a machine of its own."""

import signal
import threading

import click

from covey import bootstrap, logs
from covey.cli.options import chooses_database, chosen


@click.command()
@click.option("--threads", type=click.IntRange(1, 64), default=1, show_default=True, help="How many jobs at once.")
@chooses_database
def worker(threads: int, config_files: tuple[str, ...], database: str | None) -> None:
    """Carry out committed work until told to stop (SIGTERM or Ctrl-C).

    `covey serve` does so by itself; set [worker] threads to 0 there to leave it to processes like this one. A
    worker may be killed at any time: what it did not finish, another takes on.
    """
    conf = chosen(config_files, database).load()
    logs.configure(conf.log.level, conf.log.format)
    bootstrap.prepare(conf)
    loops = bootstrap.workers(conf, threads)
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    running = [loop.start() for loop in loops]
    told.wait()
    for loop in loops:
        loop.stop.set()
        loop.wake.set()
    for thread in running:
        thread.join(timeout=conf.worker.lease_s)
