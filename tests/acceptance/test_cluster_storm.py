"""Many clusters are scaled concurrently while workers are killed: every action finishes exactly once."""

import http.client
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from covey.storage import tables
from covey.storage.rows import load
from tests.acceptance import storm
from tests.acceptance.invariants import violations
from tests.budgets import operations
from tests.databases import PostgreSQL, SQLite

pytestmark = pytest.mark.soak

SEED = 1923
MAX_NODES = 6
CLIENTS = 6
# Hosts are scarce, some builds fail, and short leases let workers continue what a dead one left.
VARIABLES = storm.settings(
    storm.HIGH_LIMITS,
    DRIVER__LATENCY_S="0.05",
    DRIVER__FAILURE_RATE="0.05",
    WORKER__LEASE_S="2",
    WORKER__POLL_INTERVAL_S="0.05",
)
POLICIES: tuple[dict[str, Any] | None, ...] = (
    None,
    {"policies": ["anti-affinity"]},
    {"policies": ["anti-affinity:rack"]},
    {"policies": ["anti-affinity:rack"], "rules": {"max_server_per_rack": 2}},
    {"policies": ["affinity:rack", "anti-affinity"]},
)
EXPECTED_FAILURES = (
    "No valid host was found.",
    "Failed in creating nodes. Failed in creating server: No valid host was found.",
)


@dataclass
class ClusterLoad:
    """Clients that scale clusters, and what they observed."""

    ports: Sequence[int]
    clusters: list[str] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)  # actions that were accepted
    unexpected: list[str] = field(default_factory=list)
    unanswered: int = 0

    def create_clusters(self, number: int) -> None:
        """Create empty clusters with different policies."""
        client = storm.Client(self.ports)
        spec = {"type": "os.nova.server", "version": 1.0, "properties": {"flavor": "small", "image": storm.IMAGE}}
        self._create(client, "profile", {"name": "p", "spec": spec})
        for i, group in enumerate(POLICIES):
            if group is not None:
                spec = {"type": "senlin.policy.affinity", "version": 1.1, "properties": {"servergroup": group}}
                self._create(client, "policy", {"name": f"p{i}", "spec": spec})
        for i in range(number):
            body = {"name": f"c{i}", "profile_id": "p", "max_size": MAX_NODES}
            self.clusters.append(self._create(client, "cluster", body)["id"])
        for i, cluster in enumerate(self.clusters):
            if POLICIES[i % len(POLICIES)] is not None:
                self._attach(client, cluster, f"p{i % len(POLICIES)}")
        client.close()

    def client(self, number: int, stopped: threading.Event) -> Callable[[], None]:
        """Return a client that sends random scaling requests and accepts rejections."""

        def run() -> None:
            client, rng = storm.Client(self.ports), random.Random(SEED + number)  # noqa: S311 -- no secret
            while not stopped.is_set():
                time.sleep(rng.uniform(0, 0.2))
                body = request(rng)
                try:
                    answer = self._ask(client, rng.choice(self.clusters), body)
                except (OSError, http.client.HTTPException):
                    self.unanswered += 1
                    time.sleep(0.2)
                    continue
                if answer.status == 202:
                    self.accepted.add(answer.json["action"])
                elif answer.status not in {400, 409, 503}:
                    self.unexpected.append(f"{body}: {answer}")
            client.close()

        return run

    def _attach(self, client: storm.Client, cluster: str, policy: str) -> None:
        body = {"policy_attach": {"policy_id": policy}}
        storm.wait_until(lambda: self._ask(client, cluster, body).status == 202, f"{cluster} is free")

    def _ask(self, client: storm.Client, cluster: str, body: object) -> storm.Answer:
        return client.ask("POST", f"/clustering/v1/clusters/{cluster}/actions", body)

    def _create(self, client: storm.Client, noun: str, body: dict[str, Any]) -> dict[str, Any]:
        plural = {"policy": "policies"}.get(noun, f"{noun}s")
        answer = client.ask("POST", f"/clustering/v1/{plural}", {noun: body})
        assert answer.status in {201, 202}, answer
        created: dict[str, Any] = answer.json[noun]
        return created


def request(rng: random.Random) -> dict[str, Any]:
    """Return a random scaling request."""
    number = rng.randint(1, 3)
    exact = {"adjustment_type": "EXACT_CAPACITY", "number": rng.randint(0, MAX_NODES)}
    return rng.choice([{"scale_out": {"count": number}}, {"scale_in": {"count": number}}, {"resize": exact}])


def size_after(action: Any, nodes: int) -> int:
    """Return the size of a cluster after an action."""
    inputs = load(action.inputs, dict[str, Any])
    match action.verb:
        case "CLUSTER_SCALE_OUT":
            return nodes + int(inputs["count"])
        case "CLUSTER_SCALE_IN":
            return max(0, nodes - int(inputs["count"]))
        case "CLUSTER_RESIZE":
            return int(inputs["number"])
    return nodes


def cluster_violations(connected: sa.Engine, cluster_load: ClusterLoad) -> Iterator[str]:
    """Yield a sentence for each violated invariant of the clustering tables."""
    with connected.connect() as connection:
        actions = connection.execute(sa.select(tables.cluster_actions).order_by("created_at", "id")).all()
        nodes = connection.execute(sa.select(tables.nodes)).all()
        servers = set(connection.scalars(sa.select(tables.servers.c.id)))
        clusters = connection.execute(sa.select(tables.clusters)).all()
        locks = connection.execute(sa.select(tables.cluster_locks)).all()
    yield from (
        f"{action} was accepted and does not exist" for action in cluster_load.accepted - {a.id for a in actions}
    )
    yield from (f"{lock.target} is held by {lock.action_id}" for lock in locks)
    yield from (f"{a.verb} {a.id} is {a.status}" for a in actions if a.status not in {"SUCCEEDED", "FAILED"})
    of_nodes = [node.server_id for node in nodes if node.server_id is not None]
    yield from (f"{s} is a node's server and does not exist" for s in set(of_nodes) - servers)
    yield from (f"{s} is no node's server" for s in servers - set(of_nodes))
    if len(of_nodes) != len(set(of_nodes)):
        yield "nodes share a server"
    for node in nodes:
        if (node.status, node.server_id is None) not in {("ACTIVE", False), ("ERROR", True)}:
            yield f"node {node.id} is {node.status}, its server {node.server_id}"
    for cluster in clusters:
        size = 0
        for action in actions:
            if action.cluster_id != cluster.id or action.parent_id is not None:
                continue
            if action.status == "FAILED" and not action.status_reason.startswith(_expected_reasons(action)):
                yield f"{action.verb} {action.id} failed: {action.status_reason}"
            is_applied = action.status == "SUCCEEDED" or action.status_reason.startswith(EXPECTED_FAILURES[1])
            size = size_after(action, size) if is_applied else size
        own = [node for node in nodes if node.cluster_id == cluster.id]
        if not len(own) == cluster.desired_capacity == size:
            yield f"{cluster.name} has {len(own)} nodes, desired_capacity {cluster.desired_capacity}, requested {size}"


def _expected_reasons(action: Any) -> tuple[str, ...]:
    """Return the beginnings of acceptable failure reasons."""
    return (*EXPECTED_FAILURES, "The target capacity") if load(action.inputs, dict[str, Any]) else EXPECTED_FAILURES


def run_load(
    directory: Path,
    database: str,
    clusters: int,
    serving: storm.KillableProcess,
    working: Sequence[storm.KillableProcess],
    kills: int,
) -> None:
    storm.apply_fleet(directory, database, storm.fleet_of(12, 8))
    cluster_load, stopped = ClusterLoad([serving.port]), threading.Event()
    rows = storm.connect(database)
    with ExitStack() as stack:
        stack.callback(rows.dispose)
        for process in (*working, *[serving] * (serving not in working)):
            stack.callback(process.kill)
            process.start()
        cluster_load.create_clusters(clusters)
        storm.wait_until_idle(rows)
        clients = [cluster_load.client(number, stopped) for number in range(CLIENTS)]
        storm.run_concurrently([*clients, storm.kill_at_random(working, kills, (1, 3), stopped)], 2 * storm.TIMEOUT_S)
        storm.wait_until_idle(rows)
        with rows.connect() as connection:
            verbs = sa.select(tables.cluster_actions.c.verb, tables.cluster_actions.c.status, sa.func.count())
            print(sorted(tuple(row) for row in connection.execute(verbs.group_by("verb", "status"))))  # noqa: T201
        assert cluster_load.unexpected == []
        assert list(cluster_violations(rows, cluster_load)) == []
        assert violations(rows, idle=True) == []
        assert storm.crashes([process.log for process in (serving, *working)]) == []
        assert storm.deadlocks(rows) == 0


def test_twenty_clusters_survive_killed_workers_on_postgresql(tmp_path: Path, postgresql_server: PostgreSQL) -> None:
    with postgresql_server.fresh() as database:
        idle = VARIABLES | {"OS_WORKER__THREADS": "0"}
        server = storm.KillableProcess(tmp_path / "serve", database, idle)
        workers = [storm.KillableProcess(tmp_path / f"worker-{i}", database, VARIABLES, serves=False) for i in range(4)]
        run_load(tmp_path, database, 20, server, workers, kills=operations(8))


def test_clusters_survive_kills_of_the_only_process_on_sqlite(tmp_path: Path, sqlite_server: SQLite) -> None:
    with sqlite_server.fresh(tmp_path) as database:
        server = storm.KillableProcess(tmp_path / "serve", database, VARIABLES)
        run_load(tmp_path, database, 6, server, [server], kills=operations(3))
