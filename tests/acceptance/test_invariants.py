"""The invariant checker reports violations in deliberately corrupted rows."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from covey.model.claims import NewServer, Plan
from covey.model.groups import Group, GroupPolicy, PolicyKind
from covey.model.ids import GroupId, HostId, ProjectId, ServerId, UserId
from covey.model.resources import resource_request, server_resources
from covey.model.servers import Power, Server, Task, VmState
from covey.storage import engine
from covey.storage.store import Store
from tests.acceptance.invariants import violations
from tests.build import NOW, a_flavor, a_host
from tests.databases import SQLite

PROJECT, USER = ProjectId("web"), UserId("alice")
FLAVOR = a_flavor("tiny", id="tiny", vcpus=2, memory_mb=512, disk_gb=1)


def a_server(name: str, host: int | None, group: str | None = None) -> NewServer:
    placed = host is not None
    server = Server(
        id=ServerId(name),
        name=name,
        project_id=PROJECT,
        user_id=USER,
        flavor=FLAVOR,
        vm_state=VmState.BUILDING if placed else VmState.ERROR,
        task=Task.SPAWNING if placed else None,
        power=Power.NONE,
        created_at=NOW,
        updated_at=NOW,
        host_id=None if host is None else HostId(host),
        group_id=None if group is None else GroupId(group),
    )
    allocations = {} if host is None else {host: resource_request(server.flavor).total}
    return NewServer(server, "req-1", allocations)


def a_group(name: str, *policies: GroupPolicy) -> Group:
    return Group(GroupId(name), name, PROJECT, USER, policies, 0, NOW)


@pytest.fixture
def file(tmp_path: Path, sqlite_server: SQLite) -> Iterator[Path]:
    """Create three hosts and eleven servers: in four groups, in error, shelved, and moved."""
    with sqlite_server.fresh(tmp_path) as url:
        connected = engine.connect(url)
        with Store(connected).write() as tx:
            tx.hosts.add([a_host(f"host-{i}") for i in (1, 2, 3)], NOW)
            tx.groups.add(a_group("apart", GroupPolicy(PolicyKind.ANTI_AFFINITY)))
            tx.groups.add(a_group("together", GroupPolicy(PolicyKind.AFFINITY)))
            tx.groups.add(a_group("two", GroupPolicy(PolicyKind.ANTI_AFFINITY, limit=2)))
            tx.groups.add(a_group("soft", GroupPolicy(PolicyKind.SOFT_ANTI_AFFINITY)))
            placed = [a_server("apart-1", 1, "apart"), a_server("apart-2", 2, "apart")]
            placed += [a_server("together-1", 1, "together"), a_server("together-2", 1, "together")]
            placed += [a_server("two-1", 3, "two"), a_server("two-2", 3, "two")]
            placed += [a_server("soft-1", 2, "soft"), a_server("soft-2", 2, "soft")]
            placed += [a_server("shelved", 3), a_server("moved", 3)]
            tx.claims.commit(Plan(placed=placed, failed=[a_server("lost", None)]), "", 0, None)
            tx.server_allocations.release("shelved")
            tx.server_allocations.give_to_migration(ServerId("moved"), "the-move")
            tx.server_allocations.relocate("moved", {2: server_resources(2, 512, 1)})
        with connected.begin() as connection:
            for text in (
                "DELETE FROM work",
                "UPDATE servers SET vm_state = 'active', task_state = NULL WHERE host_id IS NOT NULL",
                "UPDATE servers SET vm_state = 'shelved_offloaded', host_id = NULL WHERE id = 'shelved'",
                "UPDATE servers SET vm_state = 'resized', host_id = 2, second_host_id = 3 WHERE id = 'moved'",
                (
                    "INSERT INTO migrations (uuid, server_id, project_id, user_id, kind, status, source, old_flavor, "
                    "new_flavor, created_at, updated_at) SELECT 'the-move', id, project_id, user_id, 'migration', "
                    "'finished', 'host-3', flavor, flavor, created_at, updated_at FROM servers WHERE id = 'moved'"
                ),
            ):
                connection.execute(sa.text(text))
        connected.dispose()
        yield tmp_path / "covey.sqlite"


def found(file: Path, *, idle: bool = True) -> list[str]:
    connected = engine.connect(f"sqlite:///{file}")
    seen = violations(connected, idle=idle)
    connected.dispose()
    return seen


def test_valid_rows_satisfy_the_invariants(file: Path) -> None:
    assert found(file) == []


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        pytest.param(
            "UPDATE servers SET host_id = 1 WHERE id = 'apart-2'",
            "apart: anti-affinity, but 2 places in 1, not 1",
            id="two that must be apart on one host",
        ),
        pytest.param(
            "INSERT INTO instance_group_members VALUES ('moved', 'apart')",
            "apart: anti-affinity, but 2 places in 2, not 1",
            id="the place to which a member moved counts",
        ),
        pytest.param(
            "INSERT INTO instance_group_members VALUES ('moved', 'two')",
            "two: anti-affinity, but 3 places in 3, not 2",
            id="the place from which a member moved counts, and a rule is a limit",
        ),
        pytest.param(
            "UPDATE servers SET host_id = 2 WHERE id = 'together-2'",
            "together: affinity, but places in {1: 1, 2: 1}",
            id="two that must be together on two hosts",
        ),
        pytest.param(
            "INSERT INTO instance_group_members VALUES ('moved', 'together')",
            "together: affinity, but places in {1: 2, 2: 1, 3: 1}",
            id="one that moves and is not alone",
        ),
        pytest.param(
            "UPDATE instance_group_policies SET identifier = 'host-2' WHERE group_id = 'together'",
            "together: 0 of 2 places are in host-2, against affinity",
            id="together, and elsewhere than they should be",
        ),
        pytest.param(
            "UPDATE instance_group_policies SET scope_id = 'rack' WHERE group_id = 'together'",
            "together: 2 places are in no domain of the scope, against affinity",
            id="places in no domain of the scope",
        ),
        pytest.param(
            "UPDATE inventories SET used = used + 1 WHERE provider_id = 1 AND resource_class = 'VCPU'",
            "provider 1, VCPU: 7 used, but 6 allocated",
            id="usage without an allocation",
        ),
        pytest.param(
            "UPDATE inventories SET total = 7 WHERE provider_id = 3 AND resource_class = 'VCPU'; "
            "UPDATE inventories SET allocation_ratio = 0.7 WHERE provider_id = 3 AND resource_class = 'VCPU'",
            "provider 3, VCPU: 6 used, more than there is",
            id="more room taken than there is, rounded down",
        ),
        pytest.param(
            "DELETE FROM servers WHERE id = 'soft-1'",
            "soft-1 holds {'VCPU': 2, 'MEMORY_MB': 512, 'DISK_GB': 1} on 2, and should hold None",
            id="allocations of a server that does not exist",
        ),
        pytest.param(
            "UPDATE migrations SET status = 'confirmed'; UPDATE servers SET second_host_id = NULL WHERE id = 'moved'",
            "the-move holds {'VCPU': 2, 'MEMORY_MB': 512, 'DISK_GB': 1} on 3, and should hold None",
            id="allocations of a move that is over",
        ),
        pytest.param(
            "DELETE FROM allocations WHERE consumer_uuid = 'two-1'",
            "two-1 holds None on 3, and should hold {'VCPU': 2, 'MEMORY_MB': 512, 'DISK_GB': 1}",
            id="a server on a host that holds nothing there",
        ),
        pytest.param(
            "UPDATE allocations SET used = 3 WHERE consumer_uuid = 'two-1' AND resource_class = 'VCPU'",
            "two-1 holds {'VCPU': 3, 'MEMORY_MB': 512, 'DISK_GB': 1} on 3, and should hold "
            "{'VCPU': 2, 'MEMORY_MB': 512, 'DISK_GB': 1}",
            id="a server that holds another size than its own",
        ),
        pytest.param(
            "INSERT INTO consumers (uuid, project_id, user_id) VALUES ('unused', 'web', 'alice')",
            "consumer unused holds nothing",
            id="a consumer without allocations",
        ),
        pytest.param(
            "INSERT INTO aggregates (id, uuid, name, created_at) VALUES (1, 'u', 'rack', '2026-01-31 12:00:00'); "
            "INSERT INTO aggregate_hosts (aggregate_id, host_id) VALUES (1, 2)",
            "host 2 is in aggregate 1, and its provider is not",
            id="an aggregate that is not mirrored",
        ),
        pytest.param(
            "UPDATE servers SET host_id = 1 WHERE id = 'shelved'", "shelved is shelved, and on host 1", id="shelved"
        ),
        pytest.param(
            "INSERT INTO instance_group_members VALUES ('lost', 'soft')",
            "lost is a member of soft, and in error without a place",
            id="a member in error without a place",
        ),
        pytest.param(
            "INSERT INTO instance_group_members VALUES ('ghost', 'soft')",
            "ghost is a member of soft, and does not exist",
            id="a member that does not exist",
        ),
        pytest.param(
            "DELETE FROM instance_groups WHERE id = 'soft'",
            "soft-1 is a member of soft, which does not exist",
            id="a member of a group that does not exist",
        ),
        pytest.param(
            "UPDATE servers SET second_host_id = 2 WHERE id = 'apart-1'",
            "apart-1 has a second host 2, which its moves do not explain",
            id="a second place without a move",
        ),
        pytest.param(
            "DELETE FROM servers WHERE id = 'moved'",
            "a move of moved, which does not exist, is under way",
            id="a move of a server that does not exist",
        ),
        pytest.param(
            "UPDATE quota_usages SET cores = cores - 2",
            "project web uses [11, 22, 5632], and [11, 20, 5632] is counted",
            id="use that is not counted",
        ),
        pytest.param(
            "INSERT INTO quota_usages VALUES ('other', 1, 1, 1)",
            "project other uses [0, 0, 0], and [1, 1, 1] is counted",
            id="use that is not there",
        ),
    ],
)
def test_each_violation_is_reported(file: Path, spoil: str, sentence: str) -> None:
    with sqlite3.connect(file) as raw:  # SQLite enforces foreign keys only on request
        raw.executescript(spoil)
    raw.close()
    assert sentence in found(file, idle=False)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (
            (
                "INSERT INTO work (verb, server_id, arguments, due_at) "
                "VALUES ('spawn', 'two-1', '{}', '2026-01-31 12:00:00')"
            ),
            "spawn of two-1 is still to be done, due at 2026-01-31 12:00:00",
        ),
        ("UPDATE servers SET task_state = 'migrating' WHERE id = 'two-1'", "two-1 is left active, migrating"),
        ("UPDATE servers SET vm_state = 'building' WHERE id = 'two-1'", "two-1 is left building, None"),
        ("UPDATE servers SET vm_state = 'active' WHERE id = 'shelved'", "shelved is active, and nowhere"),
        ("UPDATE migrations SET status = 'preparing'", "a move of moved is left preparing"),
    ],
)
def test_unfinished_work_is_a_violation_only_at_rest(file: Path, spoil: str, sentence: str) -> None:
    with sqlite3.connect(file) as raw:
        raw.executescript(spoil)
    raw.close()
    assert sentence not in found(file, idle=False)
    assert sentence in found(file)
