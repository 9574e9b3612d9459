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
    storm.HIGH_LIMITS,
    DRIVER__LATENCY_S="0.01",
    DRIVER__FAILURE_RATE="0.1",
    DRIVER__SEED="7",
    WORKER__LEASE_S="3",
    WORKER__POLL_INTERVAL_S="0.05",
)


def client_thread(load_state: storm.LoadState, number: int, ports: list[int]) -> Callable[[], None]:
    """Return a task that sends a client's share of the operations to the processes in turn."""

    def run() -> None:
        clients = {project: storm.Client(ports, project) for project in storm.PROJECTS}
        asked = number

        def send(
            what: str, method: str, path: str, body: object = None, *, project: str, key: str | None = None
        ) -> storm.Answer | None:
            nonlocal asked
            asked += 1
            try:
                answer = clients[project].ask(method, path, body, of=asked, key=key)
            except (OSError, http.client.HTTPException) as error:
                load_state.failures.append(f"{what}: no answer, {error!r}")
                raise
            load_state.note(what, answer)
            return answer

        random_client = storm.RandomClient(load_state, number, SEED, send)
        for _ in range(OPERATIONS // CLIENTS + (number < OPERATIONS % CLIENTS)):
            random_client.act()
        for client in clients.values():
            client.close()

    return run


def run_storm(directory: Path, database: str, processes: int) -> None:
    storm.apply_fleet(directory, database, storm.fleet_of(12, max(4, operations(8))))
    with storm.serving(directory, database, processes, VARIABLES) as running:
        ports = [each.port for each in running]
        rows, load_state = storm.connect(database), storm.LoadState()
        load_state.create_groups(storm.Client(ports, "web"), storm.Client(ports, "db"))
        storm.run_concurrently([client_thread(load_state, number, ports) for number in range(CLIENTS)])
        storm.wait_until_idle(rows)
        print(dict(sorted(load_state.counts.items())), "deadlocks", storm.deadlocks(rows))  # noqa: T201
        states = [row.vm_state for row in read(rows).servers]
        print({state: states.count(state) for state in sorted(set(states))})  # noqa: T201
        assert load_state.failures == []
        assert violations(rows, idle=True) == []
        assert storm.lost_servers(rows, load_state) == []
        assert storm.crashes([each.log for each in running]) == []
        assert storm.deadlocks(rows) == 0
        assert load_state.counts["conflicts"] == 0
        assert load_state.total(503) <= OPERATIONS // 100
        assert states.count("error") > 0, "the fleet is too small for all servers"
        storm.check_fleet_in_memory(rows, ports)
        rows.dispose()


def test_invariants_hold_under_load_in_four_processes_on_postgresql(
    tmp_path: Path, postgresql_server: PostgreSQL
) -> None:
    with postgresql_server.fresh() as database:
        run_storm(tmp_path, database, 4)


def test_invariants_hold_under_load_in_one_process_on_sqlite(tmp_path: Path, sqlite_server: SQLite) -> None:
    with sqlite_server.fresh(tmp_path) as database:
        run_storm(tmp_path, database, 1)
