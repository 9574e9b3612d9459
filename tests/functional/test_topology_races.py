"""A claim follows the topology of its commit, whatever changes after its decision."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
import sqlalchemy as sa

from covey.storage.changes import Topology
from tests import claim_history
from tests.functional.client import Answer
from tests.functional.fleets import FailingDriver
from tests.functional.nova_consumers import Nova
from tests.functional.racks import LIVE_MIGRATION, Racks, boot, boot_on, recorded_racks, request_server
from tests.postgresql_cluster import Cluster
from tests.sessions import wait_for_waiting_sessions, waiting_sessions

T = TypeVar("T")

TIMEOUT_S = 30
LOCK_INVENTORY = sa.text("""
    SELECT 1 FROM inventories i JOIN hosts h ON h.id = i.provider_id WHERE h.name = :host FOR UPDATE OF i
""")
LOCK_MEMBERS = sa.text("LOCK TABLE instance_group_members IN SHARE MODE")
LAST_COMMITS = sa.text("""
    SELECT kind FROM claim_history WHERE added AND kind IN ('member', 'domain')
    ORDER BY pg_xact_commit_timestamp(xmin) DESC LIMIT 2
""")


@pytest.fixture
def racks(cluster: Cluster, tmp_path: Path) -> Iterator[Racks]:
    with recorded_racks(cluster, tmp_path) as made:
        yield made


def race(racks: Racks, host: str, claim: Callable[[], T], change: Callable[[], None]) -> T:
    """Begin a claim on the host, which waits before its commit; begin a change; then let the claim go on."""
    return race_beside(racks, LOCK_INVENTORY.bindparams(host=host), claim, change)


def race_beside(racks: Racks, held: sa.TextClause, claim: Callable[[], T], change: Callable[[], None]) -> T:
    with ThreadPoolExecutor(2) as pool:
        with racks.there.connection.connect() as holder:
            holder.execute(held)
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


def test_claim_of_nova_keeps_its_policy_when_its_host_changes_the_rack(racks: Racks) -> None:
    group = racks.here.group("anti-affinity:rack")
    with racks.here.store.read() as tx:
        nova = Nova(racks.here, {provider.name: provider.uuid for provider in tx.fleet_records.all().providers})
    nova.place(nova.member(group), "node-1")
    second = nova.member(group)
    answer = race(racks, "node-2", lambda: nova.claim(second, "node-2"), lambda: racks.move("node-2", "rack-1"))
    assert answer.status in {204, 409}, answer.text
    judged = claim_history.judge(racks.there.connection)
    assert (judged.claims, judged.broken) == (2 if answer.status == 204 else 1, [])
    assert racks.differences() == {}


def test_limit_is_compared_with_the_usage_of_boots_that_are_not_committed(racks: Racks) -> None:
    boot(racks.here, availability_zone="nova:node-1")
    answers = list[Answer]()

    def lower_limit() -> None:
        answers.append(racks.there.admin.put("/os-quota-sets/web", {"quota_set": {"instances": 1}}))

    admin = racks.here.alice.sending(X_Roles="admin")
    booted = race(racks, "node-2", lambda: request_server(admin, availability_zone="nova:node-2"), lower_limit)
    assert booted.status == 202
    assert [answer.status for answer in answers] == [400]


def test_reschedule_keeps_its_policy_when_its_host_changes_the_rack(racks: Racks) -> None:
    group = racks.here.group("anti-affinity:rack")
    boot_on(racks.here, "node-1", group)
    racks.there.settle()
    racks.there.set_host("node-2", status="disabled")
    boot(racks.here, group)
    racks.there.set_host("node-2", status="enabled")
    made = racks.here.assembled
    failing = replace(made, builds=replace(made.builds, driver=FailingDriver({"node-3"})))
    assert race(racks, "node-2", failing.worker().run_once, lambda: racks.move("node-2", "rack-1")) == 1
    assert claim_history.judge(racks.there.connection).broken == []
    assert racks.differences() == {}


def test_unshelve_keeps_its_policy_when_its_host_changes_the_rack(racks: Racks) -> None:
    group = racks.here.group("anti-affinity:rack")
    boot_on(racks.here, "node-1", group)
    server = boot_on(racks.here, "node-3", group)
    racks.there.settle()
    racks.there.run_action(racks.there.alice, server, "shelve")
    racks.there.set_host("node-3", status="disabled")
    answer = race(
        racks,
        "node-2",
        lambda: racks.here.alice.post(f"/servers/{server}/action", {"unshelve": None}),
        lambda: racks.move("node-2", "rack-1"),
    )
    assert answer.status in {202, 409}, answer.text
    assert claim_history.judge(racks.there.connection).broken == []
    assert racks.differences() == {}


def test_enforced_join_commits_before_the_host_changes_the_rack(racks: Racks) -> None:
    group = racks.here.group("anti-affinity:rack")
    boot_on(racks.here, "node-1", group)
    server = boot(racks.here, availability_zone="nova:node-2")
    joining = {"add_instance": {"instance_id": server, "enforce": True}}
    answer = race_beside(
        racks,
        LOCK_MEMBERS,
        lambda: racks.here.alice.post(f"/os-server-groups/{group}/action", joining),
        lambda: racks.move("node-2", "rack-1"),
    )
    assert answer.status == 200, answer.text
    with racks.there.connection.connect() as connection:
        assert list(connection.execute(LAST_COMMITS).scalars()) == ["domain", "member"]


def test_enforced_join_is_judged_by_a_changed_topology(racks: Racks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the lock of the token, as a change that commits after the look."""
    group = racks.here.group("anti-affinity:rack")
    boot_on(racks.here, "node-1", group)
    server = boot(racks.here, availability_zone="nova:node-2")
    monkeypatch.setattr(Topology, "hold", lambda _: None)
    joining = {"add_instance": {"instance_id": server, "enforce": True}}
    answer = race_beside(
        racks,
        LOCK_MEMBERS,
        lambda: racks.here.alice.post(f"/os-server-groups/{group}/action", joining),
        lambda: racks.move("node-2", "rack-1"),
    )
    assert answer.status == 409, answer.text
    assert "would violate the group's policies" in answer.text
