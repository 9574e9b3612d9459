"""Boots and moves beside open transactions: they wait for none, and read nothing twice because of one."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from covey import clock_and_ids, fleet_file
from covey.model.inventory import ResourceClass
from covey.services.fleets import Fleets
from tests import claim_history
from tests.functional.client import Answer
from tests.functional.racks import LIVE_MIGRATION, Racks, boot, recorded_racks, request_server
from tests.postgresql_cluster import Cluster
from tests.sessions import wait_for_last_session, wait_for_waiting_sessions

TIMEOUT_S = 30
FLEET = """
hosts:
  - {name: node-1, vcpus: 64, memory_mb: 131072, disk_gb: 1000, domains: {rack: rack-2}}
  - {name: node-2, vcpus: 64, memory_mb: 131072, disk_gb: 1000, domains: {rack: rack-1}}
  - {name: node-3, vcpus: 64, memory_mb: 131072, disk_gb: 1000, domains: {rack: rack-3}, traits: [CUSTOM_SSD]}
  - {name: node-4, vcpus: 64, memory_mb: 131072, disk_gb: 1000, domains: {rack: rack-4}}
scopes:
  - {name: rack}
"""
LOG_ROWS_READ = sa.text("""
    SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname = 'fleet_changes')
         + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'fleet_changes')
""")
DEADLOCKS = sa.text("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")


@pytest.fixture
def racks(cluster: Cluster, tmp_path: Path) -> Iterator[Racks]:
    with recorded_racks(cluster, tmp_path) as made:
        yield made


def finishes(request: Callable[[], Answer]) -> Answer:
    """Send a request in another thread, and fail if it waits for the transaction of this one."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(request).result(TIMEOUT_S)
    finally:
        pool.shutdown(wait=False)


def test_boots_and_moves_proceed_while_a_fleet_file_is_applied(racks: Racks) -> None:
    group = racks.here.group("anti-affinity:rack")
    moving = boot(racks.here)
    racks.there.settle()
    answers: list[int] = []

    def work(_: int) -> None:
        answers.append(finishes(lambda: request_server(racks.here.alice, group)).status)
        answers.append(finishes(lambda: request_server(racks.here.alice)).status)
        if len(answers) == 2:
            answers.append(finishes(lambda: racks.here.admin.post(f"/servers/{moving}/action", LIVE_MIGRATION)).status)

    fleets = Fleets(racks.there.store, clock_and_ids.now, clock_and_ids.new_uuid, dict.fromkeys(ResourceClass, 1.0))
    plan = fleets.apply(fleet_file.parse(FLEET, "fleet.yaml"), work)
    assert plan.new_hosts
    assert set(answers) == {202}
    assert claim_history.judge(racks.there.connection).broken == []
    assert racks.differences() == {}


def test_open_transaction_does_not_make_claims_read_the_change_log_again(racks: Racks, cluster: Cluster) -> None:
    without = log_rows_read(racks)
    with cluster.connect("postgres") as other:  # a transaction in any database of the server
        other.execute("SELECT pg_current_xact_id()")
        beside = log_rows_read(racks)
    assert beside <= 2 * without


def log_rows_read(racks: Racks) -> int:
    """Return how many rows of the change log two processes read while they create servers in turn."""
    before = statistic(racks, LOG_ROWS_READ)
    for _ in range(20):
        boot(racks.here)
        boot(racks.there)
    return statistic(racks, LOG_ROWS_READ) - before


def statistic(racks: Racks, query: sa.TextClause) -> int:
    """Return a statistic of the database; a session reports its share at its end."""
    for cloud in (racks.here, racks.there):
        cloud.connection.dispose()
    wait_for_last_session(racks.there.connection)
    with racks.there.connection.connect() as connection:
        return int(connection.execute(query).scalar_one())


def test_deadlocked_boot_is_tried_again(racks: Racks) -> None:
    with racks.there.connection.connect() as other, ThreadPoolExecutor(1) as pool:
        other.execute(sa.text("SET LOCAL deadlock_timeout = '1h'"))  # so PostgreSQL aborts the boot
        other.execute(sa.text("SELECT 1 FROM hosts FOR UPDATE"))
        made = pool.submit(request_server, racks.here.alice)
        wait_for_waiting_sessions(racks.there.connection)  # it has its inventory, and waits for its host
        other.execute(sa.text("SELECT 1 FROM inventories FOR UPDATE"))
        other.rollback()
        assert made.result(TIMEOUT_S).status == 202
    assert statistic(racks, DEADLOCKS) == 1
