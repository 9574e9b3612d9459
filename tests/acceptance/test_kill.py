"""Load with random kills: acknowledged requests persist, others leave no trace."""

import http.client
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.acceptance import storm
from tests.acceptance.invariants import read, violations
from tests.budgets import operations
from tests.databases import PostgreSQL, SQLite

pytestmark = pytest.mark.soak

KILLS = operations(8)
CLIENTS = 8
SEED = 1848
SHORT_TIMEOUT_S = 0.02  # timeout of a client that retries early
VARIABLES = storm.settings(
    storm.HIGH_LIMITS,
    DRIVER__LATENCY_S="0.02",
    DRIVER__FAILURE_RATE="0.1",
    WORKER__LEASE_S="2",
    WORKER__POLL_INTERVAL_S="0.05",
)


class RetryingClient:
    """A client that retries unanswered requests with an idempotency key."""

    def __init__(self, load_state: storm.LoadState, ports: Sequence[int], number: int) -> None:
        self._load_state = load_state
        self._long_timeout = {project: storm.Client(ports, project) for project in storm.PROJECTS}
        self._short_timeout = {
            project: storm.Client(ports, project, timeout_s=SHORT_TIMEOUT_S) for project in storm.PROJECTS
        }
        self._asked = number
        self._rng = random.Random(SEED + number)  # noqa: S311 -- chance, not secrecy

    def send(
        self, what: str, method: str, path: str, body: object = None, *, project: str, key: str | None = None
    ) -> storm.Answer | None:
        gives_up_early = key is not None and self._rng.random() < 0.2
        deadline = time.monotonic() + storm.TIMEOUT_S
        while time.monotonic() < deadline:
            self._asked += 1
            client = (self._short_timeout if gives_up_early else self._long_timeout)[project]
            try:
                answer = client.ask(method, path, body, of=self._asked, key=key)
            except (OSError, http.client.HTTPException):
                with self._load_state.lock:
                    self._load_state.counts["unanswered"] += 1
                if key is None:
                    time.sleep(0.2)
                    return None
                time.sleep(0 if gives_up_early else 0.2)
                gives_up_early = False
            else:
                self._load_state.note(what, answer)
                if answer.status != 503 or key is None:
                    return answer
        self._load_state.failures.append(f"{what} {key}: no answer")
        return None


def client_thread(
    load_state: storm.LoadState, number: int, ports: Sequence[int], over: threading.Event
) -> Callable[[], None]:
    def run() -> None:
        random_client = storm.RandomClient(load_state, number, SEED, RetryingClient(load_state, ports, number).send)
        while not over.is_set():
            random_client.act()

    return run


def run_storm(directory: Path, database: str, processes: int) -> None:
    storm.apply_fleet(directory, database, storm.fleet_of(12, 8))
    killable = [storm.KillableProcess(directory / f"serve-{i}", database, VARIABLES) for i in range(processes)]
    ports, over, load_state = [each.port for each in killable], threading.Event(), storm.LoadState()
    with ExitStack() as stack:
        for process in killable:
            stack.callback(process.kill)
            process.start()
        load_state.create_groups(storm.Client(ports, "web"), storm.Client(ports, "db"))
        client_threads = [client_thread(load_state, number, ports, over) for number in range(CLIENTS)]
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
