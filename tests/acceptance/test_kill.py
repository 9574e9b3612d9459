"""The storm with random kills: acknowledged requests persist, others leave no trace."""

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
HASTE_S = 0.02  # a client's timeout before it retries
VARIABLES = storm.settings(
    storm.PLENTY,
    DRIVER__LATENCY_S="0.02",
    DRIVER__FAILURE_RATE="0.1",
    WORKER__LEASE_S="2",
    WORKER__POLL_INTERVAL_S="0.05",
)


class Stubborn:
    """A client that may get no answer, and retries requests with an idempotency key."""

    def __init__(self, town: storm.Town, ports: Sequence[int], number: int) -> None:
        self._town = town
        self._patient = {project: storm.Client(ports, project) for project in storm.PROJECTS}
        self._hasty = {project: storm.Client(ports, project, timeout_s=HASTE_S) for project in storm.PROJECTS}
        self._asked = number
        self._dice = random.Random(SEED + number)  # noqa: S311 -- chance, not secrecy

    def say(
        self, what: str, method: str, path: str, body: object = None, *, project: str, key: str | None = None
    ) -> storm.Answer | None:
        impatient = key is not None and self._dice.random() < 0.2
        deadline = time.monotonic() + storm.PATIENCE_S
        while time.monotonic() < deadline:
            self._asked += 1
            client = (self._hasty if impatient else self._patient)[project]
            try:
                answer = client.ask(method, path, body, of=self._asked, key=key)
            except (OSError, http.client.HTTPException):
                with self._town.lock:
                    self._town.tally["unanswered"] += 1
                if key is None:
                    time.sleep(0.2)
                    return None
                time.sleep(0 if impatient else 0.2)
                impatient = False
            else:
                self._town.note(what, answer)
                if answer.status != 503 or key is None:
                    return answer
        self._town.wrong.append(f"{what} {key}: no answer")
        return None


def resident(town: storm.Town, number: int, ports: Sequence[int], over: threading.Event) -> Callable[[], None]:
    def run() -> None:
        me = storm.Resident(town, number, SEED, Stubborn(town, ports, number).say)
        while not over.is_set():
            me.act()

    return run


def blow(directory: Path, database: str, processes: int) -> None:
    storm.apply_fleet(directory, database, storm.fleet_of(12, 8))
    mortals = [storm.Mortal(directory / f"serve-{i}", database, VARIABLES) for i in range(processes)]
    ports, over, town = [each.port for each in mortals], threading.Event(), storm.Town()
    with ExitStack() as stack:
        for mortal in mortals:
            stack.callback(mortal.kill)
            mortal.start()
        town.found_groups(storm.Client(ports, "web"), storm.Client(ports, "db"))
        residents = [resident(town, number, ports, over) for number in range(CLIENTS)]
        storm.at_once([*residents, storm.reaper(mortals, KILLS, (0.2, 1.5), over)], 2 * storm.PATIENCE_S)
        rows = storm.connect(database)
        stack.callback(rows.dispose)
        storm.wait_until_idle(rows)
        print(dict(sorted(town.tally.items())), "deadlocks", storm.deadlocks(rows))  # noqa: T201
        states = [row.vm_state for row in read(rows).servers]
        print(len(town.booted), {state: states.count(state) for state in sorted(set(states))})  # noqa: T201
        assert town.wrong == []
        assert storm.lost(rows, town) == []
        assert violations(rows, idle=True) == []
        assert storm.crashes([mortal.log for mortal in mortals]) == []
        assert town.tally["unanswered"] > 0, "no request was interrupted"
        storm.check_memory(rows, ports)


def test_repeated_kills_of_one_of_two_processes_on_postgresql(tmp_path: Path, postgresql_server: PostgreSQL) -> None:
    with postgresql_server.fresh() as database:
        blow(tmp_path, database, 2)


def test_repeated_kills_of_the_only_process_on_sqlite(tmp_path: Path, sqlite_server: SQLite) -> None:
    with sqlite_server.fresh(tmp_path) as database:
        blow(tmp_path, database, 1)
