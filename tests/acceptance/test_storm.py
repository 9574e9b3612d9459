"""Five hundred concurrent mixed operations on a fleet that is too small: the invariants hold."""

import http.client
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance import storm
from tests.acceptance.invariants import read, violations
from tests.budgets import operations
from tests.databases import PostgreSQL, SQLite

pytestmark = pytest.mark.soak

OPERATIONS = operations(500)
CLIENTS = 16
SEED = 20260131
# A small fleet, a slow driver, and one failure in ten, so that servers are rescheduled.
VARIABLES = storm.settings(
    storm.PLENTY,
    DRIVER__LATENCY_S="0.01",
    DRIVER__FAILURE_RATE="0.1",
    DRIVER__SEED="7",
    WORKER__LEASE_S="3",
    WORKER__POLL_INTERVAL_S="0.05",
)


def resident(town: storm.Town, number: int, ports: list[int]) -> Callable[[], None]:
    """A client that does its share, each time at another process."""

    def run() -> None:
        clients = {project: storm.Client(ports, project) for project in storm.PROJECTS}
        asked = number

        def say(
            what: str, method: str, path: str, body: object = None, *, project: str, key: str | None = None
        ) -> storm.Answer | None:
            nonlocal asked
            asked += 1
            try:
                answer = clients[project].ask(method, path, body, of=asked, key=key)
            except (OSError, http.client.HTTPException) as error:
                town.wrong.append(f"{what}: no answer, {error!r}")
                raise
            town.note(what, answer)
            return answer

        me = storm.Resident(town, number, SEED, say)
        for _ in range(OPERATIONS // CLIENTS + (number < OPERATIONS % CLIENTS)):
            me.act()
        for client in clients.values():
            client.close()

    return run


def blow(directory: Path, database: str, processes: int) -> None:
    storm.apply_fleet(directory, database, storm.fleet_of(12, 8))
    with storm.serving(directory, database, processes, VARIABLES) as running:
        ports = [each.port for each in running]
        rows, town = storm.connect(database), storm.Town()
        town.found_groups(storm.Client(ports, "web"), storm.Client(ports, "db"))
        storm.at_once([resident(town, number, ports) for number in range(CLIENTS)])
        storm.wait_until_idle(rows)
        print(dict(sorted(town.tally.items())), "deadlocks", storm.deadlocks(rows))  # noqa: T201
        states = [row.vm_state for row in read(rows).servers]
        print({state: states.count(state) for state in sorted(set(states))})  # noqa: T201
        assert town.wrong == []
        assert violations(rows, idle=True) == []
        assert storm.lost(rows, town) == []
        assert storm.crashes([each.log for each in running]) == []
        assert storm.deadlocks(rows) == 0
        assert town.tally["overtaken"] == 0
        assert town.total(503) <= OPERATIONS // 100
        assert states.count("error") > 0, "the fleet was too small for all of them"
        storm.check_memory(rows, ports)
        rows.dispose()


def test_a_storm_over_four_processes_on_postgresql(tmp_path: Path, postgresql_server: PostgreSQL) -> None:
    with postgresql_server.fresh() as database:
        blow(tmp_path, database, 4)


def test_a_storm_over_one_process_on_sqlite(tmp_path: Path, sqlite_server: SQLite) -> None:
    with sqlite_server.fresh(tmp_path) as database:
        blow(tmp_path, database, 1)
