"""Twelve concurrent servers of one group on twelve hosts follow hard and soft policies exactly."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import sqlalchemy as sa

from tests.acceptance import storm
from tests.acceptance.invariants import read, violations
from tests.databases import PostgreSQL, SQLite

BOOTS = 12
ROUNDS = 5


@dataclass
class Site:
    """Processes that serve one database, and a connection to it."""

    rows: sa.Engine
    ports: list[int]


@pytest.fixture(scope="module", params=["postgresql, 4 processes", "sqlite, 1 process"])
def site(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    sqlite_server: SQLite,
    postgresql_server: PostgreSQL,
) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("parallel")
    alone = request.param.startswith("sqlite")
    fresh, processes = (sqlite_server.fresh(directory), 1) if alone else (postgresql_server.fresh(), 4)
    with fresh as database:
        storm.apply_fleet(directory, database, storm.fleet_of(BOOTS, 16))
        with storm.serving(directory, database, processes, storm.settings(storm.UNLIMITED)) as running:
            rows = storm.connect(database)
            yield Site(rows, [each.port for each in running])
            rows.dispose()


def boot_together(site: Site, name: str, group: str | None = None, project: str = "web") -> Counter[int]:
    """Create one server from each thread, with the processes in turn, and return the statuses."""
    clients = [storm.Client(site.ports, project) for _ in range(BOOTS)]
    statuses: Counter[int] = Counter()
    lock = threading.Lock()

    def boot(i: int) -> Callable[[], None]:
        def run() -> None:
            answer = clients[i].ask("POST", "/compute/v2.1/servers", storm.boot_body(f"{name}-{i}", group=group), of=i)
            with lock:
                statuses[answer.status] += 1

        return run

    for i, client in enumerate(clients):
        client.ask("GET", "/healthcheck", of=i)  # connects before the threads start
    storm.run_concurrently([boot(i) for i in range(BOOTS)])
    for client in clients:
        client.close()
    return statuses


@pytest.mark.parametrize(
    ("policy", "hosts"), [("anti-affinity", BOOTS), ("soft-anti-affinity", BOOTS), ("affinity", 1)]
)
def test_twelve_parallel_creations_follow_the_policy(site: Site, policy: str, hosts: int) -> None:
    client = storm.Client(site.ports)
    for number in range(ROUNDS):
        made = client.ask("POST", "/compute/v2.1/os-server-groups", storm.group_body([policy], {}), of=number)
        name = f"{policy}-{number}"
        assert boot_together(site, name, made.json["server_group"]["id"]) == {202: BOOTS}
        storm.wait_until_idle(site.rows)
        servers = [row for row in read(site.rows).servers if row.name.startswith(name)]
        assert [row.vm_state for row in servers] == ["active"] * BOOTS, [row.fault for row in servers]
        spread = Counter(row.host_id for row in servers)
        assert len(spread) == hosts, f"round {number}: {json.dumps(spread)}"
        assert violations(site.rows, idle=True) == []
        storm.delete_named(site.rows, client, name)
    client.close()
    assert storm.deadlocks(site.rows) == 0


def test_quota_is_exact_under_concurrency(site: Site) -> None:
    client, allowed = storm.Client(site.ports), 7
    quota = {"quota_set": {"instances": allowed}}
    assert client.ask("PUT", "/compute/v2.1/os-quota-sets/tight", quota).status == 200
    for number in range(ROUNDS):
        name = f"tight-{number}"
        assert boot_together(site, name, project="tight") == {202: allowed, 403: BOOTS - allowed}
        storm.wait_until_idle(site.rows)
        assert violations(site.rows, idle=True) == []
        storm.delete_named(site.rows, client, name)
    client.close()
    assert storm.deadlocks(site.rows) == 0
