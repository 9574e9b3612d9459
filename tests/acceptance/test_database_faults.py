"""Load while PostgreSQL restarts, crashes, ends sessions and loses answers: memory equals rows in every process."""

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.acceptance import storm
from tests.acceptance.invariants import read, violations
from tests.acceptance.processes import is_healthy
from tests.acceptance.retries import client_thread
from tests.acceptance.topology import check_memory
from tests.budgets import operations
from tests.lossy_proxy import LossyProxy
from tests.postgresql_cluster import Cluster

pytestmark = pytest.mark.soak

PROCESSES = 3
CLIENTS = 6
ROUNDS = operations(7)  # each has every fault
PAUSE_S = (0.3, 0.8)
SEED = 1905
VARIABLES = storm.settings(
    storm.HIGH_LIMITS, DRIVER__LATENCY_S="0.01", WORKER__LEASE_S="2", WORKER__POLL_INTERVAL_S="0.05"
)


def fault_thread(cluster: Cluster, proxy: LossyProxy, over: threading.Event) -> Callable[[], None]:
    """Return a task that causes one fault after another, in random order."""

    def crash_after_aborts() -> None:
        cluster.abort_transactions(300)
        cluster.restart("immediate")

    faults: list[Callable[[], None]] = [
        lambda: cluster.restart("fast"),
        lambda: cluster.restart("immediate"),
        crash_after_aborts,
        cluster.kill_session,
        cluster.terminate_sessions,
        proxy.cut,
        lambda: proxy.lose_answers(3),
        lambda: proxy.lose_answers(3),
    ]

    def run() -> None:
        rng = random.Random(SEED)  # noqa: S311 -- chance, not secrecy
        try:
            for _ in range(ROUNDS):
                for fault in rng.sample(faults, len(faults)):
                    time.sleep(rng.uniform(*PAUSE_S))
                    fault()
            time.sleep(1)
        finally:
            over.set()

    return run


def host_thread(load_state: storm.LoadState, ports: list[int], over: threading.Event) -> Callable[[], None]:
    """Return a task that puts hosts into other racks; an answer may be lost after either half of the change."""

    def run() -> None:
        rng, client = random.Random(SEED), storm.Client(ports)  # noqa: S311
        for number in range(1_000_000):
            if over.is_set():
                return
            racks = client.ask("GET", "/compute/v2.1/os-aggregates", of=number)
            if racks.status == 200:
                host = f"host-{rng.randint(1, 12):02}"
                old = [rack["id"] for rack in racks.json["aggregates"] if host in rack["hosts"]]
                changes = [(rack, "remove_host") for rack in old]
                changes.append((rng.choice(racks.json["aggregates"])["id"], "add_host"))
                for rack, verb in changes:
                    path = f"/compute/v2.1/os-aggregates/{rack}/action"
                    load_state.note(verb, client.ask("POST", path, {verb: {"host": host}}, of=number))

    return run


def test_memory_equals_rows_after_faults_of_postgresql(tmp_path: Path, cluster: Cluster) -> None:
    with cluster.fresh() as database, LossyProxy(cluster.socket) as proxy:
        storm.apply_fleet(tmp_path, database, storm.fleet_of(12, 8))
        through = proxy.url(str(sa.engine.make_url(database).database))
        with storm.serving(tmp_path, through, PROCESSES, VARIABLES) as running:
            ports = [each.port for each in running]
            load_state = run_storm(ports, cluster, proxy)
            check(database, ports, load_state)
            assert storm.crashes([each.log for each in running]) == []
        assert proxy.lost > 0


def run_storm(ports: list[int], cluster: Cluster, proxy: LossyProxy) -> storm.LoadState:
    load_state, over = storm.LoadState(), threading.Event()
    load_state.create_groups(storm.Client(ports, "web"), storm.Client(ports, "db"))
    clients = [client_thread(load_state, number, ports, over, SEED) for number in range(CLIENTS)]
    storm.run_concurrently(
        [*clients, host_thread(load_state, ports, over), fault_thread(cluster, proxy, over)], 5 * storm.TIMEOUT_S
    )
    return load_state


def check(database: str, ports: list[int], load_state: storm.LoadState) -> None:
    rows = storm.connect(database)
    for port in ports:
        storm.wait_until(lambda port=port: is_healthy(port), f"{port} answers")  # type: ignore[misc]
    storm.wait_until_idle(rows)
    states = [row.vm_state for row in read(rows).servers]
    print(dict(sorted(load_state.counts.items())), {state: states.count(state) for state in set(states)})  # noqa: T201
    assert load_state.failures == []
    assert storm.lost_servers(rows, load_state) == []
    assert violations(rows, idle=True, changed=True) == []
    check_memory(rows, ports)
    rows.dispose()
