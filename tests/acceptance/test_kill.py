"""Load with random kills: acknowledged requests persist, others leave no trace."""

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.acceptance import storm
from tests.acceptance.invariants import read, violations
from tests.acceptance.retries import client_thread
from tests.budgets import operations
from tests.databases import PostgreSQL, SQLite

pytestmark = pytest.mark.soak

KILLS = operations(8)
CLIENTS = 8
SEED = 1848
VARIABLES = storm.settings(
    storm.HIGH_LIMITS,
    DRIVER__LATENCY_S="0.02",
    DRIVER__FAILURE_RATE="0.1",
    WORKER__LEASE_S="2",
    WORKER__POLL_INTERVAL_S="0.05",
)


def run_storm(directory: Path, database: str, processes: int) -> None:
    storm.apply_fleet(directory, database, storm.fleet_of(12, 8))
    killable = [storm.KillableProcess(directory / f"serve-{i}", database, VARIABLES) for i in range(processes)]
    ports, over, load_state = [each.port for each in killable], threading.Event(), storm.LoadState()
    with ExitStack() as stack:
        for process in killable:
            stack.callback(process.kill)
            process.start()
        load_state.create_groups(storm.Client(ports, "web"), storm.Client(ports, "db"))
        client_threads = [client_thread(load_state, number, ports, over, SEED) for number in range(CLIENTS)]
        storm.run_concurrently(
            [*client_threads, storm.kill_at_random(killable, KILLS, (0.2, 1.5), over)], 2 * storm.TIMEOUT_S
        )
        rows = storm.connect(database)
        stack.callback(rows.dispose)
        storm.wait_until_idle(rows)
        print(dict(sorted(load_state.counts.items())), "deadlocks", storm.deadlocks(rows))  # noqa: T201
        states = [row.vm_state for row in read(rows).servers]
        print(len(load_state.booted), {state: states.count(state) for state in sorted(set(states))})  # noqa: T201
        assert load_state.failures == []
        assert storm.lost_servers(rows, load_state) == []
        assert violations(rows, idle=True) == []
        assert storm.crashes([process.log for process in killable]) == []
        assert load_state.counts["unanswered"] > 0, "no request was interrupted"
        storm.check_fleet_in_memory(rows, ports)


def test_repeated_kills_of_one_of_two_processes_lose_nothing_on_postgresql(
    tmp_path: Path, postgresql_server: PostgreSQL
) -> None:
    with postgresql_server.fresh() as database:
        run_storm(tmp_path, database, 2)


def test_repeated_kills_of_the_only_process_lose_nothing_on_sqlite(tmp_path: Path, sqlite_server: SQLite) -> None:
    with sqlite_server.fresh(tmp_path) as database:
        run_storm(tmp_path, database, 1)
