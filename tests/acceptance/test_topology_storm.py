"""Hosts change racks and state under servers that are created and moved: every claim keeps its group's policy."""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests import claim_history
from tests.acceptance import storm
from tests.acceptance.invariants import violations
from tests.acceptance.topology import check_memory
from tests.budgets import operations
from tests.postgresql_cluster import Cluster

pytestmark = pytest.mark.soak

PROCESSES = 3
CHANGES = operations(200)  # of each thread that changes hosts
SEED = 41
COMPUTE = "/compute/v2.1"
LIVE: dict[str, object] = {"os-migrateLive": {"host": None, "block_migration": "auto"}}
POLICIES: tuple[tuple[tuple[str, ...], dict[str, int]], ...] = (
    *[(("anti-affinity:rack",), {})] * 6,
    *[(("anti-affinity:rack",), {"max_server_per_rack": 2})] * 2,
)
VARIABLES = storm.settings(storm.UNLIMITED, WORKER__POLL_INTERVAL_S="0.05")


@dataclass
class Scenario:
    """What all threads share."""

    ports: list[int]
    hosts: list[str]
    racks: list[int]
    groups: list[str]
    load_state: storm.LoadState = field(default_factory=storm.LoadState)
    over: threading.Event = field(default_factory=threading.Event)

    def thread(self, number: int, act: "Callable[[Actor], None]", times: int | None = None) -> Callable[[], None]:
        """Return a task that repeats an action: so often, then all threads end; or until they end."""

        def run() -> None:
            actor = Actor(self, number)
            try:
                while not self.over.is_set() and (times is None or actor.done < times):
                    act(actor)
                    actor.done += 1
            finally:
                self.over.set()
                actor.client.close()

        return run


class Actor:
    """One thread's client."""

    def __init__(self, scenario: Scenario, number: int) -> None:
        self.scenario = scenario
        self.client = storm.Client(scenario.ports)
        self.rng = random.Random(SEED * 100 + number)  # noqa: S311 -- chance, not secrecy
        self.number, self.done, self._asked = number, 0, number
        self.servers: list[str] = []

    def send(self, what: str, method: str, path: str, body: object = None) -> storm.Answer:
        self._asked += 1
        answer = self.client.ask(method, COMPUTE + path, body, of=self._asked)
        self.scenario.load_state.note(what, answer)
        return answer


def create_and_delete(actor: Actor) -> None:
    """Create a server; delete the oldest of this thread, so that groups have room."""
    group = actor.rng.choice(actor.scenario.groups)
    body = storm.boot_body(f"s{actor.number}x{actor.done}", group=group)
    made = actor.send("boot", "POST", "/servers", body)
    if made.status == 202:
        actor.servers.append(made.json["server"]["id"])
    if len(actor.servers) > 4:
        actor.send("delete", "DELETE", f"/servers/{actor.servers.pop(0)}")


def move_server(actor: Actor) -> None:
    """Migrate a server, cold or live; confirm the moves that wait for it."""
    status = actor.rng.choice(["ACTIVE", "VERIFY_RESIZE"])
    servers = [server["id"] for server in actor.send("list", "GET", f"/servers?status={status}").json["servers"]]
    if servers:
        kind: dict[str, object] = (
            {"confirmResize": None} if status == "VERIFY_RESIZE" else actor.rng.choice([LIVE, {"migrate": None}])
        )
        actor.send(next(iter(kind)), "POST", f"/servers/{actor.rng.choice(servers)}/action", kind)


def move_host(actor: Actor) -> None:
    """Put a host into another rack. Each of these threads has its own hosts."""
    host = actor.rng.choice(actor.scenario.hosts[actor.number % 2 :: 2])
    for aggregate in actor.send("racks", "GET", "/os-aggregates").json["aggregates"]:
        if host in aggregate["hosts"]:
            actor.send("remove", "POST", f"/os-aggregates/{aggregate['id']}/action", {"remove_host": {"host": host}})
    rack = actor.rng.choice(actor.scenario.racks)
    assert actor.send("add", "POST", f"/os-aggregates/{rack}/action", {"add_host": {"host": host}}).status == 200


def disable_and_enable(actor: Actor) -> None:
    service = actor.rng.choice(actor.send("services", "GET", "/os-services").json["services"])["id"]
    for status in ("disabled", "enabled"):
        assert actor.send("host", "PUT", f"/os-services/{service}", {"status": status}).status == 200


def test_claims_follow_the_topology_of_their_commit_in_three_processes(tmp_path: Path, cluster: Cluster) -> None:
    with cluster.fresh() as database:
        rows = storm.connect(database)
        claim_history.record(rows)
        storm.apply_fleet(tmp_path, database, storm.fleet_of(12, 12))
        with storm.serving(tmp_path, database, PROCESSES, VARIABLES) as running:
            run_storm([each.port for each in running], rows)
            assert storm.crashes([each.log for each in running]) == []
        rows.dispose()


def run_storm(ports: list[int], rows: sa.Engine) -> None:
    client = storm.Client(ports)
    racks = client.ask("GET", f"{COMPUTE}/os-aggregates").json["aggregates"]
    groups = [
        client.ask("POST", f"{COMPUTE}/os-server-groups", storm.group_body(policies, rules))
        for policies, rules in POLICIES
    ]
    scenario = Scenario(
        ports,
        sorted(host for rack in racks for host in rack["hosts"]),
        [rack["id"] for rack in racks],
        [made.json["server_group"]["id"] for made in groups],
    )
    changes = [scenario.thread(number, move_host, CHANGES) for number in range(2)]
    load = [create_and_delete] * 4 + [move_server] * 2 + [disable_and_enable]
    storm.run_concurrently(
        [*changes, *(scenario.thread(number, act) for number, act in enumerate(load, 2))], 5 * storm.TIMEOUT_S
    )
    storm.wait_until_idle(rows)
    judged, load_state = claim_history.judge(rows), scenario.load_state
    print(dict(sorted(load_state.counts.items())), judged.claims, "deadlocks", storm.deadlocks(rows))  # noqa: T201
    assert judged.broken == []
    assert judged.claims > CHANGES / 2, "claims and changes overlap"
    assert load_state.failures == []
    assert load_state.total(503) == 0
    assert load_state.counts["boot 409"] == 0
    assert violations(rows, idle=True, changed=True) == []
    check_memory(rows, ports)
    client.close()
