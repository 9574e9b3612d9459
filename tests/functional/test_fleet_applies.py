"""Claims beside `covey fleet apply`: they wait for its last statements only, and neither ends the other."""

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from covey import bootstrap, clock_and_ids
from covey.bootstrap import Settings
from covey.model.errors import Conflict, Unavailable
from covey.model.fleet_file import FleetFile, HostEntry, ScopeEntry
from covey.model.inventory import Inventory, ResourceClass
from covey.services.fleets import Fleets
from covey.storage import engine
from covey.storage.store import Store
from tests import claim_history
from tests.functional.agents import HostAgent, agent_of, with_agents
from tests.functional.client import Answer
from tests.functional.fleets import BuildCloud
from tests.functional.racks import Racks, boot, recorded_racks, request_server
from tests.postgresql_cluster import Cluster
from tests.sessions import waiting_sessions

TIMEOUT_S = 30


@pytest.fixture
def racks(cluster: Cluster, tmp_path: Path) -> Iterator[Racks]:
    with recorded_racks(cluster, tmp_path) as made:
        yield made


def fleets_of(store: Store) -> Fleets:
    return Fleets(store, clock_and_ids.now, clock_and_ids.new_uuid, dict.fromkeys(ResourceClass, 1.0))


def pruned(file: FleetFile) -> FleetFile:
    """Return the file without node-3, and with another host."""
    kept = [host for host in file.hosts if host.name != "node-3"]
    return replace(file, hosts=(*kept, replace(kept[0], name="node-4")))


def changed(file: FleetFile) -> FleetFile:
    """Return the file with another zone, domain, trait, inventory or membership for each host."""
    one, two, three = file.hosts
    hosts: list[HostEntry] = [
        replace(one, zone="east", domains={"rack": "rack-2"}, traits=frozenset({"CUSTOM_SSD"})),
        replace(two, zone="west", domains={"rack": "rack-1"}, inventories={"CUSTOM_GPU": Inventory(4)}),
        replace(three, zone="west", domains={"rack": "rack-4"}, vcpus=three.vcpus + 1),
        replace(three, name="node-4", zone="east", domains={"rack": "rack-3"}),
    ]
    return replace(file, hosts=tuple(hosts), scopes=(replace(file.scopes[0], allow_identifiers=True),))


def in_time(request: Callable[[], Answer]) -> Answer:
    """Send a request in another thread, and fail if it waits for the transaction of this one."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(request).result(TIMEOUT_S)
    finally:
        pool.shutdown(wait=False)


def test_boots_proceed_while_a_host_is_pruned(racks: Racks) -> None:
    answers: list[int] = []
    racks.there.set_host("node-3", status="disabled")

    def work(_: int) -> None:
        answers.append(in_time(lambda: request_server(racks.here.alice)).status)

    fleets = fleets_of(racks.there.store)
    fleets.apply(pruned(fleets.export()), work, prune=True)
    assert set(answers) == {202}
    assert len(answers) > 1
    assert racks.deadlocks() == 0
    assert racks.differences() == {}


def test_boot_on_a_pruned_host_wins_and_the_apply_names_the_host(racks: Racks) -> None:
    admin = racks.here.alice.sending(X_Roles="admin")
    answers: list[int] = []

    def boot_on(host: str) -> Answer:
        return request_server(admin, availability_zone=f"nova:{host}")

    def work(_: int) -> None:
        answers.append(in_time(lambda: boot_on("node-3")).status)
        answers.append(in_time(lambda: boot_on("node-1")).status)

    fleets = fleets_of(racks.there.store)
    with pytest.raises(Conflict, match=re.escape("node-3")):
        fleets.apply(pruned(fleets.export()), work, prune=True)
    assert set(answers) == {202}
    assert {host.name for host in fleets.export().hosts} == {"node-1", "node-2", "node-3"}
    assert racks.deadlocks() == 0
    assert racks.differences() == {}


def test_boots_proceed_while_hosts_change(racks: Racks) -> None:
    group = racks.here.group("anti-affinity:rack")
    answers: list[int] = []

    def work(_: int) -> None:
        answers.append(in_time(lambda: request_server(racks.here.alice)).status)
        answers.append(in_time(lambda: request_server(racks.here.alice, group)).status)

    fleets = fleets_of(racks.there.store)
    file = changed(fleets.export())
    fleets.apply(file, work)
    assert set(answers) == {202}
    assert len(answers) > 2
    assert fleets.compare(file).size == 0
    assert claim_history.judge(racks.there.connection).broken == []
    assert racks.deadlocks() == 0
    assert racks.differences() == {}


def fleet_of(hosts: int, change: str = "") -> FleetFile:
    """Return a fleet with a rack for every four hosts; a change makes all hosts, or all racks, different."""
    n, moves = int(change == "hosts"), change == "scopes"
    entries = [
        HostEntry(
            f"h{i}",
            8 + n,
            16384 + n,
            100 + n,
            zone=("east", "west")[(i + n) % 2],
            traits=frozenset({f"CUSTOM_{n}"}),
            domains={"row" if moves else "rack": f"rack-{(i + 4 * n) % hosts // 4}"},
            inventories={f"CUSTOM_GPU{n}": Inventory(4)},
        )
        for i in range(hosts)
    ]
    kept = entries[: hosts // 2] if change == "prune" else entries
    return FleetFile(tuple(kept), (ScopeEntry("rack"), ScopeEntry("row")), (), (), ())


def record_statements(patch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which PostgreSQL's statements are added; one that is repeated for many rows, many times."""
    statements: list[str] = []
    execute, execute_many, commit = psycopg.Cursor.execute, psycopg.Cursor.executemany, psycopg.Connection.commit

    def record(cursor: Any, query: Any, *values: Any, **options: Any) -> Any:
        statements.append(str(query))
        return execute(cursor, query, *values, **options)

    def record_many(cursor: Any, query: Any, values: Any, **options: Any) -> None:
        statements.extend([str(query)] * len(values))
        execute_many(cursor, query, values, **options)

    def record_commit(connection: Any) -> None:
        statements.append("COMMIT")
        commit(connection)

    patch.setattr(psycopg.Cursor, "execute", record)
    patch.setattr(psycopg.Cursor, "executemany", record_many)
    patch.setattr(psycopg.Connection, "commit", record_commit)
    return statements


@pytest.mark.parametrize("change", ["hosts", "scopes", "prune"])
def test_statements_for_which_claims_wait_do_not_grow_with_the_fleet(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    counts = {}
    for hosts in (8, 24):
        with cluster.fresh() as database:
            connected = engine.connect(database)
            fleets = fleets_of(Store(connected))
            fleets.apply(fleet_of(hosts), lambda _: None)
            with monkeypatch.context() as patch:
                statements = record_statements(patch)
                fleets.apply(fleet_of(hosts, change), lambda _: None, prune=True)
            assert fleets.compare(fleet_of(hosts, change), prune=True).size == 0
            connected.dispose()
        begin = next(i for i, each in enumerate(statements) if "pg_advisory_xact_lock(" in each)
        counts[hosts] = len(statements[begin:])
    assert counts[8] == counts[24] < 40


def beat(agent: HostAgent) -> int:
    return agent.heartbeat("starting").status


def register(agent: HostAgent) -> int:
    return agent.register(traits=["HW_CPU_X86_AVX2"]).status


def take_silent(agent: HostAgent) -> int:
    with agent.cloud.store.write() as tx:
        tx.agents.take_silent(-1)
    return 200


@pytest.mark.parametrize("change", [beat, register, take_silent])
def test_change_of_an_agent_and_an_apply_that_moves_its_host_do_not_deadlock(
    build_cloud: BuildCloud, change: Callable[[HostAgent], int]
) -> None:
    cloud = with_agents(build_cloud)
    agent = agent_of(cloud, "node-1")
    fleets = fleets_of(cloud.store)
    file = fleets.export()
    moved = replace(file, hosts=tuple(replace(host, zone="east") for host in file.hosts))
    changes: list[Future[int]] = []
    with ThreadPoolExecutor(1) as pool:

        def work(number: int) -> None:
            if number > 1 and cloud.connection.dialect.name == "postgresql":  # all but the last statements have run
                changes.append(pool.submit(change, agent))
                while not changes[-1].done() and not waiting_sessions(cloud.connection):
                    time.sleep(0.01)

        fleets.apply(moved, work)
        assert [each.result(TIMEOUT_S) for each in changes] in ([], [200])
    assert fleets.compare(moved).new_members == []


def test_new_domain_of_the_file_and_of_a_request_do_not_deadlock(racks: Racks) -> None:
    admin = racks.here.admin
    made = admin.post("/os-aggregates", {"aggregate": {"name": "rack-5", "availability_zone": None}})
    scope = {"set_metadata": {"metadata": {"policy_scope": "rack"}}}
    fleets = fleets_of(racks.there.store)
    file = changed(fleets.export())
    answers: list[Future[Answer]] = []
    with ThreadPoolExecutor(1) as pool:

        def work(number: int) -> None:
            if number > 1 and not answers:  # the file's new aggregates exist
                url = f"/os-aggregates/{made.json['aggregate']['id']}/action"
                answers.append(pool.submit(admin.post, url, scope))
                while not answers[-1].done() and not waiting_sessions(racks.there.connection):
                    time.sleep(0.01)

        fleets.apply(file, work)
        assert [each.result(TIMEOUT_S).status for each in answers] == [200]
    assert racks.deadlocks() == 0


def test_boots_beside_an_apply_are_placed(build_cloud: BuildCloud) -> None:
    """On SQLite they wait for the apply, since it is the one writer."""
    cloud = build_cloud(3)
    cloud.set_host("node-3", status="disabled")
    began: list[Future[Answer]] = []
    with ThreadPoolExecutor(4) as pool:

        def work(_: int) -> None:
            if len(began) < 4:
                began.append(pool.submit(request_server, cloud.alice))

        fleets = fleets_of(cloud.store)
        fleets.apply(pruned(fleets.export()), work, prune=True)
        assert {each.result(TIMEOUT_S).status for each in began} == {202}
    boot(cloud)
    assert set(cloud.hosts(server["id"] for server in cloud.servers())) <= {"node-1", "node-2", "node-4"}


def test_apply_does_not_wait_long_behind_a_frozen_claim(build_cloud: BuildCloud) -> None:
    """Later claims would queue behind it."""
    cloud = build_cloud(3)
    url = cloud.connection.url.render_as_string(hide_password=False)
    conf = Settings(overrides=(("database", "connection", url), ("database", "lock_timeout_s", 0.5))).load()
    fleets = bootstrap.fleets(conf)
    try:
        with cloud.store.write() as tx:
            tx.topology.hold()
            with pytest.raises(Unavailable, match="waited too long for a lock"):
                fleets.apply(pruned(fleets.export()), lambda _: None, prune=True)
        assert fleets.apply(pruned(fleets.export()), lambda _: None, prune=True).removed.hosts
    finally:
        for option in ("connection", "lock_timeout_s"):
            conf.clear_override(option, "database")
