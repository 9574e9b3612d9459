"""Load with random kills of agents, workers and services: afterwards rows and guests agree exactly."""

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests

from tests.acceptance import storm
from tests.acceptance.invariants import violations
from tests.acceptance.retries import client_thread
from tests.agent_lab import SERVICE, AgentLab
from tests.budgets import operations
from tests.databases import PostgreSQL, SQLite
from tests.simulated_guests import running

pytestmark = pytest.mark.soak

KILLS = operations(40)
CLIENTS = 4
HOSTS = ("host-01", "host-02", "host-03")
VCPUS = 12
SEED = 1917
VARIABLES = {**SERVICE, **storm.settings(storm.HIGH_LIMITS, AGENTS__DOWN_AFTER="8", WORKER__LEASE_S="2")}
AGENT = {
    "SIMULATED_HYPERVISOR__FAILURE_RATE": "0.03",
    "SIMULATED_HYPERVISOR__VCPUS": str(VCPUS),
    "AGENT__CPU_ALLOCATION_RATIO": "1.0",
    "AGENT__RESERVED_MEMORY_MB": "0",
    "LOG__LEVEL": "info",
}


def upload(port: int) -> None:
    """Give the image its data, which agents download."""
    url = f"http://127.0.0.1:{port}/image/v2/images/{storm.IMAGE}/file"
    headers = {"X-Auth-Token": "admin", "Content-Type": "application/octet-stream"}
    assert requests.put(url, b"image", headers=headers, timeout=30).status_code == 204


def run_storm(directory: Path, database: str, services: int, workers: int) -> None:
    storm.apply_fleet(directory, database, storm.fleet_of(len(HOSTS), VCPUS), image_data=False)
    variables = VARIABLES | {"OS_IMAGE__DATA_DIR": str(directory / "images")}
    lab = AgentLab(directory / "lab", database, variables)
    serving = [
        lab.service,
        *(storm.KillableProcess(directory / f"serve-{i}", database, variables) for i in range(1, services)),
    ]
    working = [
        storm.KillableProcess(directory / f"worker-{i}", database, variables, serves=False) for i in range(workers)
    ]
    over, load_state, ports = threading.Event(), storm.LoadState(), [each.port for each in serving]
    with ExitStack() as stack:
        for process in (*serving, *working):
            stack.callback(process.kill)
            process.start()
        stack.callback(lab.close)
        upload(ports[0])
        agents = [lab.agent(host, latency_s=0.1, **AGENT) for host in HOSTS]
        for agent in agents:
            agent.start()
        for agent in agents:
            agent.wait_for("agent.up")
        load_state.create_groups(storm.Client(ports, "web"), storm.Client(ports, "db"))
        clients = [client_thread(load_state, number, ports, over, SEED) for number in range(CLIENTS)]
        killable: list[storm.Killable] = [*serving, *working, *agents, *agents]
        storm.run_concurrently([*clients, storm.kill_at_random(killable, KILLS, (0.2, 1.5), over)], 4 * storm.TIMEOUT_S)
        rows = storm.connect(database)
        stack.callback(rows.dispose)
        storm.wait_until_idle(rows)
        lab.wait_for_agreement()
        print(dict(sorted(load_state.counts.items())), "guests", len(running(lab.world)))  # noqa: T201
        assert load_state.failures == []
        assert storm.lost_servers(rows, load_state) == []
        assert violations(rows, idle=True) == []
        logs = [*(process.log for process in (*serving, *working)), *(agent.log for agent in agents)]
        assert storm.crashes(logs) == []
        assert running(lab.world), "no guest is left"
        assert load_state.counts["unanswered"] > 0, "no request was interrupted"


def test_killed_agents_workers_and_services_leave_rows_and_guests_in_agreement_on_postgresql(
    tmp_path: Path, postgresql_server: PostgreSQL
) -> None:
    with postgresql_server.fresh() as database:
        run_storm(tmp_path, database, services=2, workers=1)


def test_killed_agents_and_services_leave_rows_and_guests_in_agreement_on_sqlite(
    tmp_path: Path, sqlite_server: SQLite
) -> None:
    with sqlite_server.fresh(tmp_path) as database:
        run_storm(tmp_path, database, services=1, workers=0)
