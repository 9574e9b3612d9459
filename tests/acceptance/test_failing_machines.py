"""Load while a process is frozen in a claim, processes die, and PostgreSQL freezes: all is answered, and goes on."""

import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.acceptance import storm
from tests.acceptance.invariants import violations
from tests.acceptance.processes import is_healthy, listening
from tests.acceptance.retries import client_thread
from tests.budgets import is_whole, operations
from tests.postgresql_cluster import Cluster

pytestmark = pytest.mark.soak

CLIENTS = 8
MANY_CLIENTS = 100  # more than a process has threads
KILLS = operations(30)
KILL_INTERVAL_S = 2.0
OUTAGE_S = operations(20)
ANSWER_S = 10.0  # the longest time to a response that is promised
BOUND_S = ANSWER_S if is_whole() else 3 * ANSWER_S  # CI shares its machine; a wait without a limit takes longer
SEED = 1861
VARIABLES = storm.settings(
    storm.HIGH_LIMITS, DRIVER__LATENCY_S="0.01", WORKER__LEASE_S="4", WORKER__POLL_INTERVAL_S="0.05"
)
SERVERS = "/compute/v2.1/servers"
IN_CLAIM = sa.text("""
    SELECT count(*) FROM pg_stat_activity s
    WHERE s.datname = current_database() AND s.state LIKE 'idle in transaction%'
        AND clock_timestamp() - s.state_change > interval '250 ms'
        AND EXISTS (SELECT 1 FROM pg_locks l WHERE l.pid = s.pid AND l.mode = 'RowExclusiveLock')
""")


@contextmanager
def services(directory: Path, database: str, workers: int, number: int) -> Iterator[list[storm.KillableProcess]]:
    storm.apply_fleet(directory, database, storm.fleet_of(12, 40))
    started = [
        storm.KillableProcess(directory / f"serve-{i}", database, VARIABLES, workers=workers) for i in range(number)
    ]
    with ExitStack() as stack:
        for service in started:
            stack.callback(service.kill)
            service.start()
        yield started


def run_storm(ports: list[int], trouble: Callable[[], None], clients: int = CLIENTS) -> storm.LoadState:
    """Send requests while the trouble runs. Returns what was answered."""
    load_state, over = storm.LoadState(), threading.Event()
    load_state.create_groups(storm.Client(ports, "web"), storm.Client(ports, "db"))

    def cause() -> None:
        try:
            time.sleep(2)
            trouble()
            time.sleep(2)
        finally:
            over.set()

    threads = [client_thread(load_state, number, ports, over, SEED) for number in range(clients)]
    storm.run_concurrently([*threads, cause], 5 * storm.TIMEOUT_S)
    return load_state


def check(database: str, started: list[storm.KillableProcess], load_state: storm.LoadState, what: str) -> None:
    for service in started:
        storm.wait_until(lambda service=service: is_healthy(service.port), f"{service.port} answers")  # type: ignore[misc]
    client = storm.Client([service.port for service in started])
    for number in range(len(started)):
        answer = client.ask("POST", SERVERS, storm.boot_body(f"after{number}"), of=number)
        assert answer.status == 202, answer
    rows = storm.connect(database)
    storm.wait_until_idle(rows)
    print(what, f"slowest response {load_state.slowest_s:.1f} s", dict(sorted(load_state.counts.items())))  # noqa: T201
    assert load_state.failures == []
    assert load_state.slowest_s < BOUND_S
    assert load_state.longest_wait_s < BOUND_S  # also for a reset, by a client that does not give up
    assert storm.lost_servers(rows, load_state) == []
    assert violations(rows, idle=True) == []
    assert storm.crashes([service.log for service in started]) == []
    rows.dispose()


def freeze_in_a_claim(service: storm.KillableProcess, rows: sa.Engine, over: threading.Event) -> None:
    """Freeze the serving process at a moment at which it holds the locks of a claim."""
    numbers = itertools.count(1)

    def claim() -> None:
        client = storm.Client([service.port], "web", timeout_s=5)
        while not over.is_set():
            with suppress(OSError, HTTPException):
                client.ask("POST", SERVERS, storm.boot_body(f"frozen{next(numbers)}", min_count=8, max_count=8))

    for _ in range(3):
        threading.Thread(target=claim, daemon=True).start()
    for _ in range(200):
        for pid in service.serving():
            os.kill(pid, signal.SIGSTOP)
        time.sleep(0.3)
        with rows.connect() as connection:
            if connection.execute(IN_CLAIM).scalar_one():
                return
        for pid in service.serving():
            os.kill(pid, signal.SIGCONT)
        time.sleep(0.02)
    raise AssertionError("no claim was under way")


def test_other_processes_serve_while_one_is_frozen_in_a_claim(tmp_path: Path, cluster: Cluster) -> None:
    with cluster.fresh() as database, services(tmp_path, database, 1, 2) as started:
        frozen, asked = started
        rows, over = storm.connect(database), threading.Event()

        def freeze() -> None:
            freeze_in_a_claim(frozen, rows, over)
            time.sleep(OUTAGE_S)  # the others get what it holds, while it is still frozen
            boot = storm.boot_body("thawing")
            storm.wait_until(lambda: storm.Client([asked.port]).ask("POST", SERVERS, boot).status == 202, "a boot")
            over.set()
            for pid in frozen.serving():
                os.kill(pid, signal.SIGCONT)

        load_state = run_storm([asked.port], freeze)
        check(database, started, load_state, "frozen in a claim:")
        rows.dispose()


def test_service_continues_while_its_processes_are_killed(tmp_path: Path, cluster: Cluster) -> None:
    with cluster.fresh() as database, services(tmp_path, database, 3, 1) as started:
        rng = random.Random(SEED)  # noqa: S311 -- chance, not secrecy

        def kill() -> None:
            for _ in range(KILLS):
                if pids := started[0].serving():
                    with suppress(ProcessLookupError):
                        os.kill(rng.choice(pids), signal.SIGKILL)
                time.sleep(KILL_INTERVAL_S)

        load_state = run_storm([started[0].port], kill)
        check(database, started, load_state, f"{KILLS} kills:")
        storm.wait_until(lambda: len(started[0].serving()) == 3, "all processes run")


def test_service_continues_while_one_of_its_processes_is_frozen_in_a_claim(tmp_path: Path, cluster: Cluster) -> None:
    """The kernel gives it a share of the requests, until its parent replaces it."""
    with cluster.fresh() as database, services(tmp_path, database, 2, 1) as started:
        (service,) = started

        def freeze() -> None:
            for _ in range(operations(3)):
                storm.wait_until(lambda: listening(service.port) == 2, "both processes listen")
                time.sleep(1)  # each has sent a heartbeat
                os.kill(frozen := service.serving()[-1], signal.SIGSTOP)
                storm.wait_until(lambda frozen=frozen: frozen not in service.serving(), "the frozen process ends")  # type: ignore[misc]

        load_state = run_storm([service.port], freeze)
        check(database, started, load_state, "one of two processes frozen:")


def test_every_request_is_answered_while_postgresql_is_stopped(tmp_path: Path, cluster: Cluster) -> None:
    with cluster.fresh() as database, services(tmp_path, database, 2, 1) as started:

        def stop() -> None:
            cluster.stop()
            time.sleep(OUTAGE_S)
            cluster.start()

        load_state = run_storm([started[0].port], stop, MANY_CLIENTS)
        check(database, started, load_state, f"PostgreSQL stopped for {OUTAGE_S} s:")
        assert load_state.counts["503"] > 0


def test_every_request_is_answered_while_postgresql_is_frozen(tmp_path: Path, cluster: Cluster) -> None:
    with cluster.fresh() as database, services(tmp_path, database, 2, 1) as started:
        live: list[float] = []

        def freeze() -> None:
            cluster.freeze()
            try:
                client, until = storm.Client([started[0].port]), time.monotonic() + OUTAGE_S
                while time.monotonic() < until:
                    answer = client.ask("GET", "/healthcheck/live")
                    assert answer.status == 200
                    live.append(answer.seconds)
                    time.sleep(0.2)
                assert client.ask("GET", "/healthcheck").status == 503
            finally:
                cluster.go_on()

        load_state = run_storm([started[0].port], freeze)
        print(f"/healthcheck/live: slowest {1000 * max(live):.0f} ms")  # noqa: T201
        check(database, started, load_state, f"PostgreSQL frozen for {OUTAGE_S} s:")
        assert load_state.counts["503"] > 0
