"""A claim follows the topology of its commit, whatever changes after its decision."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests import claim_history
from tests.functional.client import Answer
from tests.functional.racks import LIVE_MIGRATION, Racks, boot_on, recorded_racks, request_server
from tests.postgresql_cluster import Cluster
from tests.sessions import wait_for_waiting_sessions, waiting_sessions

TIMEOUT_S = 30
LOCK_INVENTORY = sa.text("""
    SELECT 1 FROM inventories i JOIN hosts h ON h.id = i.provider_id WHERE h.name = :host FOR UPDATE OF i
""")


@pytest.fixture
def racks(cluster: Cluster, tmp_path: Path) -> Iterator[Racks]:
    with recorded_racks(cluster, tmp_path) as made:
        yield made


def race(racks: Racks, host: str, claim: Callable[[], Answer], change: Callable[[], None]) -> Answer:
    """Begin a claim on the host, which waits before its commit; begin a change; then let the claim go on."""
    with ThreadPoolExecutor(2) as pool:
        with racks.there.connection.connect() as holder:
            holder.execute(LOCK_INVENTORY, {"host": host})
            claimed = pool.submit(claim)
            wait_for_waiting_sessions(racks.there.connection)
            changed = pool.submit(change)
            _wait_until_done_or_blocked(racks, changed)
        changed.result(TIMEOUT_S)
        return claimed.result(TIMEOUT_S)


def _wait_until_done_or_blocked(racks: Racks, changed: "Future[None]") -> None:
    for _ in range(TIMEOUT_S * 10):
        if wait([changed], 0.1).done or len(waiting_sessions(racks.there.connection)) > 1:
            return
    raise AssertionError("the change neither ends nor waits")


def test_boot_keeps_its_policy_when_its_host_changes_the_rack(racks: Racks) -> None:
    group = racks.here.group("anti-affinity:rack")
    boot_on(racks.here, "node-1", group)
    boot_on(racks.here, "node-3", group)
    answer = race(
        racks, "node-2", lambda: request_server(racks.here.alice, group), lambda: racks.move("node-2", "rack-1")
    )
    assert answer.status == 202
    assert claim_history.judge(racks.there.connection).broken == []
    assert racks.differences() == {}


def test_boot_keeps_its_policy_when_its_host_leaves_the_rack(racks: Racks) -> None:
    group = racks.here.group("anti-affinity:rack")
    boot_on(racks.here, "node-1", group)
    boot_on(racks.here, "node-3", group)

    def leave() -> None:
        action = {"remove_host": {"host": "node-2"}}
        assert racks.there.admin.post(f"/os-aggregates/{racks.ids['rack-2']}/action", action).status == 200

    assert race(racks, "node-2", lambda: request_server(racks.here.alice, group), leave).status == 202
    assert claim_history.judge(racks.there.connection).broken == []


def test_move_keeps_its_policy_when_its_host_changes_the_rack(racks: Racks) -> None:
    group = racks.here.group("anti-affinity:rack")
    boot_on(racks.here, "node-1", group)
    server = boot_on(racks.here, "node-3", group)
    racks.there.settle()
    answer = race(
        racks,
        "node-2",
        lambda: racks.here.admin.post(f"/servers/{server}/action", LIVE_MIGRATION),
        lambda: racks.move("node-2", "rack-1"),
    )
    assert answer.status in {202, 400}, answer.text
    assert claim_history.judge(racks.there.connection).broken == []
    assert racks.differences() == {}
